/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flat reader against jansson: what it accepts jansson accepts too, with
 * the same members and values. It may refuse more (order, blanks, depth), never less.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "json/flat.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char a[64], b[16];
	struct flat_member m[] = {
		{ "a", FLAT_TEXT, a, sizeof(a), 0, 0 },
		{ "b", FLAT_TEXT, b, sizeof(b), 0, 0 },
		{ "n", FLAT_NUMBER, NULL, 0, 0, 0 },
	};
	json_error_t why;

	assert(!flat_is_utf8("\xff", 1));
	if (!flat_read((const char *)data, size, m, 3))
		return 0;
	auto_json json_t *v = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &why);
	if (!v) { /* the one thing jansson cannot hold and we skip: a number out of its range */
		assert(json_error_code(&why) == json_error_numeric_overflow);
		return 0;
	}
	for (int i = 0; i < 3; i++) {
		const json_t *x = json_object_get(v, m[i].key);
		assert((x != NULL) == (m[i].state != FLAT_ABSENT));
		if (m[i].state != FLAT_THERE)
			continue;
		if (m[i].kind == FLAT_TEXT)
			assert(strcmp(json_string_value(x), m[i].text) == 0);
		else
			assert((uint64_t)json_integer_value(x) == m[i].number);
	}
	return 0;
}
