/* SPDX-License-Identifier: Apache-2.0 */
/* Trees out of manifests: names are found where they are, links that leave are not let in. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "skill/image.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILE_LINE(path) "file 644 1 " SHA " - " path "\n"
#define TEXT(lines, count) "cordon-skill 1\nslug s\n" lines "end " count "\n"

static struct skill_image *parse(const char *text)
{
	struct skill_image *image = NULL;
	struct err e;

	if (skill_image_parse(text, strlen(text), &image, &e) < 0)
		fail_msg("%s", e.msg);
	return image;
}

static long find(const struct skill_image *image, const char *path)
{
	return skill_image_find(image, path, strlen(path));
}

static void every_name_is_found_where_it_is(void **state)
{
	static const char *const paths[] = { "a", "b/c", "b/d/e", "b!", "z" };
	struct skill_image *image = parse(TEXT(FILE_LINE("a") FILE_LINE("b/c") FILE_LINE("b/d/e") FILE_LINE("b!") FILE_LINE("z"), "5"));
	char path[SKILL_PATH_MAX];

	(void)state;
	assert_int_equal(image->nnodes, 8); /* the root, b, b/d and five files */
	assert_int_equal(image->nfiles, 5);
	assert_int_equal(image->file_bytes, 5);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		long node = find(image, paths[i]);
		assert_true(node > 0);
		assert_int_equal(image->nodes[node].kind, SKILL_FILE);
		assert_int_equal(skill_image_path(image, (uint32_t)node, path), strlen(paths[i]));
		assert_memory_equal(path, paths[i], strlen(paths[i]));
	}
	assert_int_equal(find(image, ""), 0);
	assert_int_equal(image->nodes[find(image, "b")].kind, SKILL_DIR);
	assert_int_equal(image->nodes[find(image, "b")].size, 1); /* subdirectories */
	assert_int_equal(find(image, "A"), -1);
	assert_int_equal(find(image, "b/"), -1);
	assert_int_equal(find(image, "a/x"), -1);
	assert_int_equal(find(image, "b/d/e/f"), -1);
	assert_int_equal(find(image, ".."), -1);
	skill_image_free(image);
}

static void an_empty_one_is_a_directory(void **state)
{
	struct skill_image *image = parse(TEXT("", "0"));

	(void)state;
	assert_int_equal(image->nnodes, 1);
	assert_int_equal(find(image, "a"), -1);
	skill_image_free(image);
}

static void a_file_is_no_directory(void **state)
{
	static const char *const bad[] = {
		TEXT(FILE_LINE("a") FILE_LINE("a/b"), "2"),
		TEXT(FILE_LINE("a/b") FILE_LINE("a/b/c"), "2"),
		TEXT("link x a\n" FILE_LINE("a/b"), "2"),
	};
	struct skill_image *image = NULL;
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(skill_image_parse(bad[i], strlen(bad[i]), &image, &e), -EBADMSG);
		assert_non_null(strstr(e.msg, "both a file and a directory"));
	}
}

static const struct {
	const char *text;
	bool stays;
} links[] = {
	{ TEXT("link a l\n", "1"), true }, /* dangling */
	{ TEXT("link . l\n", "1"), true },
	{ TEXT("link .. l\n", "1"), false },
	{ TEXT("link ../x l\n", "1"), false },
	{ TEXT("link .. d/l\n", "1"), true },
	{ TEXT("link ../.. d/l\n", "1"), false },
	{ TEXT("link d/../.. l\n", "1"), false },
	{ TEXT(FILE_LINE("d/f") "link ./d//../d/f l\n", "2"), true },
	{ TEXT(FILE_LINE("d/f") "link d/f/../../.. l\n", "2"), false },
	{ TEXT("link none/../.. l\n", "1"), false },
	{ TEXT("link l l\n", "1"), false },
	{ TEXT("link b a\nlink a b\n", "2"), false },
	{ TEXT("link ../.. x/y/up\nlink up/../etc x/y/z\n", "2"), false },
	{ TEXT("link ../.. x/y/up\nlink up/x/y x/y/z\n", "2"), true },
	{ TEXT("link b/.. a\nlink d/e b\n" FILE_LINE("d/e/f"), "3"), true },
};

static void a_link_is_judged_by_where_it_leads(void **state)
{
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		struct skill_image *image = parse(links[i].text);
		if ((skill_image_check_links(image, &e) == 0) != links[i].stays)
			fail_msg("%s", links[i].text);
		skill_image_free(image);
	}
}

static void numbers_depend_on_the_text_alone(void **state)
{
	static const char text[] = TEXT(FILE_LINE("a/b/c") FILE_LINE("a/d") FILE_LINE("e"), "3");
	struct skill_image *one = parse(text), *two = parse(text);

	(void)state;
	assert_int_equal(one->nnodes, two->nnodes);
	for (uint32_t i = 0; i < one->nnodes; i++)
		assert_memory_equal(&one->nodes[i], &two->nodes[i], sizeof(one->nodes[i]));
	skill_image_free(one);
	skill_image_free(two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_is_found_where_it_is),
		cmocka_unit_test(an_empty_one_is_a_directory),
		cmocka_unit_test(a_file_is_no_directory),
		cmocka_unit_test(a_link_is_judged_by_where_it_leads),
		cmocka_unit_test(numbers_depend_on_the_text_alone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("skill_image", tests, NULL, NULL);
}
