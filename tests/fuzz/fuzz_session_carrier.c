/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carriers: no bytes crash the opener, no payload passes it that minting would
 * not make, and what opens seals again to a carrier that opens alike. The first
 * byte chooses whether the input is a whole carrier or a payload to be signed.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "digest/base64.h"
#include "digest/digest.h"
#include "session/carrier.h"

enum { NOW = 1000, MAX = 8192 };

static size_t sign(const uint8_t *payload, size_t size, char *text)
{
	uint8_t mac[DIGEST_LEN];
	size_t n;

	memcpy(text, "v1.", 3);
	n = 3 + base64url_encode(payload, size, text + 3);
	digest_hmac_sha256("key", 3, text, n, mac);
	text[n++] = '.';
	return n + base64url_encode(mac, sizeof(mac), text + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[2 * MAX + 128], again[CARRIER_MAX];
	static struct secret_set *keys;
	struct session s, back;
	uint64_t exp, exp_again;
	size_t n;

	if (!keys && secrets_from_key(1, "key", 3, &keys, NULL) < 0)
		return 0;
	if (size < 1 || size > MAX)
		return 0;
	if (data[0] & 1) {
		n = size - 1;
		memcpy(text, data + 1, n);
	} else {
		n = sign(data + 1, size - 1, text);
	}
	enum reason r = carrier_open(keys, text, n, NOW, &s, &exp);
	if (r != REASON_NONE) {
		assert(r == REASON_CARRIER_MALFORMED || r == REASON_CARRIER_BAD_SIGNATURE ||
		       r == REASON_CARRIER_EXPIRED);
		return 0;
	}
	assert(exp > NOW && s.org_id[0] && s.user_id[0] && surface_name(s.surface));
	assert(carrier_seal(keys, &s, NOW, exp - NOW, again, &n) == REASON_NONE);
	assert(carrier_open(keys, again, n, NOW, &back, &exp_again) == REASON_NONE);
	assert(exp == exp_again && back.surface == s.surface && !strcmp(s.org_id, back.org_id) &&
	       !strcmp(s.user_id, back.user_id) && !strcmp(s.run_id, back.run_id));
	return 0;
}
