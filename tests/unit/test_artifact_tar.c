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

#include "artifact/scan.h"
#include "artifact/tar.h"
#include "digest/digest.h"

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

/* What the reader of whole streams says of the stream: its files, or NULL. */
static json_t *read_whole(void)
{
	struct tar_reader r = { stream, len, 0 };
	json_t *files = json_array();
	struct tar_entry t;
	struct err e;
	size_t n = 0;
	int rc;

	while ((rc = tar_read(&r, &t, &e)) > 0) {
		uint8_t digest[DIGEST_LEN];
		char hex[DIGEST_HEX_MAX];
		n++;
		digest_sha256(t.bytes, t.size, digest);
		digest_hex(digest, DIGEST_LEN, hex);
		if (!t.is_directory)
			json_array_append_new(files,
					      json_pack("{s:s, s:I, s:s}", "path", t.path, "size",
							(json_int_t)t.size, "sha256", hex));
	}
	if (rc == 0 && n > 0)
		return files;
	json_decref(files);
	return NULL;
}

/* The same by the scanner, in pieces of @piece bytes. */
static json_t *scan_in(size_t piece, uint64_t most)
{
	struct artifact_scan *s = artifact_scan_new(most);
	struct err e = { 0 };
	json_t *files = NULL;
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < len; at += piece)
		rc = artifact_scan_add(s, stream + at, len - at < piece ? len - at : piece, &e);
	if (rc == 0 && artifact_scan_end(s, &e) == 0)
		files = json_incref(artifact_scan_files(s));
	assert_true(files || e.msg[0]);
	artifact_scan_free(s);
	return files;
}

static void fill_stream(void)
{
	char name[300];

	len = 0;
	memset(name, 'n', sizeof(name));
	name[150] = '/';
	name[299] = '\0';
	add("dir", true, false, "");
	add("dir/a.txt", false, false, "hello");
	add(name, false, true, "long");
	add("empty", false, false, "");
	end();
}

static void a_stream_in_any_pieces_gives_the_same_files(void **state)
{
	(void)state;
	fill_stream();
	json_t *want = read_whole();
	assert_int_equal(json_array_size(want), 3);
	for (size_t piece = 1; piece <= len; piece = piece < 700 ? piece + 1 : piece * 2) {
		json_t *got = scan_in(piece, len);
		assert_true(json_equal(got, want));
		json_decref(got);
	}
	json_decref(want);
}

static void what_the_reader_refuses_the_scanner_refuses(void **state)
{
	(void)state;
	fill_stream();
	size_t whole = len;
	for (size_t cut = 0; cut < whole; cut += 37) {
		len = cut;
		json_t *want = read_whole(), *got = scan_in(113, cut);
		assert_true(want ? json_equal(want, got) : got == NULL);
		json_decref(want);
		json_decref(got);
	}
	for (const char *type = "123467SxgKDMV"; *type; type++) {
		fill_stream();
		forge(156, type, 1);
		assert_null(scan_in(100, len));
	}
	len = 0;
	add("s", false, true, "x");
	end();
	json_t *control = scan_in(100, len);
	assert_non_null(control);
	json_decref(control);
	forge(100, "0004755", 8);
	assert_null(scan_in(100, len));
}

static void more_than_may_come_is_refused_at_once(void **state)
{
	struct err e = { 0 };

	(void)state;
	fill_stream();
	assert_null(scan_in(512, len - 1));
	len = 0;
	add("big", false, false, "");
	end();
	forge(124, "77777777777", 12);
	struct artifact_scan *s = artifact_scan_new(1 << 20);
	assert_int_equal(artifact_scan_add(s, stream, TAR_BLOCK, &e), -27); /* by its head alone */
	artifact_scan_free(s);
	s = artifact_scan_new(4096);
	memset(stream, 0, 1024);
	stream[1000] = 1;
	assert_int_equal(artifact_scan_add(s, stream, 1024, &e), -22); /* behind the end */
	artifact_scan_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(links_and_special_files_are_refused_by_name),
		cmocka_unit_test(paths_that_leave_are_refused),
		cmocka_unit_test(broken_streams_are_refused),
		cmocka_unit_test(hook_like_names_are_known),
		cmocka_unit_test(a_stream_in_any_pieces_gives_the_same_files),
		cmocka_unit_test(what_the_reader_refuses_the_scanner_refuses),
		cmocka_unit_test(more_than_may_come_is_refused_at_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
