/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests: what is written is read, and nothing else is (one text per content). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "skill/manifest.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char whole[] = "cordon-skill 1\nslug a\n"
			    "file 644 0 " SHA " - a%20b\n"
			    "file 755 32769 " SHA " " SHA " d/e\n"
			    "link ../a d/f\n"
			    "end 3\n";

static int read_all(const char *text, size_t len, char *again, size_t *ret_len)
{
	struct manifest_reader r;
	struct skill_entry entry;
	size_t n;
	int rc;

	if (manifest_begin(&r, text, len) < 0)
		return -1;
	n = manifest_write_begin(r.slug, again);
	while ((rc = manifest_next(&r, &entry)) == 1)
		n += manifest_write_entry(&entry, again + n);
	n += manifest_write_end(r.count, again + n);
	*ret_len = n;
	return rc;
}

static void what_is_read_is_written_again(void **state)
{
	static char again[4 * SKILL_LINE_MAX];
	size_t n;

	(void)state;
	assert_int_equal(read_all(whole, sizeof(whole) - 1, again, &n), 0);
	assert_int_equal(n, sizeof(whole) - 1);
	assert_memory_equal(again, whole, n);
}

static void entries_are_what_the_lines_say(void **state)
{
	struct manifest_reader r;
	struct skill_entry e;

	(void)state;
	assert_int_equal(manifest_begin(&r, whole, sizeof(whole) - 1), 0);
	assert_string_equal(r.slug, "a");
	assert_int_equal(manifest_next(&r, &e), 1);
	assert_true(e.kind == SKILL_FILE && !e.is_exec && e.size == 0 && e.path_len == 3);
	assert_memory_equal(e.path, "a b", 3);
	assert_int_equal(manifest_next(&r, &e), 1);
	assert_true(e.is_exec && e.size == 32769 && e.leaves[0] == 0x01 && e.sha256[31] == 0xef);
	assert_int_equal(manifest_next(&r, &e), 1);
	assert_true(e.kind == SKILL_LINK && e.target_len == 4 && e.size == 4);
	assert_int_equal(manifest_next(&r, &e), 0);
}

static void any_other_text_is_refused(void **state)
{
	static const char *const bad[] = {
		"", "cordon-skill 1", "cordon-skill 2\nslug a\nend 0\n", "cordon-skill 1\n", "cordon-skill 1\nslug \nend 0\n",
		"cordon-skill 1\nslug .a\nend 0\n", "cordon-skill 1\nslug a\n", "cordon-skill 1\nslug a\nend 1\n",
		"cordon-skill 1\nslug a\nend 00\n", "cordon-skill 1\nslug a\nend \n", "cordon-skill 1\nslug a\nend 0",
		"cordon-skill 1\nslug a\nend 0\n\n", "cordon-skill 1\nslug a\nend 0\nx",
		"cordon-skill 1\nslug a\nend 0 \n", "cordon-skill 1\nslug a\nnone x\nend 1\n",
#define LINE(l) "cordon-skill 1\nslug a\n" l "\nend 1\n"
		LINE("file 0644 0 " SHA " - x"), LINE("file 777 0 " SHA " - x"), LINE("file 644 00 " SHA " - x"),
		LINE("file 644 +1 " SHA " - x"), LINE("file 644 0x1 " SHA " - x"), LINE("file 644 4294967297 " SHA " - x"),
		LINE("file 644 0 0123 - x"), LINE("file 644 0 0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef - x"),
		LINE("file 644 0 " SHA " " SHA " x"), LINE("file 644 32769 " SHA " - x"), LINE("file 644 0 " SHA " -"),
		LINE("file 644 0 " SHA "  x"), LINE("file 644 0 " SHA " -  x"), LINE("file 644 0 " SHA " - x "),
		LINE("file 644 0 " SHA " - ../x"), LINE("file 644 0 " SHA " - a//b"), LINE("file 644 0 " SHA " - %41"),
		LINE("file 644 0 " SHA " - %00"), LINE("file 644 0 " SHA " - a\\b"), LINE("file 644 0 " SHA " - \xff"),
		LINE("link /etc x"), LINE("link %2Fetc x"), LINE("link a%00 x"), LINE("link  x"), LINE("link x"),
#undef LINE
	};
	static char again[4 * SKILL_LINE_MAX];
	size_t n;

	(void)state;
	for (size_t i = 0; i < LEN(bad); i++)
		if (read_all(bad[i], strlen(bad[i]), again, &n) == 0)
			fail_msg("accepted: %s", bad[i]);
	for (size_t cut = 0; cut < sizeof(whole) - 1; cut++)
		assert_int_equal(read_all(whole, cut, again, &n), -1);
}

static void paths_stand_in_order_and_once(void **state)
{
	static const char *const bad[] = {
		"cordon-skill 1\nslug a\nlink x b\nlink x a\nend 2\n",
		"cordon-skill 1\nslug a\nlink x a\nlink x a\nend 2\n",
		"cordon-skill 1\nslug a\nlink x a!\nlink x a/b\nend 2\n",
	};
	static char again[4 * SKILL_LINE_MAX];
	size_t n;

	(void)state;
	for (size_t i = 0; i < LEN(bad); i++)
		assert_int_equal(read_all(bad[i], strlen(bad[i]), again, &n), -1);
}

static void no_more_than_the_most_is_read(void **state)
{
	enum { LINE = sizeof("link x 000000\n") - 1 };
	static const char head[] = "cordon-skill 1\nslug a\n";
	const size_t room = sizeof(head) + (SKILL_ENTRIES_MAX + 1ul) * LINE;
	static struct manifest_reader r;
	struct skill_entry e;
	char *text = malloc(room);

	(void)state;
	assert_non_null(text);
	size_t n = (size_t)sprintf(text, "%s", head);
	for (unsigned i = 0; i <= SKILL_ENTRIES_MAX; i++)
		n += (size_t)sprintf(text + n, "link x %06u\n", i);
	assert_int_equal(manifest_begin(&r, text, n), 0);
	for (unsigned i = 0; i < SKILL_ENTRIES_MAX; i++)
		assert_int_equal(manifest_next(&r, &e), 1);
	assert_int_equal(manifest_next(&r, &e), -1);
	assert_string_equal(r.fault, "too many entries");
	/* The length is judged before a byte is looked at. */
	assert_int_equal(manifest_begin(&r, text, SKILL_MANIFEST_MAX + 1ul), -1);
	assert_string_equal(r.fault, "too long");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read_is_written_again),
		cmocka_unit_test(entries_are_what_the_lines_say),
		cmocka_unit_test(any_other_text_is_refused),
		cmocka_unit_test(paths_stand_in_order_and_once),
		cmocka_unit_test(no_more_than_the_most_is_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("skill_manifest", tests, NULL, NULL);
}
