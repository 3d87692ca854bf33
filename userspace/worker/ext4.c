/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspace images. mke2fs makes one template per size; a new workspace is a
 * sparse copy of it (a few hundred KiB of metadata), which costs less than
 * running mke2fs each time.
 */
#include "worker/ext4.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"

enum { GROUP_BYTES = 128 << 20, INODE_BYTES = 256, BLOCK = 4096, ROOM = 1 << 20 };

/* Data and what ext4 itself needs beside it: inode tables, bitmaps, descriptors. */
static uint64_t image_bytes(uint64_t data_bytes, uint64_t inodes)
{
	uint64_t groups = data_bytes / GROUP_BYTES + 1;
	uint64_t total = data_bytes + inodes * INODE_BYTES + groups * 4 * BLOCK + 64 * BLOCK;

	return (total + BLOCK - 1) / BLOCK * BLOCK;
}

/* mke2fs says little; a disk without room is the cause that wants naming. */
static int why_failed(int fd, int status, struct err *e)
{
	struct statfs s;

	if (fstatfs(fd, &s) == 0 && (uint64_t)s.f_bavail * (uint64_t)s.f_bsize < ROOM)
		return err_set(e, ENOSPC, "workspace image: %s", strerror(ENOSPC));
	return err_set(e, EIO, "mke2fs: status %d", status);
}

/* The file is its descriptor 3 and nothing else reaches it. */
static int run_mke2fs(int fd, uint64_t inodes, uid_t owner, struct err *e)
{
	char n[32], extended[96];
	const char *const argv[] = { "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0",
			 "-N", n, "-O", "^has_journal,^resize_inode", "-E", extended,
			 "/proc/self/fd/3", NULL };
	const char *const envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	int status;
	pid_t pid;

	snprintf(n, sizeof(n), "%" PRIu64, inodes);
	snprintf(extended, sizeof(extended), "lazy_itable_init=1,nodiscard,root_owner=%u:%u", owner,
		 owner);
	posix_spawn_file_actions_t fa;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fd, 3);
	int rc = posix_spawn(&pid, "/sbin/mke2fs", &fa, NULL, (char **)(uintptr_t)argv,
			     (char **)(uintptr_t)envp);
	posix_spawn_file_actions_destroy(&fa);
	if (rc != 0)
		return err_set(e, rc, "mke2fs: %s", strerror(rc));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "mke2fs: %s", strerror(errno));
	if (status != 0)
		return why_failed(fd, status, e);
	return 0;
}

static int make_template(int dir_fd, const char *name, uint64_t bytes, uint64_t inodes,
			 uid_t owner, struct err *e)
{
	char tmp[128];

	snprintf(tmp, sizeof(tmp), "%.100s.new", name);
	autoclose int fd =
		openat(dir_fd, tmp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return err_set(e, errno, "template: %s", strerror(errno));
	if (run_mke2fs(fd, inodes, owner, e) < 0 || fsync(fd) < 0 ||
	    renameat(dir_fd, tmp, dir_fd, name) < 0) {
		if (!e->code)
			err_set(e, errno, "template: %s", strerror(errno));
		unlinkat(dir_fd, tmp, 0);
		return -e->code;
	}
	return 0;
}

/* Copies only what is there: holes stay holes. */
static int copy_sparse(int from, int to, struct err *e)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return err_set(e, errno, "copy: %s", strerror(errno));
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(from, at, SEEK_HOLE), out = at;
		while (at < end) {
			ssize_t n = copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);
			if (n <= 0)
				return err_set(e, n < 0 ? errno : EIO, "copy: %s", strerror(errno));
		}
	}
	if (errno != ENXIO)
		return err_set(e, errno, "copy: %s", strerror(errno));
	return 0;
}

int ext4_make(int dir_fd, const char *name, uint64_t data_bytes, uint64_t inodes, uid_t owner,
	      struct err *e)
{
	char template[64], tmp[128];
	uint64_t bytes = image_bytes(data_bytes, inodes);

	e->code = 0;
	snprintf(template, sizeof(template), "template-%" PRIu64, bytes);
	snprintf(tmp, sizeof(tmp), "%.100s.new", name);
	if (faccessat(dir_fd, template, F_OK, 0) < 0 &&
	    make_template(dir_fd, template, bytes, inodes, owner, e) < 0)
		return -e->code;
	autoclose int from = openat(dir_fd, template, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int to =
		openat(dir_fd, tmp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (from < 0 || to < 0)
		return err_set(e, errno, "workspace image: %s", strerror(errno));
	if (copy_sparse(from, to, e) < 0)
		goto undo;
	if (renameat(dir_fd, tmp, dir_fd, name) < 0) {
		err_set(e, errno, "workspace image: %s", strerror(errno));
		goto undo;
	}
	return 0;
undo:
	unlinkat(dir_fd, tmp, 0);
	return -e->code;
}
