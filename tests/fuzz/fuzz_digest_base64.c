/* SPDX-License-Identifier: Apache-2.0 */
/* base64: what decodes encodes back to the same text; bytes round-trip; PEM keys too. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "digest/base64.h"
#include "digest/digest.h"
#include "digest/ed25519.h"

enum { MAX = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t raw[MAX], back[MAX];
	static char text[BASE64_MAX(MAX)];
	struct ed25519_public keys[2];
	struct err e;
	ssize_t n;

	if (size > MAX)
		return 0;
	if ((n = base64_decode((const char *)data, size, raw, sizeof(raw))) >= 0)
		assert(base64_encode(raw, (size_t)n, text) == size && !memcmp(text, data, size));
	if ((n = base64url_decode((const char *)data, size, raw, sizeof(raw))) >= 0)
		assert(base64url_encode(raw, (size_t)n, text) == size && !memcmp(text, data, size));
	n = (ssize_t)base64_encode(data, size, text);
	assert(base64_decode(text, (size_t)n, back, sizeof(back)) == (ssize_t)size &&
	       !memcmp(back, data, size));
	n = (ssize_t)base64url_encode(data, size, text);
	assert(base64url_decode(text, (size_t)n, back, sizeof(back)) == (ssize_t)size &&
	       !memcmp(back, data, size));
	if (ed25519_public_read((const char *)data, size, keys, 2, &e) > 0)
		assert(!memmem(data, size, "PRIVATE", 7));
	return 0;
}
