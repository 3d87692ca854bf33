/* SPDX-License-Identifier: Apache-2.0 */
/* Names of layer entries: where they go, what they hide, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "image/entry.h"

struct row {
	const char *name;
	enum entry_kind kind;
	const char *path, *parent, *last;
};

static void names_mean_what_the_specification_says(void **state)
{
	static const struct row rows[] = {
		{ "a", ENTRY_PLAIN, "a", ".", "a" },
		{ "a/b", ENTRY_PLAIN, "a/b", "a", "b" },
		{ "./a//b/./c/", ENTRY_PLAIN, "a/b/c", "a/b", "c" },
		{ "/etc/passwd", ENTRY_PLAIN, "etc/passwd", "etc", "passwd" },
		{ "...", ENTRY_PLAIN, "...", ".", "..." },
		{ "a..b/..c", ENTRY_PLAIN, "a..b/..c", "a..b", "..c" },
		{ ".", ENTRY_ROOT, "", "", "" },
		{ "./", ENTRY_ROOT, "", "", "" },
		{ "/", ENTRY_ROOT, "", "", "" },
		{ ".wh.a", ENTRY_HIDES, "a", ".", "a" },
		{ "d/e/.wh.a", ENTRY_HIDES, "d/e/a", "d/e", "a" },
		{ ".wh..hidden", ENTRY_HIDES, ".hidden", ".", ".hidden" },
		{ ".wh..wh..opq", ENTRY_OPAQUE, "", ".", "" },
		{ "d/.wh..wh..opq", ENTRY_OPAQUE, "d", ".", "d" },
		{ "d/e/.wh..wh..opq", ENTRY_OPAQUE, "d/e", "d", "e" },
		{ "a.wh.b", ENTRY_PLAIN, "a.wh.b", ".", "a.wh.b" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct entry t;

		assert_int_equal(entry_parse(rows[i].name, &t), rows[i].kind);
		assert_int_equal(t.kind, rows[i].kind);
		assert_string_equal(t.path, rows[i].path);
		assert_string_equal(t.parent, rows[i].parent);
		assert_string_equal(t.name, rows[i].last);
	}
}

static void nothing_leads_out(void **state)
{
	static const char *const bad[] = {
		"",	      "..",	  "../a",      "a/..",	  "a/../b",
		"/..",	      "./../a",	  ".wh.",      ".wh..",	  ".wh...",
		"a/.wh...",   ".wh..wh.", ".wh..wh.x", ".wh.a/b", "a/.wh..wh..opq/b",
		"a/.wh.../b",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct entry t;

		if (entry_parse(bad[i], &t) != ENTRY_BAD)
			fail_msg("'%s' was accepted as '%s'", bad[i], t.path);
	}
}

static void limits_are_refused_not_cut(void **state)
{
	char name[2 * ENTRY_PATH_MAX + 1] = "";
	struct entry t;

	(void)state;
	memset(name, 'x', ENTRY_NAME_MAX);
	assert_int_equal(entry_parse(name, &t), ENTRY_PLAIN);
	name[ENTRY_NAME_MAX] = 'x';
	assert_int_equal(entry_parse(name, &t), ENTRY_BAD);
	memset(name, 0, sizeof(name));
	for (int i = 0; i < ENTRY_PARTS_MAX; i++)
		strcat(name, "a/");
	assert_int_equal(entry_parse(name, &t), ENTRY_PLAIN);
	strcat(name, "b");
	assert_int_equal(entry_parse(name, &t), ENTRY_BAD);
	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = i % 100 == 99 ? '/' : 'y';
	assert_int_equal(entry_parse(name, &t), ENTRY_BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_mean_what_the_specification_says),
		cmocka_unit_test(nothing_leads_out),
		cmocka_unit_test(limits_are_refused_not_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("image/entry", tests, NULL, NULL);
}
