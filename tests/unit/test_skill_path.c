/* SPDX-License-Identifier: Apache-2.0 */
/* What may be a slug, a path, a target (K1), and the printable form of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "skill/path.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void slugs_are_plain(void **state)
{
	static const char *const good[] = { "a", "0", "A.b_c-d", "a..", "z9" };
	static const char *const bad[] = { "", ".a", "-a", "_a", "a/b", "a b", "a\\b", "a@b", "\xc3\xa9", "a\n" };
	char longest[SKILL_SLUG_MAX + 2];

	(void)state;
	for (size_t i = 0; i < LEN(good); i++)
		assert_null(skill_slug_fault(good[i], strlen(good[i])));
	for (size_t i = 0; i < LEN(bad); i++)
		assert_non_null(skill_slug_fault(bad[i], strlen(bad[i])));
	assert_non_null(skill_slug_fault("a\0b", 3));
	memset(longest, 'a', sizeof(longest));
	assert_null(skill_slug_fault(longest, SKILL_SLUG_MAX));
	assert_non_null(skill_slug_fault(longest, SKILL_SLUG_MAX + 1));
}

static void slugs_are_compared_without_case(void **state)
{
	(void)state;
	assert_int_equal(skill_slug_compare("aBc", "AbC"), 0);
	assert_true(skill_slug_compare("a", "B") < 0);
	assert_true(skill_slug_compare("B", "a") > 0);
	assert_true(skill_slug_compare("a", "aa") < 0);
	assert_true(skill_slug_compare("_", "a") < 0);
}

static void unsafe_paths_have_a_fault(void **state)
{
	static const struct {
		const char *path, *words;
	} bad[] = {
		{ "", "empty" }, { "/", "absolute" }, { "/a", "absolute" }, { "a//b", "empty" }, { "a/", "empty" },
		{ ".", "'.' or '..'" }, { "..", "'.' or '..'" }, { "a/./b", "'.' or '..'" }, { "a/..", "'.' or '..'" },
		{ "../a", "'.' or '..'" }, { "a\\b", "backslash" },
	};
	static const char *const good[] = { "a", "a/b", "...", "..a", "a..", ".a", " ", "a b", "\xff", "a\nb", "~", "-" };
	static char longest[SKILL_PATH_MAX + 1];

	(void)state;
	for (size_t i = 0; i < LEN(bad); i++) {
		const char *fault = skill_path_fault(bad[i].path, strlen(bad[i].path));
		assert_non_null(fault);
		assert_non_null(strstr(fault, bad[i].words));
	}
	for (size_t i = 0; i < LEN(good); i++)
		assert_null(skill_path_fault(good[i], strlen(good[i])));
	assert_non_null(skill_path_fault("a\0b", 3));
	memset(longest, 'a', sizeof(longest));
	assert_null(skill_path_fault(longest, 255));
	assert_non_null(skill_path_fault(longest, 256));
	for (size_t i = 1; i < sizeof(longest); i += 2)
		longest[i] = '/';
	assert_null(skill_path_fault(longest, SKILL_PATH_MAX));
	longest[SKILL_PATH_MAX] = 'a';
	assert_non_null(skill_path_fault(longest, SKILL_PATH_MAX + 1));
}

static void targets_are_relative(void **state)
{
	static char longest[SKILL_PATH_MAX + 1];

	(void)state;
	assert_null(skill_target_fault("../a", 4));
	assert_null(skill_target_fault("a", 1));
	assert_non_null(skill_target_fault("", 0));
	assert_non_null(skill_target_fault("/a", 2));
	assert_non_null(skill_target_fault("a\\b", 3));
	assert_non_null(skill_target_fault("a\0b", 3));
	memset(longest, 'a', sizeof(longest));
	assert_null(skill_target_fault(longest, SKILL_PATH_MAX));
	assert_non_null(skill_target_fault(longest, SKILL_PATH_MAX + 1));
}

static int sign(int v)
{
	return (v > 0) - (v < 0);
}

static void a_directory_s_files_stand_together(void **state)
{
	static const char *const order[] = { "a", "a/b", "a/b/c", "a/c", "a!", "a.b", "ab", "b", "b/a", "\xff" };

	(void)state;
	for (size_t i = 0; i < LEN(order); i++)
		for (size_t k = 0; k < LEN(order); k++)
			assert_int_equal(sign(skill_path_compare(order[i], strlen(order[i]), order[k],
								 strlen(order[k]))),
					 sign((int)i - (int)k));
}

static void every_byte_string_has_one_text(void **state)
{
	char bytes[256], text[3 * 256], back[256];

	(void)state;
	for (int i = 0; i < 256; i++)
		bytes[i] = (char)i;
	size_t n = skill_escape(bytes, sizeof(bytes), text, sizeof(text));
	assert_int_not_equal(n, 0);
	for (size_t i = 0; i < n; i++)
		assert_true(text[i] > ' ' && text[i] < 0x7f);
	assert_int_equal(skill_unescape(text, n, back, sizeof(back)), 256);
	assert_memory_equal(back, bytes, sizeof(bytes));
	assert_int_equal(skill_escape("ab", 2, text, 1), 0);
	assert_int_equal(skill_unescape("abc", 3, back, 2), -1);
}

static void other_texts_of_the_same_bytes_are_refused(void **state)
{
	static const char *const bad[] = { "%41", "%", "%2", "%2g", "%0a", " ", "a b", "\n", "\xff", "%c3", "%7E" };
	char back[16];

	(void)state;
	for (size_t i = 0; i < LEN(bad); i++)
		assert_int_equal(skill_unescape(bad[i], strlen(bad[i]), back, sizeof(back)), -1);
	assert_int_equal(skill_unescape("%25%20%0A%C3", 12, back, sizeof(back)), 4);
	assert_memory_equal(back, "% \n\xc3", 4);
}

static void what_is_shown_is_cut_to_fit(void **state)
{
	char out[16];

	(void)state;
	assert_string_equal(skill_show("abc", 3, out, sizeof(out)), "abc");
	assert_string_equal(skill_show("abcdefghijklmnop", 16, out, sizeof(out)), "abcdefghi...");
	assert_string_equal(skill_show("\0\0\0\0\0\0", 6, out, sizeof(out)), "%00%00%00...");
	assert_string_equal(skill_show("", 0, out, sizeof(out)), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slugs_are_plain),
		cmocka_unit_test(slugs_are_compared_without_case),
		cmocka_unit_test(unsafe_paths_have_a_fault),
		cmocka_unit_test(targets_are_relative),
		cmocka_unit_test(a_directory_s_files_stand_together),
		cmocka_unit_test(every_byte_string_has_one_text),
		cmocka_unit_test(other_texts_of_the_same_bytes_are_refused),
		cmocka_unit_test(what_is_shown_is_cut_to_fit),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("skill_path", tests, NULL, NULL);
}
