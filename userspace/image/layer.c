/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers by libarchive, read twice: first for what they hide (it concerns the
 * layers below only, and may stand anywhere in the archive), then for what they
 * add. Each reading hashes the very bytes it uses. Parents of an entry are opened
 * as in a chroot (RESOLVE_IN_ROOT), so a link in the tree that leads out of it
 * leads back to its root.
 */
#include "image/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"
#include "image/entry.h"
#include "image/tree.h"

enum { READ_SIZE = 64 * 1024, OWNER_MAX = 0x7fffffff };

/* One reading of a layer. */
struct reading {
	int fd, rootfd;
	struct digest *digest;
	struct layer_budget *budget;
	char buf[READ_SIZE];
};

typedef int (*entry_fn)(struct reading *r, struct archive *a, struct archive_entry *ae,
			const struct entry *t, struct err *e);

/* --- in the tree */

static int open_in_root(int rootfd, const char *path, int flags, struct err *e)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	long fd = syscall(SYS_openat2, rootfd, path, &how, sizeof(how));

	return fd < 0 ? err_set(e, errno, "layer entry '%.120s': %s", path, strerror(errno))
		      : (int)fd;
}

/* The directory @path, its missing parts made. Gives a descriptor. */
static int open_parent(int rootfd, const char *path, struct err *e)
{
	char part[ENTRY_PATH_MAX];
	int fd = open_in_root(rootfd, path, O_RDONLY | O_DIRECTORY, e);

	if (fd != -ENOENT)
		return fd;
	autoclose int at = dup(rootfd);
	for (const char *s = path; at >= 0 && *s;) {
		size_t n = strcspn(s, "/"), end = (size_t)(s - path) + n;

		snprintf(part, sizeof(part), "%.*s", (int)n, s);
		if (mkdirat(at, part, 0755) < 0 && errno != EEXIST)
			return err_set(e, errno, "layer entry '%.120s': %s", path, strerror(errno));
		snprintf(part, sizeof(part), "%.*s", (int)end, path);
		int next = open_in_root(rootfd, part, O_RDONLY | O_DIRECTORY, e);
		if (next < 0)
			return next;
		close(at);
		at = next;
		s += n + (s[n] == '/');
	}
	return take_fd(&at);
}

static int remove_below(int dirfd, const char *name, struct err *e)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", dirfd);
	return tree_remove(dir, name, e);
}

static int no(const struct entry *t, struct err *e)
{
	return err_set(e, errno, "layer entry '%.120s': %s", t->path, strerror(errno));
}

/* --- first reading: what the layer hides */

static int empty_directory(int dirfd, struct err *e)
{
	int fd = dup(dirfd), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir)
		return err_set(e, errno, "layer: %s", strerror(errno));
	rewinddir(dir);
	while (r == 0 && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = remove_below(dirfd, d->d_name, e);
	closedir(dir);
	return r;
}

static int hide(struct reading *r, struct archive *a, struct archive_entry *ae,
		const struct entry *t, struct err *e)
{
	(void)a;
	(void)ae;
	if (t->kind != ENTRY_HIDES && t->kind != ENTRY_OPAQUE)
		return 0;
	const char *dir = t->kind == ENTRY_HIDES ? t->parent : t->path[0] ? t->path : ".";
	autoclose int fd = open_in_root(r->rootfd, dir, O_RDONLY | O_DIRECTORY, e);
	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0; /* nothing there to hide */
	if (fd < 0)
		return fd;
	return t->kind == ENTRY_HIDES ? remove_below(fd, t->name, e) : empty_directory(fd, e);
}

/* --- second reading: what it adds */

static int add_directory(int parent, const struct entry *t, struct err *e)
{
	struct stat st;

	if (fstatat(parent, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISDIR(st.st_mode))
			return 0;
		if (unlinkat(parent, t->name, 0) < 0)
			return no(t, e);
	}
	return mkdirat(parent, t->name, 0755) < 0 ? no(t, e) : 0;
}

