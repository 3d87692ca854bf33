/* SPDX-License-Identifier: Apache-2.0 */
/* One flat object in a fixed order: what is read, what is written, what does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "json/flat.h"
#include "json/json.h"

static char text_a[8];

static bool read_two(const char *json, struct flat_member m[2])
{
	m[0] = (struct flat_member){ "a", FLAT_TEXT, text_a, sizeof(text_a), 0, 0 };
	m[1] = (struct flat_member){ "n", FLAT_NUMBER, NULL, 0, 0, 0 };
	return flat_read(json, strlen(json), m, 2);
}

static void members_are_read_in_their_order(void **s)
{
	struct flat_member m[2];

	(void)s;
	assert_true(read_two("{\"a\":\"x\\u00e9\\t\",\"n\":42}", m));
	assert_string_equal(text_a, "xé\t");
	assert_int_equal(m[1].number, 42);
	assert_true(read_two("{\"n\":0}", m));
	assert_int_equal(m[0].state, FLAT_ABSENT);
	assert_int_equal(m[1].state, FLAT_THERE);
	assert_true(read_two("{}", m));
	assert_true(read_two("{\"\\u0061\":\"x\"}", m)); /* a key is what it decodes to */
	assert_false(read_two("{\"n\":0,\"a\":\"x\"}", m));
	assert_false(read_two("{\"a\":\"x\",\"a\":\"x\"}", m));
	assert_false(read_two("{\"a\":\"x\",\"b\":1}", m));
	assert_false(read_two("[]", m));
	assert_false(read_two("{\"n\":1.}", m));
}

static void values_of_another_type_are_checked_and_reported(void **s)
{
	static const char *const wrong[] = { "1", "null", "true", "[]", "{}", "[1,[2,{\"x\":[]}]]", "{\"k\":{}}",
					     "-0.5e-10", "[[],[]]", "{\"p\":1,\"q\":[true,false]}" };
	static const char *const bad[] = { "", "nul", "[", "]", "[1", "[1,]", "[,1]", "{", "{1:2}", "{\"k\"}",
					   "{\"k\":}", "{\"k\":1,}", "[}", "{]", "01", "1.", "1e", "--1", "-", "[1}",
					   "{\"k\":1]", "[\"\\q\"]", "[1 ]", "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]" };
	struct flat_member m[2];
	char json[128];

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		snprintf(json, sizeof(json), "{\"a\":%s,\"n\":7}", wrong[i]);
		assert_true(read_two(json, m));
		assert_int_equal(m[0].state, FLAT_WRONG);
		assert_int_equal(m[1].number, 7);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(json, sizeof(json), "{\"a\":%s,\"n\":7}", bad[i]);
		if (read_two(json, m))
			fail_msg("accepted %s", json);
	}
}

static void numbers_are_plain_or_wrong(void **s)
{
	static const struct {
		const char *text;
		enum flat_state state;
	} rows[] = {
		{ "0", FLAT_THERE }, { "9007199254740991", FLAT_THERE }, { "9007199254740992", FLAT_WRONG },
		{ "18446744073709551616", FLAT_WRONG }, { "99999999999999999999999999999999", FLAT_WRONG },
		{ "-0", FLAT_WRONG }, { "-1", FLAT_WRONG }, { "1.0", FLAT_WRONG }, { "1e3", FLAT_WRONG },
		{ "\"1\"", FLAT_WRONG }, { "null", FLAT_WRONG },
	};
	struct flat_member m[2];
	char json[96];

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(json, sizeof(json), "{\"n\":%s}", rows[i].text);
		assert_true(read_two(json, m));
		assert_int_equal(m[1].state, rows[i].state);
	}
}

static void a_string_longer_than_its_buffer_is_refused(void **s)
{
	struct flat_member m[2];

	(void)s;
	assert_true(read_two("{\"a\":\"1234567\"}", m));
	assert_false(read_two("{\"a\":\"12345678\"}", m));
	assert_true(read_two("{\"a\":\"12345\\u00e9\"}", m));
	assert_false(read_two("{\"a\":\"123456\\u00e9\"}", m));
	assert_false(read_two("{\"a\":\"1234\\ud83d\\ude00\"}", m));
}

