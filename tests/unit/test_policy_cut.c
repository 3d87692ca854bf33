/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting at a UTF-8 boundary: every cut of every text is judged by a plain decoder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/cut.h"

static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z\xed\x95\x9c\xc2\xa0.";

/* True when @at is where a character of @text begins. */
static int is_boundary(size_t at)
{
	return at == sizeof(text) - 1 || ((uint8_t)text[at] & 0xc0) != 0x80;
}

static void every_cut_ends_on_a_boundary(void **state)
{
	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		size_t got = cut_utf8((const uint8_t *)text, len);
		assert_true(got <= len && len - got <= CUT_TAIL);
		assert_true(is_boundary(got));
		for (size_t more = got + 1; more <= len; more++)
			assert_false(is_boundary(more)); /* never takes a whole character */
	}
}

static void bytes_that_are_no_text_are_cut_where_they_are(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} cases[] = {
		{ "\x80", 1 },		     { "\x80\x80\x80\x80\x80", 5 }, { "\xff\xfe", 2 },
		{ "\xc0", 1 },		     { "\xc1", 1 },		    { "\xf5", 1 },
		{ "\xe2\x82\xac\x80", 4 },   { "a\x80\x80\x80\x80", 5 },    { "\0\0\0", 3 },
		{ "\xf0\x9f\x98\x80\x80", 5 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(cut_utf8((const uint8_t *)cases[i].bytes, cases[i].len),
				 cases[i].len);
}

/* The first and the last lead byte of each length, whole and one byte short. */
static void every_lead_byte_asks_for_its_length(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} whole[] = {
		{ "\xc2\x80", 2 },	     { "\xdf\xbf", 2 },	  { "\xe0\xa0\x80", 3 },
		{ "\xef\xbf\xbf", 3 },     { "\xf0\x90\x80\x80", 4 }, { "\xf4\x8f\xbf\xbf", 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		for (size_t len = 1; len <= whole[i].len; len++)
			assert_int_equal(cut_utf8((const uint8_t *)whole[i].bytes, len),
					 len == whole[i].len ? len : 0);
}

static void random_bytes_lose_at_most_a_beginning(void **state)
{
	uint8_t buf[16];

	(void)state;
	srand(7);
	for (int i = 0; i < 200000; i++) {
		size_t len = (size_t)(rand() % 17);
		for (size_t k = 0; k < len; k++)
			buf[k] = (uint8_t)(rand() % 4 ? 0x80 + rand() % 0x80 : rand());
		size_t got = cut_utf8(buf, len);
		assert_true(got <= len && len - got <= CUT_TAIL);
		if (got < len)
			assert_true(buf[got] >= 0xc2 && buf[got] <= 0xf4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cut_ends_on_a_boundary),
		cmocka_unit_test(bytes_that_are_no_text_are_cut_where_they_are),
		cmocka_unit_test(every_lead_byte_asks_for_its_length),
		cmocka_unit_test(random_bytes_lose_at_most_a_beginning),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