static int add_file(struct reading *r, int parent, struct archive *a, const struct entry *t,
		    struct err *e)
{
	autoclose int fd =
		openat(parent, t->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	const void *block;
	size_t len;
	la_int64_t at, end = 0;
	int s;

	if (fd < 0)
		return no(t, e);
	while ((s = archive_read_data_block(a, &block, &len, &at)) == ARCHIVE_OK) {
		/* Holes count: somebody has to read them when the image is packed. */
		if (at < end || (uint64_t)(at - end) > r->budget->bytes ||
		    len > r->budget->bytes - (uint64_t)(at - end))
			return err_set(e, EFBIG, "layer entry '%.120s': the image is too large",
				       t->path);
		r->budget->bytes -= (uint64_t)(at - end) + len;
		for (size_t done = 0; done < len;) {
			ssize_t n = pwrite(fd, (const char *)block + done, len - done,
					   at + (la_int64_t)done);
			if (n < 0 && errno != EINTR)
				return no(t, e);
			done += n > 0 ? (size_t)n : 0;
		}
		end = at + (la_int64_t)len;
	}
	if (s != ARCHIVE_EOF)
		return err_set(e, EBADMSG, "layer entry '%.120s': %.80s", t->path,
			       archive_error_string(a));
	return ftruncate(fd, end) < 0 ? no(t, e) : 0; /* a hole at the end */
}

static int add_hard_link(struct reading *r, int parent, const char *target, const struct entry *t,
			 struct err *e)
{
	struct entry to;
	struct stat st;

	if (entry_parse(target, &to) != ENTRY_PLAIN)
		return err_set(e, EINVAL, "layer entry '%.100s': link to '%.80s'", t->path, target);
	autoclose int dir = open_in_root(r->rootfd, to.parent, O_RDONLY | O_DIRECTORY, e);
	if (dir < 0)
		return dir;
	if (fstatat(dir, to.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return no(t, e);
	if (S_ISDIR(st.st_mode))
		return err_set(e, EINVAL, "layer entry '%.100s': link to a directory", t->path);
	return linkat(dir, to.name, parent, t->name, 0) < 0 ? no(t, e) : 0;
}

/* Owner, mode and time of what was just made; hard links share their target's. */
static int dress(int parent, const char *name, struct archive_entry *ae, const struct entry *t,
		 struct err *e)
{
	la_int64_t uid = archive_entry_uid(ae), gid = archive_entry_gid(ae);
	time_t mtime = archive_entry_mtime(ae);
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
					   { .tv_sec = mtime < 0 ? 0 : mtime } };

	if (uid < 0 || uid > OWNER_MAX || gid < 0 || gid > OWNER_MAX)
		return err_set(e, ERANGE, "layer entry '%.120s': owner out of range", t->path);
	if (fchownat(parent, name, (uid_t)uid, (gid_t)gid, AT_SYMLINK_NOFOLLOW) < 0)
		return no(t, e);
	if (archive_entry_filetype(ae) != AE_IFLNK &&
	    fchmodat(parent, name, archive_entry_perm(ae) & 01777, 0) < 0)
		return no(t, e);
	return utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? no(t, e) : 0;
}

static int add_to(struct reading *r, int parent, struct archive *a, struct archive_entry *ae,
		  const struct entry *t, struct err *e)
{
	const char *hard = archive_entry_hardlink(ae), *soft = archive_entry_symlink(ae);
	mode_t type = archive_entry_filetype(ae);
	int s;

	if (!hard && (type == AE_IFCHR || type == AE_IFBLK || type == AE_IFIFO)) {
		r->budget->skipped++;
		return 0;
	}
	if (!hard && type != AE_IFDIR && type != AE_IFREG && (type != AE_IFLNK || !soft))
		return err_set(e, EINVAL, "layer entry '%.120s': of no known type", t->path);
	if ((hard || type != AE_IFDIR) && remove_below(parent, t->name, e) < 0)
		return -e->code;
	if (hard)
		return add_hard_link(r, parent, hard, t, e);
	if (type == AE_IFDIR)
		s = add_directory(parent, t, e);
	else if (type == AE_IFREG)
		s = add_file(r, parent, a, t, e);
	else
		s = symlinkat(soft, parent, t->name) < 0 ? no(t, e) : 0;
	return s < 0 ? s : dress(parent, t->name, ae, t, e);
}

static int add(struct reading *r, struct archive *a, struct archive_entry *ae,
	       const struct entry *t, struct err *e)
{
	if (t->kind == ENTRY_ROOT)
		return dress(r->rootfd, ".", ae, t, e);
	if (t->kind != ENTRY_PLAIN)
		return 0;
	autoclose int parent = open_parent(r->rootfd, t->parent, e);
	return parent < 0 ? parent : add_to(r, parent, a, ae, t, e);
}

/* --- a reading */

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	struct reading *r = arg;
	ssize_t n = read(r->fd, r->buf, sizeof(r->buf));

