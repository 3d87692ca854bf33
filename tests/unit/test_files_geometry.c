/* SPDX-License-Identifier: Apache-2.0 */
/* Inside and outside by letters (K6). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files/geometry.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void below_is_by_whole_parts(void **state)
{
	static const struct {
		const char *root, *path;
		bool want;
	} rows[] = {
		{ "/a", "/a", true }, { "/a", "/a/b", true }, { "/a", "/ab", false }, { "/a", "/", false },
		{ "/", "/", true }, { "/", "/x/y", true }, { "/a/b", "/a", false }, { "/a/b", "/a/b/c", true },
		{ "/a", "a", false }, { "", "/a", false }, { "/a", "/A", false }, { "/a", "/a/", true },
	};

	(void)state;
	for (size_t i = 0; i < LEN(rows); i++)
		assert_int_equal(files_is_below(rows[i].root, rows[i].path), rows[i].want);
}

static void deny_wins(void **state)
{
	static const char *const allow[] = { "/a", "/d/in" }, *const deny[] = { "/a/no", "/d" };

	(void)state;
	assert_int_equal(files_judge(allow, 2, deny, 2, "/a/x"), FILES_INSIDE);
	assert_int_equal(files_judge(allow, 2, deny, 2, "/a"), FILES_INSIDE);
	assert_int_equal(files_judge(allow, 2, deny, 2, "/a/no"), FILES_DENIED);
	assert_int_equal(files_judge(allow, 2, deny, 2, "/a/no/x"), FILES_DENIED);
	assert_int_equal(files_judge(allow, 2, deny, 2, "/a/nothing"), FILES_INSIDE);
	assert_int_equal(files_judge(allow, 2, deny, 2, "/d/in/x"), FILES_DENIED);
	assert_int_equal(files_judge(allow, 2, deny, 2, "/b"), FILES_OUTSIDE);
	assert_int_equal(files_judge(NULL, 0, NULL, 0, "/"), FILES_OUTSIDE);
}

static void joining_is_by_letters_and_stops_at_the_top(void **state)
{
	static const struct {
		const char *base, *rest, *want;
	} rows[] = {
		{ "/a", "b", "/a/b" }, { "/a", "/b", "/b" }, { "/a", "../b", "/b" }, { "/a", "../../../b", "/b" },
		{ "/", "a", "/a" }, { "/", "..", "/" }, { "/a/b", ".", "/a/b" }, { "/a/b", "..", "/a" },
		{ "/a", "", "/a" }, { "/a", "./b//c/./../d/", "/a/b/d" }, { "/a", "...", "/a/..." },
	};
	char out[FILES_PATH_MAX], part[FILES_PATH_MAX + 2];

	(void)state;
	for (size_t i = 0; i < LEN(rows); i++) {
		assert_true(files_join(rows[i].base, rows[i].rest, out));
		assert_string_equal(out, rows[i].want);
	}
	assert_false(files_join("a", "b", out));
	memset(part, 'x', sizeof(part));
	part[FILES_PATH_MAX - 2] = '\0';
	assert_true(files_join("/", part, out));
	part[FILES_PATH_MAX - 2] = 'x';
	part[FILES_PATH_MAX - 1] = '\0';
	assert_false(files_join("/", part, out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(below_is_by_whole_parts),
		cmocka_unit_test(deny_wins),
		cmocka_unit_test(joining_is_by_letters_and_stops_at_the_top),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("files_geometry", tests, NULL, NULL);
}
