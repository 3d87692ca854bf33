/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees on their way into an image. Works on directories that only this process
 * writes (a private directory in the store), still never follows a link that the
 * tree brought along. Does not know recipes.
 */
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"

enum { ACCOUNT_FILE_MAX = 1 << 20, EPOCH_MIN = 1672531200 /* 2023-01-01 */ };

static int make_directory(int rootfd, const struct tree_entry *t, struct err *e)
{
	struct stat st;

	if (mkdirat(rootfd, t->path, 0755) < 0 && errno != EEXIST)
		return err_set(e, errno, "make '/%s': %s", t->path, strerror(errno));
	if (fstatat(rootfd, t->path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ENOTDIR, "'/%s' is not a directory", t->path);
	autoclose int fd = fd_open_beneath(rootfd, t->path, O_RDONLY | O_DIRECTORY, 0, e);
	if (fd < 0)
		return fd;
	if (fchown(fd, 0, 0) < 0 || fchmod(fd, t->mode) < 0)
		return err_set(e, errno, "chmod '/%s': %s", t->path, strerror(errno));
	return 0;
}

/* A fresh file: what was there (a link to a host path, say) goes first. */
static int fresh_file(int rootfd, const char *path, unsigned mode, struct err *e)
{
	unlinkat(rootfd, path, 0);
	autoclose int fd = fd_open_beneath(rootfd, path, O_WRONLY | O_CREAT | O_EXCL, mode, e);
	if (fd < 0)
		return fd;
	if (fchmod(fd, mode) < 0)
		return err_set(e, errno, "chmod '/%s': %s", path, strerror(errno));
	return take_fd(&fd);
}

int tree_make(int rootfd, const struct tree_entry *entries, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const struct tree_entry *t = &entries[i];
		int r;

		if (!t->text) {
			r = make_directory(rootfd, t, e);
		} else {
			autoclose int fd = fresh_file(rootfd, t->path, t->mode, e);
			r = fd < 0 ? fd : fd_write_all(fd, t->text, strlen(t->text), e);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int tree_copy(int rootfd, const char *from, const char *to, unsigned mode, struct err *e)
{
	autoclose int in = open(from, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (in < 0 || fstat(in, &st) < 0)
		return err_set(e, errno, "open '%s': %s", from, strerror(errno));
	autoclose int out = fresh_file(rootfd, to, mode, e);
	if (out < 0)
		return out;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(out, in, NULL, (size_t)left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(e, n < 0 ? errno : EIO, "copy '%s': %s", from,
				       n < 0 ? strerror(errno) : "it shrank");
		left -= n;
	}
	return 0;
}

/* --- walks */

static FTS *walk_open(const char *path, struct err *e)
{
	char *const roots[] = { (char *)path, NULL };
	FTS *fts = fts_open(roots, FTS_PHYSICAL, NULL);

	if (!fts)
		err_set(e, errno, "walk '%s': %s", path, strerror(errno));
	return fts;
}

static int remove_one(const FTSENT *f, struct err *e)
{
	switch (f->fts_info) {
	case FTS_D:
		return 0;
	case FTS_DNR:
	case FTS_ERR:
		return err_set(e, f->fts_errno, "remove '%s': %s", f->fts_path,
			       strerror(f->fts_errno));
	case FTS_DP:
		if (rmdir(f->fts_accpath) < 0 && errno != ENOENT)
			return err_set(e, errno, "remove '%s': %s", f->fts_path, strerror(errno));
		return 0;
	default:
		if (unlink(f->fts_accpath) < 0 && errno != ENOENT)
			return err_set(e, errno, "remove '%s': %s", f->fts_path, strerror(errno));
		return 0;
	}
}

int tree_remove(const char *parent, const char *name, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	int r = 0, n = snprintf(path, sizeof(path), "%s/%s", parent, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, ENAMETOOLONG, "remove '%s': path too long", name);
	if (lstat(path, &st) < 0 && errno == ENOENT)
		return 0;
	FTS *fts = walk_open(path, e);
	if (!fts)
		return -e->code;
	for (FTSENT *f; r == 0 && (f = fts_read(fts));)
		r = remove_one(f, e);
	fts_close(fts);
	return r;
}

static int settle_one(const FTSENT *f, time_t build_start, time_t epoch, struct err *e)
{
	const struct stat *st = f->fts_statp;
	const struct timespec times[2] = { { .tv_sec = epoch }, { .tv_sec = epoch } };
	mode_t mode = st->st_mode & 07777;

	if (S_ISBLK(st->st_mode) || S_ISCHR(st->st_mode) || S_ISFIFO(st->st_mode) ||
	    S_ISSOCK(st->st_mode)) {
		if (unlink(f->fts_accpath) < 0)
			return err_set(e, errno, "remove '%s': %s", f->fts_path, strerror(errno));
		return 0;
	}
	if (S_ISREG(st->st_mode)) {
		if ((mode & (S_ISUID | S_ISGID)) && chmod(f->fts_accpath, mode & 01777) < 0)
			return err_set(e, errno, "chmod '%s': %s", f->fts_path, strerror(errno));
		if (lremovexattr(f->fts_accpath, "security.capability") < 0 && errno != ENODATA &&
		    errno != EOPNOTSUPP)
			return err_set(e, errno, "'%s': %s", f->fts_path, strerror(errno));
	}
	if (S_ISDIR(st->st_mode) && (mode & (S_ISUID | S_ISGID)) &&
	    chmod(f->fts_accpath, mode & 01777) < 0)
		return err_set(e, errno, "chmod '%s': %s", f->fts_path, strerror(errno));
	/* A directory's time is that of its last removal, which is ours. */
	if ((st->st_mtime >= build_start || S_ISDIR(st->st_mode)) &&
	    utimensat(AT_FDCWD, f->fts_accpath, times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, errno, "set the time of '%s': %s", f->fts_path, strerror(errno));
	return 0;
}

/* The newest time of a file that the build did not write. */
static int find_epoch(const char *path, time_t build_start, time_t *ret, struct err *e)
{
	FTS *fts = walk_open(path, e);
	time_t newest = EPOCH_MIN;

	if (!fts)
		return -e->code;
	for (FTSENT *f; (f = fts_read(fts));)
		if (f->fts_info == FTS_F && f->fts_statp->st_mtime < build_start &&
		    f->fts_statp->st_mtime > newest)
			newest = f->fts_statp->st_mtime;
	fts_close(fts);
	*ret = newest;
	return 0;
}

int tree_settle(const char *path, time_t build_start, time_t *ret_epoch, struct err *e)
{
	time_t epoch = EPOCH_MIN;
	int r = find_epoch(path, build_start, &epoch, e);
	FTS *fts = r < 0 ? NULL : walk_open(path, e);

	if (!fts)
		return -e->code;
	for (FTSENT *f; r == 0 && (f = fts_read(fts));) {
		if (f->fts_info == FTS_D)
			continue; /* again on the way up, when its entries are done */
		if (f->fts_info == FTS_DNR || f->fts_info == FTS_ERR || f->fts_info == FTS_NS)
			r = err_set(e, f->fts_errno, "walk '%s': %s", f->fts_path,
				    strerror(f->fts_errno));
		else
			r = settle_one(f, build_start, epoch, e);
	}
	fts_close(fts);
	*ret_epoch = epoch;
	return r;
}

/* --- what every L0 has */

static const struct tree_entry FURNITURE[] = {
	{ "proc", 0555, NULL },
	{ "dev", 0755, NULL },
	{ "dev/shm", 01777, NULL },
	{ "tmp", 01777, NULL },
	{ "workspace", 0755, NULL },
	{ "skills", 0755, NULL },
	{ "etc", 0755, NULL },
	{ "etc/hostname", 0644, "sandbox\n" },
	{ "etc/hosts", 0644,
	  "127.0.0.1 localhost\n"
	  "127.0.0.1 sandbox\n"
	  "::1 localhost ip6-localhost ip6-loopback\n" },
	/* No name server: resolvers then ask 127.0.0.1, which is the sandbox itself. */
	{ "etc/resolv.conf", 0644, "# Names are the gateway's business.\n" },
};

struct account {
	const char *path;
	const char *line;
	unsigned mode; /* of a file that is missing; 0: leave it missing */
	const char *before;
};

static const struct account ACCOUNTS[] = {
	{ "etc/passwd", "sandbox:x:10001:10001:sandbox:/workspace/home:/bin/bash\n", 0644,
	  "root:x:0:0:root:/root:/bin/bash\n"
	  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "etc/group", "sandbox:x:10001:\n", 0644, "root:x:0:\nnogroup:x:65534:\n" },
	{ "etc/shadow", "sandbox:*:19000:0:99999:7:::\n", 0, NULL },
	{ "etc/gshadow", "sandbox:!::\n", 0, NULL },
};

/* Drops every line for the sandbox user's name and, in @has_ids files, for its id. */
static size_t without_sandbox(char *text, bool has_ids)
{
	char *to = text;

	for (char *from = text, *next; *from; from = next) {
		next = from + strcspn(from, "\n");
		next += *next == '\n';
		char *name_end = memchr(from, ':', (size_t)(next - from));
		bool same_name = strncmp(from, "sandbox:", 8) == 0;
		char *field =
			name_end ? memchr(name_end + 1, ':', (size_t)(next - name_end - 1)) : NULL;
		bool same_id = has_ids && field && strncmp(field, ":10001:", 7) == 0;
		if (same_name || same_id)
			continue;
		memmove(to, from, (size_t)(next - from));
		to += next - from;
	}
	*to = '\0';
	return (size_t)(to - text);
}

static int add_account(int rootfd, const struct account *a, struct err *e)
{
	autofree char *old = NULL;
	autoclose int in = fd_open_beneath(rootfd, a->path, O_RDONLY, 0, e);
	struct stat st = { .st_mode = a->mode };
	size_t len;

	if (in < 0 && in != -ENOENT)
		return in;
	if (in < 0 && a->mode == 0)
		return 0;
	if (in >= 0) {
		if (fstat(in, &st) < 0)
			return err_set(e, errno, "'/%s': %s", a->path, strerror(errno));
		if (fd_read_all(in, ACCOUNT_FILE_MAX, &old, &len, e) < 0)
			return err_wrap(e, a->path);
	} else if (!(old = strdup(a->before))) {
		return err_set(e, ENOMEM, "'/%s': out of memory", a->path);
	}
	len = without_sandbox(old, a->mode != 0);
	autoclose int out = fresh_file(rootfd, a->path, st.st_mode & 0777, e);
	if (out < 0)
		return out;
	if (fchown(out, 0, st.st_gid) < 0)
		return err_set(e, errno, "chown '/%s': %s", a->path, strerror(errno));
	int r = fd_write_all(out, old, len, e);
	if (r == 0 && len && old[len - 1] != '\n')
		r = fd_write_all(out, "\n", 1, e);
	return r < 0 ? r : fd_write_all(out, a->line, strlen(a->line), e);
}

int tree_furnish(const char *path, struct err *e)
{
	autoclose int rootfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (rootfd < 0)
		return err_set(e, errno, "open '%s': %s", path, strerror(errno));
	int r = tree_make(rootfd, FURNITURE, ARRAY_SIZE(FURNITURE), e);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(ACCOUNTS); i++)
		r = add_account(rootfd, &ACCOUNTS[i], e);
	return r;
}
