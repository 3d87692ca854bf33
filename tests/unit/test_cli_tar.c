/* SPDX-License-Identifier: Apache-2.0 */
/* Tar streams: what is written is read back, what lies is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/tar.h"

static uint8_t stream[64 * 1024];
static size_t len;

static void add(const char *path, bool is_directory, bool is_executable, const char *bytes)
{
	uint8_t head[TAR_HEAD_MAX];
	size_t size = strlen(bytes), n = tar_head(path, is_directory, is_executable, size, head);

	memcpy(stream + len, head, n);
	memcpy(stream + len + n, bytes, size);
	len += n + size;
	memset(stream + len, 0, tar_fill(size));
	len += tar_fill(size);
}

static void end(void)
{
	memset(stream + len, 0, 2 * TAR_BLOCK);
	len += 2 * TAR_BLOCK;
}

/* Changes the head at the beginning of the stream and mends its sum. */
static void forge(size_t offset, const void *bytes, size_t n)
{
	uint32_t sum = 0;

	memcpy(stream + offset, bytes, n);
	memset(stream + 148, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += stream[i];
	snprintf((char *)stream + 148, 7, "%06o", sum);
}

static int read_first(struct tar_entry *ret, struct err *e)
{
	struct tar_reader r = { stream, len, 0 };

	memset(e, 0, sizeof(*e));
	return tar_read(&r, ret, e);
}

static void what_is_written_is_read(void **state)
{
	struct tar_reader r = { stream, 0, 0 };
	struct tar_entry t;
	struct err e;
	char name[600];

	(void)state;
	len = 0;
	memset(name, 'n', sizeof(name));
	for (int i = 200; i < 600; i += 200)
		name[i] = '/';
	name[599] = '\0';
	add("dir", true, false, "");
	add("dir/a.txt", false, false, "hello");
	add(name, false, true, "long");
	add("empty", false, false, "");
	end();
	r.len = len;
	assert_int_equal(tar_read(&r, &t, &e), 1);
	assert_true(t.is_directory);
	assert_string_equal(t.path, "dir");
	assert_int_equal(tar_read(&r, &t, &e), 1);
	assert_string_equal(t.path, "dir/a.txt");
	assert_int_equal(t.size, 5);
	assert_memory_equal(t.bytes, "hello", 5);
	assert_false(t.is_executable);
	assert_int_equal(tar_read(&r, &t, &e), 1);
	assert_string_equal(t.path, name);
	assert_true(t.is_executable);
	assert_int_equal(tar_read(&r, &t, &e), 1);
	assert_int_equal(t.size, 0);
	assert_int_equal(tar_read(&r, &t, &e), 0);
}

static void links_and_special_files_are_refused_by_name(void **state)
{
	struct tar_entry t;
	struct err e;

	(void)state;
	for (const char *type = "123467SxgKDMV"; *type; type++) {
		len = 0;
		add("thing", false, false, "");
		end();
		forge(156, type, 1);
		assert_int_equal(read_first(&t, &e), -22);
		assert_non_null(strstr(e.msg, "thing"));
	}
}

static void paths_that_leave_are_refused(void **state)
{
	static const char *const bad[] = { "/etc/passwd", "../x", "a/../../x", "a//b", "a/./b",
					   "a\nb",	  "a\\b", "..",	       "a/..", "\x7f",
					   "\xff" };
	struct tar_entry t;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char name[100] = { 0 };
		len = 0;
		add("placeholder", false, false, "x");
		end();
		memcpy(name, bad[i], strlen(bad[i]));
		forge(0, name, sizeof(name));
		assert_int_equal(read_first(&t, &e), -22);
		assert_int_equal(tar_check_path(bad[i], &e), -22);
	}
	assert_int_equal(tar_check_path("", &e), -22);
	assert_int_equal(tar_check_path("a/b-c_d.e f", &e), 0);
}

static void broken_streams_are_refused(void **state)
{
	struct tar_entry t;
	struct err e;

	(void)state;
	len = 0;
	add("a", false, false, "hello");
	end();
	stream[0] ^= 1; /* the sum no longer holds */
	assert_int_equal(read_first(&t, &e), -22);
	stream[0] ^= 1;
	for (size_t cut = 1; cut < 2 * TAR_BLOCK; cut += 37) {
		struct tar_reader r = { stream, cut, 0 };
		assert_int_equal(tar_read(&r, &t, &e), -22);
	}
	forge(124, "77777777777", 11); /* a size beyond the stream */
	assert_int_equal(read_first(&t, &e), -22);
	forge(124, "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
	assert_int_equal(read_first(&t, &e), -22);
	forge(124, "0000000000x", 11);
	assert_int_equal(read_first(&t, &e), -22);
}

static void hook_like_names_are_known(void **state)
{
	(void)state;
	assert_true(tar_is_hook(".git/hooks/pre-commit"));
	assert_true(tar_is_hook("a/.git/config"));
	assert_true(tar_is_hook("a/b/.envrc"));
	assert_true(tar_is_hook("Makefile"));
	assert_true(tar_is_hook(".vscode/tasks.json"));
	assert_false(tar_is_hook("Makefile.txt"));
	assert_false(tar_is_hook("src/git/hooks/x"));
	assert_false(tar_is_hook("main.c"));
	assert_false(tar_is_hook(".git"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(links_and_special_files_are_refused_by_name),
		cmocka_unit_test(paths_that_leave_are_refused),
		cmocka_unit_test(broken_streams_are_refused),
		cmocka_unit_test(hook_like_names_are_known),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