static void text_is_well_formed_or_refused(void **s)
{
	static const struct {
		const char *text;
		bool want;
	} rows[] = {
		{ "\x7f", true },	     { "\x80", false },		{ "\xc1\xbf", false },
		{ "\xc2\x80", true },	     { "\xc2", false },		{ "\xc2\xc0", false },
		{ "\xe0\x9f\xbf", false },  { "\xe0\xa0\x80", true },	{ "\xed\x9f\xbf", true },
		{ "\xed\xa0\x80", false },  { "\xe2\x82", false },	{ "\xe2\x82\x28", false },
		{ "\xe2\x82\xc0", false },  { "\xf0\x8f\xbf\xbf", false }, { "\xf0\x90\x80\x80", true },
		{ "\xf4\x8f\xbf\xbf", true }, { "\xf4\x90\x80\x80", false }, { "\xf5\x80\x80\x80", false },
		{ "\xf0\x90\x80\x20", false },
	};
	struct flat_member m[2];
	char json[32];

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(flat_is_utf8(rows[i].text, strlen(rows[i].text)), rows[i].want);
		snprintf(json, sizeof(json), "{\"a\":\"%s\"}", rows[i].text);
		assert_int_equal(read_two(json, m), rows[i].want);
		if (rows[i].want)
			assert_string_equal(text_a, rows[i].text);
	}
}

static void escapes_are_whole_or_refused(void **s)
{
	static const char *const bad[] = {
		"{\"a\":\"", "{\"a\":\"x", "{\"a\":\"\\", "{\"a\":\"\\u00e", "{\"a\":\"\\u00eg\"}",
		"{\"a\":\"\\u0000\"}", "{\"a\":\"\\udc00\"}", "{\"a\":\"\\ud83d\"}",
		"{\"a\":\"\\ud83d\\u0041\"}", "{\"a\":\"\\ud83d\\n\"}", "{\"a\":\"\\x41\"}", "{\"a\":\"\t\"}",
	};
	struct flat_member m[2];

	(void)s;
	assert_true(read_two("{\"a\":\"\\u00E9\\u20aC\"}", m)); /* either case */
	assert_string_equal(text_a, "é€");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (read_two(bad[i], m))
			fail_msg("accepted %s", bad[i]);
}

/* One text between quotes, as jansson reads it and as this does. */
static void reads_as_jansson_does(const char *inside, size_t len)
{
	char json[64], got[32];
	struct flat_member m = { "a", FLAT_TEXT, got, sizeof(got), 0, 0 };
	struct err e;
	int n = snprintf(json, sizeof(json), "{\"a\":\"%.*s\"}", (int)len, inside);

	assert_int_equal(n, len + 8);
	auto_json json_t *v = json_parse_strict(json, (size_t)n, 4, &e);
	const char *text = json_string_value(json_object_get(v, "a"));
	if (flat_read(json, (size_t)n, &m, 1) != (text != NULL))
		fail_msg("%s: jansson %s it", json, text ? "takes" : "refuses");
	if (text && strcmp(text, got) != 0)
		fail_msg("%s: read as %s, by jansson as %s", json, got, text);
}

static void every_code_unit_is_read_as_jansson_reads_it(void **s)
{
	static const unsigned first[] = { 0xd7ff, 0xd800, 0xd801, 0xdbfe, 0xdbff, 0xdc00 };
	static const unsigned second[] = { 0x41, 0xd800, 0xdbff, 0xdc00, 0xdc01, 0xdffe, 0xdfff, 0xe000 };
	static const char *const between[] = { "\\u", "\\v", "u", "\\u0", "" };
	char text[16];

	(void)s;
	for (unsigned cp = 0; cp <= 0xffff; cp++) {
		reads_as_jansson_does(text, (size_t)snprintf(text, sizeof(text), "\\u%04x", cp));
		reads_as_jansson_does(text, (size_t)snprintf(text, sizeof(text), "\\u%04X", cp));
	}
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		for (size_t j = 0; j < ARRAY_SIZE(second); j++)
			for (size_t k = 0; k < ARRAY_SIZE(between); k++) {
				int n = snprintf(text, sizeof(text), "\\u%04x%s%04X", first[i], between[k], second[j]);
				reads_as_jansson_does(text, (size_t)n);
			}
	for (int c = 1; c < 256; c++) { /* every escape, and every digit of one */
		reads_as_jansson_does((char[]){ '\\', (char)c }, 2);
		reads_as_jansson_does((char[]){ '\\', 'u', '0', '0', (char)c, '1' }, 6);
		reads_as_jansson_does((char[]){ (char)c }, 1);
	}
}

