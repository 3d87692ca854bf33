/* SPDX-License-Identifier: Apache-2.0 */
/* The row scanner against what JSON is, and against the general reader. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "json/json.h"
#include "ledger/scan.h"

static int scan(const char *json, size_t len, struct scan_token *t)
{
	autofree char *copy = malloc(len + 1);

	assert_non_null(copy);
	memcpy(copy, json, len);
	copy[len] = '\0';
	return scan_json(copy, len, t);
}

static const char *const refused[] = {
	"", " ", "{", "}", "[", "]", "{]", "[}", "\"", "\"a", "nul", "tru", "nulll", "NULL", "1 2",
	"{} {}", "{}x", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "[1,]", "[,1]", "[1 2]", "{a:1}",
	"{'a':1}", "{1:2}", "{\"a\" 1}", "{\"a\":1 \"b\":2}", "{\"a\"::1}", "01", "-", "+1", "-01",
	".5", "1.", "1.0", "1e3", "1E3", "0x10", "9223372036854775808", "99999999999999999999",
	"NaN", "Infinity", "\"\\x\"", "\"\\u12\"", "\"\\u000g\"", "\"\\u0000\"", "\"\\ud800\"",
	"\"\\ud800x\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\t\"", "\"\n\"", "\"\x01\"",
	"\"\xff\"", "\"\xc0\xaf\"", "\"\xc1\xbf\"", "\"\xe0\x80\x80\"", "\"\xed\xa0\x80\"",
	"\"\xf0\x80\x80\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xe2\x82\"",
	"\"\x80\"", "\xef\xbb\xbf{}", "// x\n1", "[[[[[1]]]]]", "{\"a\":{\"b\":{\"c\":{\"d\":{}}}}}",
	"\"\\", "\"\\u", "{\"a\"", "{\"a\":", "\v1",
};

static void what_is_no_json_is_refused(void **state)
{
	struct scan_token t[SCAN_TOKENS];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (scan(refused[i], strlen(refused[i]), t) >= 0)
			fail_msg("accepted '%s'", refused[i]);
	assert_true(scan("\"a\0b\"", 5, t) < 0);
	assert_true(scan("1\0", 2, t) < 0);
}

static const char *const accepted[] = {
	"0", "-0", "-1", "9223372036854775807", "null", "true", "false", "\"\"", "[]", "{}", " [ ] ",
	"\t\r\n{ }\n", "[1,2,3]", "{\"a\":[{\"b\":null}],\"c\":\"d\"}", "[[[[]]]]", "{\"\":1}",
	"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"", "\"\x7f\"",
	"\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
	"[null , true,false , 0]", "{\"a\" : 1 , \"b\" : 2}",
};

/* The same value as the general reader's, token by token. */
static void compare(const struct scan_token *t, unsigned *at, const json_t *v)
{
	const struct scan_token *me = &t[(*at)++];
	const char *key;
	json_t *member;
	size_t i;

	switch (json_typeof(v)) {
	case JSON_OBJECT:
		assert_int_equal(me->kind, SCAN_OBJECT);
		assert_int_equal(me->size, json_object_size(v));
		json_object_foreach((json_t *)(uintptr_t)v, key, member) {
			assert_string_equal(t[(*at)++].s, key);
			assert_ptr_equal(scan_get(t, (unsigned)(me - t), key), &t[*at]);
			compare(t, at, member);
		}
		break;
	case JSON_ARRAY:
		assert_int_equal(me->kind, SCAN_ARRAY);
		assert_int_equal(me->size, json_array_size(v));
		json_array_foreach(v, i, member)
			compare(t, at, member);
		break;
	case JSON_STRING:
		assert_int_equal(me->kind, SCAN_TEXT);
		assert_string_equal(me->s, json_string_value(v));
		break;
	case JSON_INTEGER:
		assert_int_equal(me->kind, SCAN_INTEGER);
		assert_true(me->n == json_integer_value(v));
		break;
	case JSON_NULL:
		assert_int_equal(me->kind, SCAN_NULL);
		break;
	default:
		assert_int_equal(me->kind, SCAN_BOOL);
		assert_int_equal(me->n, json_is_true(v));
	}
	assert_int_equal(me->next, *at);
}

static void what_is_json_means_what_the_general_reader_says(void **state)
{
	struct scan_token t[SCAN_TOKENS];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		size_t len = strlen(accepted[i]);
		autofree char *copy = strdup(accepted[i]);
		int n = scan_json(copy, len, t);
		if (n <= 0)
			fail_msg("refused '%s'", accepted[i]);
		auto_json json_t *v = json_loadb(accepted[i], len,
						 JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
		unsigned at = 0;
		assert_non_null(v);
		compare(t, &at, v);
		assert_int_equal(at, n);
		assert_true(t[0].to > t[0].from && t[0].to <= len);
	}
}

static void a_doubled_key_is_not_found(void **state)
{
	struct scan_token t[SCAN_TOKENS];
	char text[] = "{\"a\":1,\"b\":{\"a\":5},\"\\u0061\":2}";

	(void)state;
	assert_true(scan_json(text, strlen(text), t) > 0);
	assert_null(scan_get(t, 0, "a"));
	assert_non_null(scan_get(t, 0, "b"));
	assert_null(scan_get(t, 0, "c"));
	assert_int_equal(scan_get(t, (unsigned)(scan_get(t, 0, "b") - t), "a")->n, 5);
	assert_null(scan_get(t, 2, "a")); /* not an object */
}

static void too_many_values_are_refused(void **state)
{
	struct scan_token t[SCAN_TOKENS];
	char text[4 * SCAN_TOKENS];
	size_t n = 0;

	(void)state;
	text[n++] = '[';
	for (int i = 0; i < SCAN_TOKENS - 1; i++) {
		text[n++] = '1';
		text[n++] = ',';
	}
	text[n - 1] = ']';
	assert_int_equal(scan(text, n, t), SCAN_TOKENS);
	text[n - 1] = ',';
	text[n++] = '1';
	text[n++] = ']';
	assert_true(scan(text, n, t) < 0);
}

/* Every prefix and every single-byte change: never beyond the text, never a crash (sanitizers). */
static void no_change_of_a_byte_harms(void **state)
{
	static const char good[] =
		"{\"row\":{\"a\":\"\\u00e9\\ud83d\\ude00\xc3\xa9\",\"n\":-12,\"m\":{\"x\":null}},\"t\":[true]}";
	struct scan_token t[SCAN_TOKENS];
	size_t len = strlen(good);

	(void)state;
	for (size_t i = 0; i < len; i++) {
		assert_true(scan(good, i, t) < 0);
		for (int c = 0; c < 256; c++) {
			autofree char *bad = malloc(len);
			memcpy(bad, good, len);
			bad[i] = (char)c;
			scan(bad, len, t);
		}
	}
	assert_true(scan(good, len, t) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_json_is_refused),
		cmocka_unit_test(what_is_json_means_what_the_general_reader_says),
		cmocka_unit_test(a_doubled_key_is_not_found),
		cmocka_unit_test(too_many_values_are_refused),
		cmocka_unit_test(no_change_of_a_byte_harms),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