	if (n < 0) {
		archive_set_error(a, errno, "%s", strerror(errno));
		return -1;
	}
	digest_add(r->digest, r->buf, (size_t)n);
	*ret = r->buf;
	return n;
}

static int each_entry(struct reading *r, struct archive *a, entry_fn fn, struct err *e)
{
	struct archive_entry *ae;
	uint64_t entries = r->budget->entries;
	struct entry t;
	int s;

	while ((s = archive_read_next_header(a, &ae)) == ARCHIVE_OK || s == ARCHIVE_WARN) {
		const char *name = archive_entry_pathname(ae);

		if (entries-- == 0)
			return err_set(e, E2BIG, "the image has too many entries");
		if (!name || entry_parse(name, &t) == ENTRY_BAD)
			return err_set(e, EINVAL,
				       "layer entry '%.120s': not a path within the image",
				       name ? name : "?");
		int done = fn(r, a, ae, &t, e);
		if (done < 0)
			return done;
	}
	if (fn == add)
		r->budget->entries = entries;
	return s == ARCHIVE_EOF ? 0 : err_set(e, EBADMSG, "layer: %.160s", archive_error_string(a));
}

/* What stands behind the archive's end belongs to the digest too. */
static int check_digest(struct reading *r, const char *hex, struct err *e)
{
	uint8_t digest[DIGEST_LEN];
	char found[DIGEST_HEX_MAX];
	ssize_t n;

	while ((n = read(r->fd, r->buf, sizeof(r->buf))) > 0)
		digest_add(r->digest, r->buf, (size_t)n);
	if (n < 0)
		return err_set(e, errno, "layer: %s", strerror(errno));
	digest_end(r->digest, digest);
	digest_hex(digest, sizeof(digest), found);
	if (strcmp(found, hex) != 0)
		return err_set(e, EBADMSG,
			       "image_digest_mismatch: blob sha256:%.64s has bytes of sha256:%s",
			       hex, found);
	return 0;
}

static int read_layer(struct reading *r, const char *hex, entry_fn fn, struct err *e)
{
	struct archive *a = archive_read_new();
	int s;

	if (!a)
		return err_set(e, ENOMEM, "out of memory");
	if (lseek(r->fd, 0, SEEK_SET) < 0) {
		archive_read_free(a);
		return err_set(e, errno, "layer: %s", strerror(errno));
	}
	archive_read_support_filter_gzip(a);
	archive_read_support_format_tar(a);
	archive_read_support_format_empty(a);
	if (archive_read_open(a, r, NULL, on_read, NULL) != ARCHIVE_OK)
		s = err_set(e, EBADMSG, "layer: %.160s", archive_error_string(a));
	else
		s = each_entry(r, a, fn, e);
	archive_read_free(a);
	return s < 0 ? s : check_digest(r, hex, e);
}

int layer_apply(int fd, const char *hex, const char *path, struct layer_budget *budget,
		struct err *e)
{
	auto_(digest) digest = digest_new();
	autoclose int rootfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autofree struct reading *r = calloc(1, sizeof(*r));

	if (rootfd < 0)
		return err_set(e, errno, "open '%s': %s", path, strerror(errno));
	if (!digest || !r)
		return err_set(e, ENOMEM, "out of memory");
	*r = (struct reading){ .fd = fd, .rootfd = rootfd, .digest = digest, .budget = budget };
	int s = read_layer(r, hex, hide, e);
	return s < 0 ? s : read_layer(r, hex, add, e);
}
