/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger holds: its keys, the database with its checkpoint, and the
 * end of all of it.
 */
#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "digest/secrets.h"
#include "ledger/ledger.h"

int ledger_load_keys(struct ledger *l, struct err *e)
{
	struct secret_set *fresh;

	if (secrets_load(l->keys_fd, ".", l->uid, &fresh, e) < 0)
		return err_wrap(e, "chain key");
	secrets_free(l->keys);
	l->keys = fresh;
	return 0;
}

int ledger_open_store(struct ledger *l, struct err *e)
{
	if (store_open(&l->store, l->is_required, e) < 0)
		return -e->code;
	keeper_close(&l->keeper);
	if (keeper_open(&l->keeper, l->dir_fd, l->keys, &l->store, e) < 0) {
		store_close(&l->store);
		return -e->code;
	}
	l->nonces = -1;
	if (l->keeper.is_frozen)
		log_error("checkpoint_frozen", "%s; the checkpoint is kept as evidence", l->keeper.why);
	return 0;
}

void ledger_close(struct ledger *l)
{
	struct err e;

	verify_abandon(l);
	if (l->store.db && store_sync(&l->store, &e) == 0)
		keeper_sync(&l->keeper, l->keys, &e);
	store_close(&l->store);
	keeper_close(&l->keeper);
	spool_close(&l->spool);
	secrets_free(l->keys);
	l->keys = NULL;
}
