/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vouchers: any text, and any payload under a good signature. Only a payload
 * for exactly this use passes, and then its nonce has the form the store takes.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "digest/base64.h"
#include "session/voucher.h"

enum { MAX = 1400, NOW = 1000, DOMAIN_LEN = sizeof(VOUCHER_DOMAIN) - 1 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t seed[32] = { 1 };
	static struct ed25519_public pub;
	static struct session who;
	char message[DOMAIN_LEN + 2 * MAX], text[2 * MAX + 128];
	struct voucher_use use = { .audience = "a", .job = "j", .session = &who, .now_ms = NOW };
	struct voucher_nonce nonce;
	uint8_t sig[64];
	size_t n;

	if (!who.org_id[0]) {
		struct session_claim c = { "o", "u", "chat", NULL };
		session_mint(&c, 0, &who, NULL);
		ed25519_public_of(seed, &pub, NULL);
	}
	if (size < 1 || size > MAX)
		return 0;
	if (data[0] & 1) {
		n = size - 1;
		memcpy(text, data + 1, n);
	} else {
		memcpy(message, VOUCHER_DOMAIN "v1.", DOMAIN_LEN + 3);
		n = 3 + base64url_encode(data + 1, size - 1, message + DOMAIN_LEN + 3);
		ed25519_sign(seed, message, DOMAIN_LEN + n, sig, NULL);
		memcpy(text, message + DOMAIN_LEN, n);
		text[n++] = '.';
		n += base64url_encode(sig, sizeof(sig), text + n);
	}
	enum reason r = voucher_check(&pub, 1, text, n, &use, &nonce);
	if (r == REASON_NONE)
		assert(strlen(nonce.nonce) >= VOUCHER_NONCE_MIN &&
		       strlen(nonce.nonce) <= VOUCHER_NONCE_MAX && nonce.keep_until_ms > NOW);
	else
		assert(reason_code(r) && strncmp(reason_code(r), "voucher_", 8) == 0);
	return 0;
}