static void every_lead_of_utf8_is_read_as_jansson_reads_it(void **s)
{
	static const uint8_t last[] = { 0x20, 0x7f, 0x80, 0xbf, 0xc0, 0xff };

	(void)s;
	for (unsigned two = 0x8001; two <= 0xffff; two++) {
		char text[4] = { (char)(two >> 8), (char)two };
		if (!(two & 0xff))
			continue;
		reads_as_jansson_does(text, 2);
		for (size_t i = 0; i < ARRAY_SIZE(last) && two >= 0xe000; i++) {
			text[2] = (char)last[i];
			reads_as_jansson_does(text, 3);
			text[3] = (char)last[(i + two) % ARRAY_SIZE(last)];
			if (two >= 0xf000)
				reads_as_jansson_does(text, 4);
		}
	}
}

/* What lies behind the end is never looked at: with it, each of these would be well-formed. */
static void no_start_of_an_object_is_one(void **s)
{
	static const char *const whole[] = {
		"{\"a\":\"\\ud83d\\ude00\",\"n\":1234}", "{\"a\":\"\u20ac\\n\",\"n\":0}",
		"{\"a\":[true,false,null,{\"k\":[-1.5e+3,\"\\u00e9\"]}],\"n\":1}", "{}",
	};
	struct flat_member m[2];

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(whole); i++) {
		assert_true(read_two(whole[i], m));
		for (size_t len = 0; len < strlen(whole[i]); len++)
			assert_false(flat_read(whole[i], len, m, 2));
	}
	assert_false(read_two("{}x", m));
	assert_false(read_two("{\"n\":1}}", m));
	assert_false(read_two("{\"n\":1} ", m));
}

static void writing_escapes_as_the_contract_says(void **s)
{
	struct flat_out o;
	char buf[256];

	(void)s;
	flat_begin(&o, buf, sizeof(buf));
	flat_text(&o, "k", "\"\\/\b\f\n\r\t\x01\x1f\x7f é<>&'");
	flat_number(&o, "n", UINT64_MAX);
	flat_text(&o, "e", "");
	size_t n = flat_end(&o);
	assert_int_equal(n, strlen(buf));
	assert_string_equal(buf, "{\"k\":\"\\\"\\\\/\\u0008\\u000c\\u000a\\u000d\\u0009\\u0001\\u001f\x7f é<>&'\","
				 "\"n\":18446744073709551615,\"e\":\"\"}");
	flat_begin(&o, buf, sizeof(buf));
	assert_int_equal(flat_end(&o), 2);
	assert_string_equal(buf, "{}");
}

static void what_does_not_fit_is_never_half_written(void **s)
{
	char buf[64];
	struct flat_out o;

	(void)s;
	for (size_t cap = 0; cap <= sizeof(buf); cap++) {
		memset(buf, 0xee, sizeof(buf));
		flat_begin(&o, buf, cap);
		flat_text(&o, "key", "v\x01lue");
		flat_number(&o, "n", 12345);
		size_t n = flat_end(&o);
		assert_int_equal(n != 0, cap > strlen("{\"key\":\"v\\u0001lue\",\"n\":12345}"));
		for (size_t i = cap; i < sizeof(buf); i++)
			assert_int_equal((uint8_t)buf[i], 0xee);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_read_in_their_order),
		cmocka_unit_test(values_of_another_type_are_checked_and_reported),
		cmocka_unit_test(numbers_are_plain_or_wrong),
		cmocka_unit_test(a_string_longer_than_its_buffer_is_refused),
		cmocka_unit_test(text_is_well_formed_or_refused),
		cmocka_unit_test(escapes_are_whole_or_refused),
		cmocka_unit_test(every_code_unit_is_read_as_jansson_reads_it),
		cmocka_unit_test(every_lead_of_utf8_is_read_as_jansson_reads_it),
		cmocka_unit_test(no_start_of_an_object_is_one),
		cmocka_unit_test(writing_escapes_as_the_contract_says),
		cmocka_unit_test(what_does_not_fit_is_never_half_written),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
