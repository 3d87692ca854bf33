/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: opening beneath, whole reads and writes, sealed memory. Knows
 * nothing of what the bytes mean. Called by every program but the launcher.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/scope.h"

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode, struct err *e)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	return fd < 0 ? err_set(e, errno, "open '%s': %s", path, strerror(errno)) : (int)fd;
}

/* Writes at @at, or where the descriptor stands where that is negative. */
static int write_whole(int fd, const char *p, size_t len, off_t at, struct err *e)
{
	while (len > 0) {
		size_t part = len;
		errno = fault_write(at < 0 ? "fd.write" : "fd.pwrite", &part);
		ssize_t n = errno ? -1 : at < 0 ? write(fd, p, part) : pwrite(fd, p, part, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "write: %s", strerror(errno));
		p += n;
		len -= (size_t)n;
		at += at < 0 ? 0 : n;
	}
	return 0;
}

int fd_write_all(int fd, const void *buf, size_t len, struct err *e)
{
	return write_whole(fd, buf, len, -1, e);
}

int fd_pwrite_all(int fd, const void *buf, size_t len, off_t at, struct err *e)
{
	return write_whole(fd, buf, len, at, e);
}

int fd_read_all(int fd, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	size_t cap = 4096, len = 0;
	autofree char *buf = malloc(cap);

	if (!buf)
		return err_set(e, ENOMEM, "read: out of memory");
	for (;;) {
		if (len + 1 == cap) {
			char *more = realloc(buf, cap * 2);
			if (!more)
				return err_set(e, ENOMEM, "read: out of memory");
			buf = more;
			cap *= 2;
		}
		ssize_t n = read(fd, buf + len, cap - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "read: %s", strerror(errno));
		if (n == 0)
			break;
		len += (size_t)n;
		if (len > max)
			return err_set(e, EFBIG, "read: more than %zu bytes", max);
	}
	buf[len] = '\0';
	*ret = take_ptr(buf);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int fd_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
		 struct err *e)
{
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return err_set(e, errno, "open '%s': %s", path, strerror(errno));
	if (fd_read_all(fd, max, ret, ret_len, e) < 0)
		return err_wrap(e, path);
	return 0;
}

int fd_replace_file(int dirfd, const char *path, const void *buf, size_t len, mode_t mode,
		    struct err *e)
{
	char tmp[512];

	if (snprintf(tmp, sizeof(tmp), "%s.%d.new", path, (int)getpid()) >= (int)sizeof(tmp))
		return err_set(e, ENAMETOOLONG, "path too long: '%s'", path);
	autoclose int fd =
		openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return err_set(e, errno, "create '%s': %s", tmp, strerror(errno));
	if (fd_write_all(fd, buf, len, e) < 0)
		goto undo;
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0 || renameat(dirfd, tmp, dirfd, path) < 0) {
		err_set(e, errno, "replace '%s': %s", path, strerror(errno));
		goto undo;
	}
	return 0;
undo:
	unlinkat(dirfd, tmp, 0);
	return -e->code;
}

int fd_sealed(const char *name, const void *buf, size_t len, struct err *e)
{
	autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_set(e, errno, "memfd: %s", strerror(errno));
	if (fd_write_all(fd, buf, len, e) < 0)
		return err_wrap(e, name);
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "seal: %s", strerror(errno));
	return take_fd(&fd);
}

int fd_is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS;
}

int fd_dial(const char *path, int type, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(a.sun_path))
		return err_set(e, ENAMETOOLONG, "socket path too long: '%s'", path);
	strcpy(a.sun_path, path); /* length checked above */
	autoclose int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_set(e, errno, "connect '%s': %s", path, strerror(errno));
	return take_fd(&fd);
}

int fd_mkdir_parents(const char *path, mode_t mode, struct err *e)
{
	char buf[4096];

	if (path[0] != '/' || strlen(path) >= sizeof(buf))
		return err_set(e, EINVAL, "not a usable absolute path: '%s'", path);
	strcpy(buf, path); /* length checked above */
	for (char *p = buf + 1;; p++) {
		if (*p != '/' && *p != '\0')
			continue;
		char c = *p;
		*p = '\0';
		if (mkdir(buf, mode) < 0 && errno != EEXIST)
			return err_set(e, errno, "mkdir '%s': %s", buf, strerror(errno));
		if (c == '\0')
			return 0;
		*p = '/';
	}
}
