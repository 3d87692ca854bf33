/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receipts and envelopes from outside: nothing but what the key signed is
 * valid, and what is read writes out the same.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "receipt/statement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct secret_set *keys;
	static struct ed25519_public pub;
	struct receipt_facts none = { 0 };
	struct receipt r, back;
	struct err e = { 0 };

	if (!keys) {
		if (secrets_from_key(1, "fuzz", 4, &keys, &e) < 0)
			return 0;
		statement_public(secrets_current(keys), &pub, &e);
	}
	auto_json json_t *statement = NULL;
	assert(statement_verify((const char *)data, size, &pub, 1, &statement, &e) < 0);
	assert(statement_verify((const char *)data, size, NULL, 0, &statement, &e) == -ENOKEY);

	auto_json json_t *v = json_parse_strict((const char *)data, size, 2, &e);
	if (!v || receipt_from_json(v, &r, &e) < 0)
		return 0;
	assert(!receipt_verify(&r, keys, &none).is_valid);
	auto_json json_t *out = receipt_to_json(&r);
	assert(out && json_equal(out, v) && receipt_from_json(out, &back, &e) == 0);
	assert(memcmp(&r, &back, sizeof(r)) == 0);
	return 0;
}
