/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's secrets (S4): the carrier's and the attestation's, and the
 * provenance key, of which it only knows whether it is there (R3). A missing
 * one is a state of the plane; a bad one is an error that names the file.
 */
#include <errno.h>
#include <string.h>

#include "base/scope.h"
#include "broker/broker.h"
#include "receipt/statement.h"

static int load(int dir, const char *name, uid_t owner, struct secret_set **ret, struct err *e)
{
	int rc = secrets_load(dir, name, owner, ret, e);

	return rc == -ENOENT ? 0 : rc;
}

int keys_load(int secrets_fd, uid_t owner, struct broker_keys *ret, struct err *e)
{
	struct broker_keys k = { 0 };

	if (load(secrets_fd, "carrier", owner, &k.carrier, e) < 0 ||
	    load(secrets_fd, "attestation", owner, &k.attestation, e) < 0 ||
	    load(secrets_fd, "provenance", owner, &k.provenance, e) < 0) {
		keys_done(&k);
		return -e->code;
	}
	if (k.attestation &&
	    statement_signer_new(secrets_current(k.attestation), &k.statement, e) < 0) {
		keys_done(&k);
		return -e->code;
	}
	*ret = k;
	return 0;
}

void keys_done(struct broker_keys *k)
{
	secrets_free(k->carrier);
	secrets_free(k->attestation);
	secrets_free(k->provenance);
	statement_signer_free(k->statement);
	memset(k, 0, sizeof(*k));
}
