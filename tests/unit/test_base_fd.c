/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: beneath means beneath, whole means whole, sealed means sealed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/scope.h"

static char dir[64];
static int at = -1;

static int start(void **s)
{
	(void)s;
	strcpy(dir, "/tmp/cordon-fd-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return at < 0;
}

static int stop(void **s)
{
	char cmd[96];

	(void)s;
	close(at);
	snprintf(cmd, sizeof(cmd), "rm -rf -- '%s'", dir);
	return system(cmd);
}

static void put(const char *name, const char *text)
{
	struct err e;

	assert_int_equal(fd_replace_file(at, name, text, strlen(text), 0600, &e), 0);
}

static bool is_cloexec(int fd)
{
	return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static void nothing_outside_the_directory_is_opened(void **s)
{
	static const char *const bad[] = { "/etc/passwd", "..", "../x", "sub/../../x", "link", "sub/link", "dirlink/in" };
	struct err e;

	(void)s;
	assert_int_equal(mkdirat(at, "sub", 0700), 0);
	put("sub/in", "x");
	assert_int_equal(symlinkat("/etc/passwd", at, "link"), 0);
	assert_int_equal(symlinkat("in", at, "sub/link"), 0);
	assert_int_equal(symlinkat("sub", at, "dirlink"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_true(fd_open_beneath(at, bad[i], O_RDONLY, 0, &e) < 0);
		assert_non_null(strstr(e.msg, bad[i]));
	}
	autoclose int fd = fd_open_beneath(at, "sub/in", O_RDONLY, 0, &e);
	assert_true(fd >= 0 && is_cloexec(fd));
	autoclose int made = fd_open_beneath(at, "sub/new", O_WRONLY | O_CREAT | O_EXCL, 0640, &e);
	assert_true(made >= 0);
}

static void reading_is_whole_and_bounded(void **s)
{
	autofree char *text = NULL;
	char *untouched = (char *)1;
	static char big[10000];
	size_t len;
	struct err e;

	(void)s;
	memset(big, 'b', sizeof(big) - 1);
	put("big", big);
	assert_int_equal(fd_read_file(at, "big", sizeof(big), &text, &len, &e), 0);
	assert_int_equal(len, sizeof(big) - 1);
	assert_string_equal(text, big);
	assert_int_equal(fd_read_file(at, "big", 100, &untouched, &len, &e), -EFBIG);
	assert_int_equal(fd_read_file(at, "big", sizeof(big) - 2, &untouched, &len, &e), -EFBIG);
	assert_int_equal(fd_read_file(at, "none", 100, &untouched, &len, &e), -ENOENT);
	assert_ptr_equal(untouched, (char *)1);
	put("empty", "");
	autofree char *nothing = NULL;
	assert_int_equal(fd_read_file(at, "empty", 0, &nothing, &len, &e), 0);
	assert_int_equal(len, 0);
	assert_string_equal(nothing, "");
}

static void replacing_leaves_old_or_new_and_nothing_else(void **s)
{
	struct err e;
	struct stat st;
	autofree char *text = NULL;

	(void)s;
	put("f", "old");
	assert_int_equal(fd_replace_file(at, "f", "newer", 5, 0400, &e), 0);
	assert_int_equal(fd_read_file(at, "f", 100, &text, NULL, &e), 0);
	assert_string_equal(text, "newer");
	assert_int_equal(fstatat(at, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	assert_int_equal(mkdirat(at, "d", 0700), 0);
	assert_true(fd_replace_file(at, "d", "x", 1, 0600, &e) < 0); /* a directory stays one */
	assert_int_equal(fstatat(at, "d", &st, 0), 0);
	assert_true(S_ISDIR(st.st_mode));
	char cmd[128];
	snprintf(cmd, sizeof(cmd), "test -z \"$(ls -A '%s' | grep new$)\"", dir);
	assert_int_equal(system(cmd), 0);
}

static void sealed_memory_cannot_be_changed(void **s)
{
	char buf[8];
	struct err e;
	autoclose int fd = fd_sealed("test", "content", 7, &e);
	autoclose int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)s;
	assert_true(fd >= 0 && is_cloexec(fd) && fd_is_sealed(fd));
	assert_int_equal(read(fd, buf, sizeof(buf)), 7);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 100), -1);
	assert_ptr_equal(mmap(NULL, 7, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_false(fd_is_sealed(plain));
	assert_int_equal(fcntl(plain, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
	assert_false(fd_is_sealed(plain)); /* more seals could still come */
	assert_false(fd_is_sealed(at));
	assert_false(fd_is_sealed(-1));
}

static void parents_are_made_and_kept(void **s)
{
	char path[128];
	struct stat st;
	struct err e;

	(void)s;
	snprintf(path, sizeof(path), "%s/p/q/r", dir);
	assert_int_equal(fd_mkdir_parents(path, 0700, &e), 0);
	assert_int_equal(fd_mkdir_parents(path, 0700, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	put("file", "x");
	snprintf(path, sizeof(path), "%s/file/q", dir);
	assert_int_equal(fd_mkdir_parents(path, 0700, &e), -ENOTDIR);
	assert_int_equal(fd_mkdir_parents("relative", 0700, &e), -EINVAL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
	static const struct CMUnitTest tests[] = {
		T(nothing_outside_the_directory_is_opened),
		T(reading_is_whole_and_bounded),
		T(replacing_leaves_old_or_new_and_nothing_else),
		T(sealed_memory_cannot_be_changed),
		T(parents_are_made_and_kept),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
