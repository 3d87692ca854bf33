/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing: a walk that follows no link, a stream in a memory file, a digest of
 * every file from the very bytes that are in the stream.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifact/tar.h"
#include "base/fd.h"
#include "base/scope.h"
#include "cli/artifact.h"
#include "digest/digest.h"
#include "json/json.h"

struct packer {
	int fd;
	uint64_t left;
	size_t entries;
	json_t *files;
	struct digest *digest;
};

static int add_entry(struct packer *p, const char *path, bool is_directory, bool is_executable,
		     uint64_t size, struct err *e)
{
	uint8_t head[TAR_HEAD_MAX];
	size_t n = tar_head(path, is_directory, is_executable, size, head);

	if (++p->entries > ARTIFACT_ENTRIES_MAX)
		return err_set(e, E2BIG, "more than %d files and directories",
			       ARTIFACT_ENTRIES_MAX);
	if (n + size + TAR_BLOCK > p->left)
		return err_set(e, EFBIG, "'%.150s': more than --max-bytes in all", path);
	p->left -= n + size;
	return fd_write_all(p->fd, head, n, e);
}

static int add_bytes(struct packer *p, int fd, const char *path, uint64_t size, struct err *e)
{
	static const uint8_t zero[TAR_BLOCK];
	char buf[64 * 1024];
	uint64_t left = size;

	while (left > 0) {
		ssize_t n = read(fd, buf, left < sizeof(buf) ? (size_t)left : sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(e, n ? errno : EIO, "'%.150s' changed while it was read",
				       path);
		digest_add(p->digest, buf, (size_t)n);
		if (fd_write_all(p->fd, buf, (size_t)n, e) < 0)
			return -e->code;
		left -= (uint64_t)n;
	}
	return fd_write_all(p->fd, zero, tar_fill(size), e);
}

static int note_file(struct packer *p, const char *path, uint64_t size, struct err *e)
{
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];

	digest_end(p->digest, digest);
	digest_hex(digest, sizeof(digest), hex);
	json_t *v = json_pack("{s:s, s:I, s:s}", "path", path, "size", (json_int_t)size, "sha256",
			      hex);
	return json_array_append_new(p->files, v) < 0 ? err_set(e, ENOMEM, "out of memory") : 0;
}

static int add_file(struct packer *p, int fd, const char *path, const struct stat *st,
		    struct err *e)
{
	uint64_t size = (uint64_t)st->st_size;

	if (add_entry(p, path, false, st->st_mode & 0111, size, e) < 0 ||
	    add_bytes(p, fd, path, size, e) < 0)
		return -e->code;
	return note_file(p, path, size, e);
}

static int add_any(struct packer *p, int dir, const char *name, const char *path, unsigned depth,
		   struct err *e);

static inline void close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* Takes @fd. */
static int add_children(struct packer *p, int fd, const char *path, unsigned depth, struct err *e)
{
	__attribute__((cleanup(close_dir))) DIR *d = fdopendir(fd);

	if (!d) {
		close(fd);
		return err_set(e, errno, "'%.150s': %s", path, strerror(errno));
	}
	for (struct dirent *x; (errno = 0, x = readdir(d));) {
		char below[TAR_PATH_MAX];
		if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
			continue;
		if (snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", x->d_name) >=
		    (int)sizeof(below))
			return err_set(e, ENAMETOOLONG, "'%.100s/...': too long", path);
		if (add_any(p, dirfd(d), x->d_name, below, depth + 1, e) < 0)
			return -e->code;
	}
	return errno ? err_set(e, errno, "'%.150s': %s", path, strerror(errno)) : 0;
}

static int add_any(struct packer *p, int dir, const char *name, const char *path, unsigned depth,
		   struct err *e)
{
	struct stat st;
	autoclose int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && errno == ELOOP)
		return err_set(e, EINVAL, "'%.150s' is a symbolic link", path);
	if (fd < 0 && errno == ENXIO)
		return err_set(e, EINVAL, "'%.150s' is a special file", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "'%.150s': %s", path, strerror(errno));
	if (*path && tar_check_path(path, e) < 0)
		return -e->code;
	if (depth > TAR_DEPTH_MAX)
		return err_set(e, EINVAL, "'%.100s': deeper than %d", path, TAR_DEPTH_MAX);
	if (S_ISREG(st.st_mode))
		return st.st_nlink > 1 ? err_set(e, EINVAL, "'%.150s' has other hard links", path) :
					 add_file(p, fd, path, &st, e);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, EINVAL, "'%.150s' is a special file", path);
	if (*path && add_entry(p, path, true, true, 0, e) < 0)
		return -e->code;
	return add_children(p, take_fd(&fd), path, depth, e);
}

/* The last part of @path; "" where that is no name. */
static const char *top_of(const char *path, char *copy, size_t size)
{
	snprintf(copy, size, "%s", path);
	size_t n = strlen(copy);
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	const char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ? "" : name;
}

static int pack(struct packer *p, const char *path, struct err *e)
{
	static const uint8_t end[2 * TAR_BLOCK];
	char copy[TAR_PATH_MAX];

	if (strlen(path) >= sizeof(copy))
		return err_set(e, ENAMETOOLONG, "the path is too long");
	if (add_any(p, AT_FDCWD, path, top_of(path, copy, sizeof(copy)), 0, e) < 0 ||
	    fd_write_all(p->fd, end, sizeof(end), e) < 0)
		return -e->code;
	return lseek(p->fd, 0, SEEK_SET) < 0 ? err_set(e, errno, "seek: %s", strerror(errno)) : 0;
}

int artifact_pack(const char *path, uint64_t max, struct artifact_pack *ret, struct err *e)
{
	struct packer p = { .left = max, .fd = memfd_create("artifact", MFD_CLOEXEC) };
	struct artifact_pack out = { .fd = p.fd, .files = json_array() };
	auto_(digest) d = digest_new();

	p.files = out.files;
	p.digest = d;
	int rc = p.fd < 0 || !d || !p.files ? err_set(e, ENOMEM, "out of memory") :
					     pack(&p, path, e);
	if (rc < 0) {
		artifact_pack_done(&out);
		return rc;
	}
	*ret = out;
	return 0;
}

void artifact_pack_done(struct artifact_pack *p)
{
	scope_close(&p->fd);
	p->fd = -1;
	json_decref(p->files);
}
