/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog: one current version per slug, whatever is added or dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "skill/catalog.h"

#define D1 "1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "2222222222222222222222222222222222222222222222222222222222222222"
#define D3 "3333333333333333333333333333333333333333333333333333333333333333"
#define HEAD "cordon-skill-catalog 1\n"

static const char text[] = HEAD "a " D1 " 10 kept\na " D2 " 20 current\nb " D3 " 5 current\n";

static struct catalog *parse(const char *from)
{
	struct catalog *c = NULL;
	struct err e;

	if (catalog_parse(from, strlen(from), &c, &e) < 0)
		fail_msg("%s", e.msg);
	return c;
}

static void check_render(const struct catalog *c, const struct catalog_entry *add,
			 bool (*drop)(const struct catalog_entry *, void *), const char *want)
{
	char *out = NULL;
	size_t len;
	struct err e;

	assert_int_equal(catalog_render(c, add, drop, NULL, &out, &len, &e), 0);
	assert_string_equal(out, want);
	free(out);
}

static void what_is_read_is_written_again(void **state)
{
	struct catalog *c = parse(text);

	(void)state;
	assert_int_equal(c->n, 3);
	check_render(c, NULL, NULL, text);
	catalog_free(c);
	c = parse("");
	check_render(c, NULL, NULL, HEAD);
	catalog_free(c);
}

static void versions_are_found(void **state)
{
	struct catalog *c = parse(text);
	uint8_t one[32], three[32];

	(void)state;
	memset(one, 0x11, sizeof(one));
	memset(three, 0x33, sizeof(three));
	assert_int_equal(catalog_find(c, "a")->added_s, 20);
	assert_null(catalog_find(c, "A"));
	assert_null(catalog_find(c, ""));
	assert_int_equal(catalog_find_version(c, "a", one)->added_s, 10);
	assert_null(catalog_find_version(c, "a", three));
	assert_string_equal(catalog_find_clash(c, "B")->slug, "b");
	assert_null(catalog_find_clash(c, "b"));
	catalog_free(c);
}

static void a_new_version_is_current_and_the_others_are_kept(void **state)
{
	struct catalog *c = parse(text);
	struct catalog_entry add = { .slug = "a", .added_s = 30 };

	(void)state;
	memset(add.digest, 0x33, sizeof(add.digest));
	check_render(c, &add, NULL,
		     HEAD "a " D1 " 10 kept\na " D2 " 20 kept\na " D3 " 30 current\nb " D3 " 5 current\n");
	memset(add.digest, 0x11, sizeof(add.digest)); /* one that is there moves to the end */
	check_render(c, &add, NULL, HEAD "a " D2 " 20 kept\na " D1 " 30 current\nb " D3 " 5 current\n");
	add.slug = "aa";
	check_render(c, &add, NULL,
		     HEAD "a " D1 " 10 kept\na " D2 " 20 current\naa " D1 " 30 current\nb " D3 " 5 current\n");
	add.slug = "c";
	check_render(c, &add, NULL,
		     HEAD "a " D1 " 10 kept\na " D2 " 20 current\nb " D3 " 5 current\nc " D1 " 30 current\n");
	catalog_free(c);
}

static bool is_current(const struct catalog_entry *e, void *arg)
{
	(void)arg;
	return e->is_current;
}

static bool is_a(const struct catalog_entry *e, void *arg)
{
	(void)arg;
	return strcmp(e->slug, "a") == 0;
}

static void the_newest_that_stays_becomes_current(void **state)
{
	struct catalog *c = parse(text);

	(void)state;
	check_render(c, NULL, is_current, HEAD "a " D1 " 10 current\n");
	check_render(c, NULL, is_a, HEAD "b " D3 " 5 current\n");
	catalog_free(c);
}

static void anything_else_is_refused(void **state)
{
	static const char *const bad[] = {
		"x", HEAD "a", HEAD "a " D1 " 10\n", HEAD "a " D1 " 10 other\n", HEAD "a " D1 " x current\n",
		HEAD "a 11 10 current\n", HEAD "a/b " D1 " 10 current\n", HEAD "a " D1 " 10 current extra\n",
		HEAD "a " D1 " -1 current\n", HEAD "b " D1 " 1 current\na " D2 " 1 current\n",
		HEAD "a " D1 " 2 current\na " D2 " 1 kept\n", HEAD "\n", HEAD "a  " D1 " 1 current\n",
		"cordon-skill-catalog 2\n", HEAD "a " D1 " 1 current",
	};
	struct catalog *c = NULL;
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (catalog_parse(bad[i], strlen(bad[i]), &c, &e) == 0)
			fail_msg("accepted: %s", bad[i]);
	assert_true(catalog_parse(HEAD "a\0b " D1 " 1 current\n", sizeof(HEAD "a\0b " D1 " 1 current\n") - 1, &c, &e) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read_is_written_again),
		cmocka_unit_test(versions_are_found),
		cmocka_unit_test(a_new_version_is_current_and_the_others_are_kept),
		cmocka_unit_test(the_newest_that_stays_becomes_current),
		cmocka_unit_test(anything_else_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("skill_catalog", tests, NULL, NULL);
}
