/* SPDX-License-Identifier: Apache-2.0 */
/* The strict door for JSON, and the table reader behind it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

static int parse(const char *text, size_t len, unsigned depth)
{
	struct err e = { 0 };
	auto_json json_t *v = json_parse_strict(text, len, depth, &e);

	assert_int_equal(v == NULL, e.code != 0);
	return v ? 0 : -e.code;
}

static void loose_json_is_refused(void **s)
{
	static const char *const bad[] = {
		"", " ", "{", "}", "{}{}", "{} x", "[],", "{\"a\":1,}", "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1,\"b\":1}}",
		"{\"a\":01}", "{\"a\":+1}", "{\"a\":.5}", "{\"a\":NaN}", "{\"a\":Infinity}", "{\"a\":1e999}",
		"{\"a\":99999999999999999999}", "{a:1}", "{'a':1}", "\xef\xbb\xbf{}", "{\"a\":\"\xff\"}",
		"{\"a\":\"\xc0\xaf\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\u0000\"}",
		"{\"\\u0000\":1}", "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}", "// x\n{}", "{\"a\":tru}", "null", "1", "\"x\"",
		"{} \xff", "{}\x01",
	};

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (parse(bad[i], strlen(bad[i]), 8) != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
	assert_int_equal(parse("{}\0", 3, 8), -EINVAL);
	assert_int_equal(parse("{\"a\":\"x\0\"}", 10, 8), -EINVAL);
	assert_int_equal(parse(" {\"a\" : [1, -2.5e3, \"\\ud83d\\ude00\", null]}\n", 42, 8), 0);
}

static void depth_is_counted_before_parsing(void **s)
{
	static char deep[200001];

	(void)s;
	assert_int_equal(parse("[[[]]]", 6, 3), 0);
	assert_int_equal(parse("[[[]]]", 6, 2), -EINVAL);
	assert_int_equal(parse("[\"[[[[\\\"[[[\"]", 13, 1), 0); /* brackets in strings are text */
	assert_int_equal(parse("[[],[],[[]]]", 12, 3), 0);
	memset(deep, '[', 100000);
	memset(deep + 100000, ']', 100000);
	assert_int_equal(parse(deep, 200000, JSON_DEPTH), -EINVAL);
	memset(deep, ']', 100000);
	assert_int_equal(parse(deep, 200000, JSON_DEPTH), -EINVAL);
}

static void messages_never_quote_the_input(void **s)
{
	static const char text[] = "{\"secret-canary\": canary-value}";
	struct err e = { 0 };

	(void)s;
	assert_null(json_parse_strict(text, strlen(text), 8, &e));
	assert_null(strstr(e.msg, "canary"));
}

struct request {
	char name[8];
	const char *cwd;
	uint64_t bytes;
	uint32_t pids;
	int64_t offset;
	bool flag;
	const json_t *list, *map, *any;
};

static const struct json_field fields[] = {
	FIELD(struct request, name, "name", FIELD_TEXT, FIELD_REQUIRED, 0),
	FIELD(struct request, cwd, "cwd", FIELD_PTR, 0, 4),
	FIELD(struct request, bytes, "bytes", FIELD_U64, 0, 0),
	FIELD(struct request, pids, "pids", FIELD_U32, 0, 100),
	FIELD(struct request, offset, "offset", FIELD_I64, 0, 0),
	FIELD(struct request, flag, "flag", FIELD_BOOL, 0, 0),
	FIELD(struct request, list, "list", FIELD_ARRAY, 0, 0),
	FIELD(struct request, map, "map", FIELD_OBJECT, 0, 0),
	FIELD(struct request, any, "any", FIELD_ANY, 0, 0),
};

static void a_table_reads_every_kind(void **s)
{
	static const char text[] = "{\"name\":\"1234567\",\"cwd\":\"/abc\",\"bytes\":9223372036854775807,"
				   "\"pids\":100,\"offset\":-5,\"flag\":true,\"list\":[1],\"map\":{},\"any\":null}";
	struct request r = { 0 };
	struct err e;
	auto_json json_t *v = json_parse_strict(text, strlen(text), 8, &e);

	(void)s;
	assert_int_equal(json_fields_read(v, fields, ARRAY_SIZE(fields), &r, &e), 0);
	assert_string_equal(r.name, "1234567");
	assert_string_equal(r.cwd, "/abc");
	assert_true(r.bytes == INT64_MAX);
	assert_int_equal(r.pids, 100);
	assert_int_equal(r.offset, -5);
	assert_true(r.flag);
	assert_int_equal(json_array_size(r.list), 1);
	assert_non_null(r.map);
	assert_true(json_is_null(r.any));
}

static void absent_members_stay_as_they_were(void **s)
{
	struct request r = { .pids = 7, .cwd = "kept" };
	struct err e;
	auto_json json_t *v = json_parse_strict("{\"name\":\"\"}", 11, 8, &e);

	(void)s;
	assert_int_equal(json_fields_read(v, fields, ARRAY_SIZE(fields), &r, &e), 0);
	assert_int_equal(r.pids, 7);
	assert_string_equal(r.cwd, "kept");
}

