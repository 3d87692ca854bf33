/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Issuing a voucher: what an authorising service beside the plane does with
 * its private key. Here for tests and tools; no daemon links a caller of it.
 */
#include <errno.h>
#include <string.h>

#include "digest/base64.h"
#include "json/flat.h"
#include "session/voucher.h"

enum { PAYLOAD_MAX = 1200, DOMAIN_LEN = sizeof(VOUCHER_DOMAIN) - 1 };

static void add_digest(struct flat_out *o, const char *key, const uint8_t d[DIGEST_LEN])
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(d, DIGEST_LEN, hex);
	flat_text(o, key, hex);
}

int voucher_issue(const uint8_t seed[ED25519_KEY_LEN], const struct voucher_use *use,
		  const char *nonce, uint64_t ttl_ms, char *out, struct err *e)
{
	char payload[PAYLOAD_MAX], message[DOMAIN_LEN + VOUCHER_MAX];
	uint8_t session[DIGEST_LEN], sig[ED25519_SIG_LEN];
	struct flat_out o;

	voucher_session_digest(use->session, session);
	flat_begin(&o, payload, sizeof(payload));
	flat_text(&o, "aud", use->audience);
	flat_text(&o, "job", use->job);
	add_digest(&o, "session", session);
	add_digest(&o, "command", use->command);
	add_digest(&o, "egress", use->egress);
	flat_text(&o, "nonce", nonce);
	flat_number(&o, "iat", use->now_ms);
	flat_number(&o, "exp", use->now_ms + ttl_ms);
	size_t n = flat_end(&o);
	if (n == 0)
		return err_set(e, EMSGSIZE, "voucher: a field is too long");

	memcpy(message, VOUCHER_DOMAIN "v1.", DOMAIN_LEN + 3);
	n = 3 + base64url_encode(payload, n, message + DOMAIN_LEN + 3);
	int rc = ed25519_sign(seed, message, DOMAIN_LEN + n, sig, e);
	if (rc < 0)
		return rc;
	memcpy(out, message + DOMAIN_LEN, n);
	out[n] = '.';
	base64url_encode(sig, sizeof(sig), out + n + 1);
	return 0;
}
