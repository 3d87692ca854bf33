/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint file of any bytes: only the one spelling under the key is taken. */
#include <assert.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "digest/secrets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct secret_set *keys;
	struct audit_checkpoint c;
	char again[AUDIT_CHECKPOINT_LEN];
	struct err e;

	if (!keys)
		assert(secrets_from_key(1, "key", 3, &keys, &e) == 0);
	if (audit_checkpoint_parse((const char *)data, size, keys, &c, &e) == 0) {
		audit_checkpoint_render(secrets_current(keys), &c, again);
		assert(size == sizeof(again) && !memcmp(data, again, size));
	}
	return 0;
}