static void what_the_table_does_not_allow_is_named(void **s)
{
	static const struct {
		const char *text, *names;
	} rows[] = {
		{ "{}", "'name'" }, { "{\"name\":1}", "'name'" }, { "{\"name\":null}", "'name'" },
		{ "{\"name\":\"12345678\"}", "'name'" }, { "{\"name\":\"\",\"cwd\":\"/abcd\"}", "'cwd'" },
		{ "{\"name\":\"\",\"bytes\":-1}", "'bytes'" }, { "{\"name\":\"\",\"bytes\":1.0}", "'bytes'" },
		{ "{\"name\":\"\",\"bytes\":\"1\"}", "'bytes'" }, { "{\"name\":\"\",\"pids\":101}", "'pids'" },
		{ "{\"name\":\"\",\"flag\":1}", "'flag'" }, { "{\"name\":\"\",\"list\":{}}", "'list'" },
		{ "{\"name\":\"\",\"map\":[]}", "'map'" }, { "{\"name\":\"\",\"Name\":\"\"}", "'Name'" },
		{ "{\"name\":\"\",\"\":1}", "''" }, { "[]", "object" },
	};

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct request r = { 0 };
		struct err e = { 0 };
		auto_json json_t *v = json_parse_strict(rows[i].text, strlen(rows[i].text), 8, &e);
		assert_non_null(v);
		assert_int_equal(json_fields_read(v, fields, ARRAY_SIZE(fields), &r, &e), -EINVAL);
		if (!strstr(e.msg, rows[i].names))
			fail_msg("'%s' does not name %s", e.msg, rows[i].names);
	}
}

static void dumps_are_compact_and_in_order(void **s)
{
	auto_json json_t *v = json_object();
	size_t len;

	(void)s;
	json_add_text(v, "z", "ä");
	json_add_text(v, "a", NULL);
	json_add_u64(v, "n", 5);
	assert_int_equal(json_add_u64(v, "big", UINT64_MAX), -1);
	assert_int_equal(json_add_text(v, "bad", "\xff"), -1);
	autofree char *text = json_dump_compact(v, &len);
	assert_string_equal(text, "{\"z\":\"ä\",\"a\":null,\"n\":5}");
	assert_int_equal(len, strlen(text));
}

static void assert_as_jansson(const json_t *v)
{
	size_t len;
	char *ours = json_dump_compact(v, &len), *theirs = json_dumps(v, JSON_COMPACT);

	assert_non_null(ours);
	assert_string_equal(ours, theirs);
	assert_int_equal(len, strlen(theirs));
	free(ours);
	free(theirs);
}

static void dumps_are_what_jansson_writes(void **s)
{
	static const char *const texts[] = {
		"{}", "[]", "[[],{},[{}],{\"\":[]}]", "[true,false,null,0,-1,9223372036854775807]",
		"[-9223372036854775808,10,100,1e300,-2.5e-3,0.1,1.0]",
		"{\"a\\\"b\":\"\\\\/\\b\\f\\n\\r\\t\",\"\xc3\xa4\":\"\\ud83d\\ude00\\u2028\"}",
	};

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_json json_t *v = json_loads(texts[i], 0, NULL);
		assert_non_null(v);
		assert_as_jansson(v);
	}
	auto_json json_t *list = json_array();
	for (unsigned c = 1; c < 0x80; c++) {
		const char text[3] = { 'x', (char)c, 'y' };
		json_array_append_new(list, json_stringn(text, sizeof(text)));
	}
	for (size_t n = 0; n < 5000; n += 61) { /* over every step of the buffer */
		char text[5000];
		memset(text, n % 2 ? '"' : 'x', sizeof(text));
		json_array_append_new(list, json_stringn(text, n));
	}
	assert_as_jansson(list);
}

static void what_has_no_text_gives_none(void **s)
{
	json_t *v = json_array(), *one = json_integer(1);

	(void)s;
	assert_null(json_dump_compact(NULL, NULL));
	assert_null(json_dump_compact(one, NULL));
	for (int i = 0; i < 63; i++) {
		json_t *outer = json_array();
		json_array_append_new(outer, v);
		v = outer;
	}
	assert_as_jansson(v);
	json_t *deepest = json_array();
	json_array_append_new(deepest, v);
	assert_null(json_dump_compact(deepest, NULL));
	json_decref(deepest);
	json_decref(one);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(loose_json_is_refused),
		cmocka_unit_test(depth_is_counted_before_parsing),
		cmocka_unit_test(messages_never_quote_the_input),
		cmocka_unit_test(a_table_reads_every_kind),
		cmocka_unit_test(absent_members_stay_as_they_were),
		cmocka_unit_test(what_the_table_does_not_allow_is_named),
		cmocka_unit_test(dumps_are_compact_and_in_order),
		cmocka_unit_test(dumps_are_what_jansson_writes),
		cmocka_unit_test(what_has_no_text_gives_none),
	};

	json_start();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
