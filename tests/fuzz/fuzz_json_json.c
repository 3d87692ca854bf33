/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strict door: whatever is accepted is an object or array of bounded depth
 * that writes and reads back the same; the table reader stays inside its struct.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "json/json.h"

struct target {
	char text[8];
	uint8_t guard;
	const char *ptr;
	uint64_t wide;
	uint32_t narrow;
	bool flag;
	const json_t *any;
};

static const struct json_field fields[] = {
	FIELD(struct target, text, "t", FIELD_TEXT, 0, 0),
	FIELD(struct target, ptr, "p", FIELD_PTR, FIELD_REQUIRED, 5),
	FIELD(struct target, wide, "w", FIELD_U64, 0, 0),
	FIELD(struct target, narrow, "n", FIELD_U32, 0, 100),
	FIELD(struct target, flag, "f", FIELD_BOOL, 0, 0),
	FIELD(struct target, any, "a", FIELD_ANY, 0, 0),
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	auto_json json_t *v = json_parse_strict((const char *)data, size, JSON_DEPTH, &e);

	if (!v) {
		assert(e.code != 0 && memchr(e.msg, '\0', sizeof(e.msg)));
		return 0;
	}
	assert(json_is_object(v) || json_is_array(v));
	size_t len;
	autofree char *text = json_dump_compact(v, &len);
	if (text) { /* a real may have no shortest form that reads back; everything else does */
		auto_json json_t *again = json_parse_strict(text, len, JSON_DEPTH, &e);
		assert(again && json_equal(v, again));
	}
	struct target t = { .guard = 0xee };
	if (json_fields_read(v, fields, ARRAY_SIZE(fields), &t, &e) == 0)
		assert(strlen(t.text) < sizeof(t.text) && strlen(t.ptr) <= 5 && t.narrow <= 100);
	assert(t.guard == 0xee);
	return 0;
}
