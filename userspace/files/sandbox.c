/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path is walked part by part with handles, which says where it really leads;
 * that is judged; then it is opened again below its root by its real name with
 * no link allowed on the way, and has to be the same file. Whoever swaps
 * something in between gets an error out of it.
 */
#include "files/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"

/* --- Walking */

struct walker {
	int fd;			   /* handle of what has been walked */
	char path[FILES_PATH_MAX]; /* its real path */
	char rest[2 * FILES_PATH_MAX];
	unsigned hops;
	bool is_denied; /* a directory on the way is a denied one, whatever it is called here */
};

static bool is_denied_directory(const struct files_set *s, const struct stat *st)
{
	for (size_t i = 0; s && i < s->ndeny; i++)
		if (s->deny[i].ino != 0 && s->deny[i].dev == st->st_dev && s->deny[i].ino == st->st_ino)
			return true;
	return false;
}

/* The next part of the rest, taken off it. False at the end. */
static bool next_part(struct walker *w, char part[NAME_MAX + 1], int *ret_error)
{
	char *p = w->rest + strspn(w->rest, "/");
	size_t n = strcspn(p, "/");

	if (n > NAME_MAX) {
		*ret_error = ENAMETOOLONG;
		return false;
	}
	memcpy(part, p, n);
	part[n] = '\0';
	memmove(w->rest, p + n, strlen(p + n) + 1);
	return n > 0;
}

/* The link's target goes before the rest. */
static int follow(struct walker *w, int link)
{
	char target[FILES_PATH_MAX], joined[2 * FILES_PATH_MAX];
	ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);

	if (n < 0)
		return errno;
	target[n] = '\0';
	if (++w->hops > FILES_HOPS_MAX)
		return ELOOP;
	if (snprintf(joined, sizeof(joined), "%s/%s", target, w->rest) >= (int)sizeof(joined))
		return ENAMETOOLONG;
	memcpy(w->rest, joined, strlen(joined) + 1);
	if (target[0] != '/')
		return 0;
	int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return errno;
	close(w->fd);
	w->fd = top;
	strcpy(w->path, "/");
	return 0;
}

/* One part further: 0, or why not. */
static int step(const struct files_set *s, struct walker *w, const char *part)
{
	char path[FILES_PATH_MAX];
	struct stat st;

	if (strcmp(part, ".") == 0)
		return 0;
	if (!files_join(w->path, part, path))
		return ENAMETOOLONG;
	autoclose int fd = openat(w->fd, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno;
	if (S_ISLNK(st.st_mode))
		return follow(w, fd);
	w->is_denied |= is_denied_directory(s, &st);
	close(w->fd);
	w->fd = take_fd(&fd);
	strcpy(w->path, path); /* both FILES_PATH_MAX */
	return 0;
}

/*
 * Walks @path from the top. Where it ends early *ret_error says why, and the
 * place has the rest of it by its letters. Gives a handle, or -1.
 */
static int walk(const struct files_set *s, const char *path, char ret[FILES_PATH_MAX],
		bool *ret_denied, int *ret_error)
{
	autofree struct walker *w = calloc(1, sizeof(*w));
	char part[NAME_MAX + 1];
	int error = 0;

	*ret_denied = false;
	*ret_error = ENOMEM;
	strcpy(ret, "/");
	if (!w)
		return -1;
	w->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	strcpy(w->path, "/");
	if (w->fd < 0 || strlen(path) >= FILES_PATH_MAX) {
		*ret_error = w->fd < 0 ? errno : ENAMETOOLONG;
		return -1;
	}
	strcpy(w->rest, path); /* shorter, as just seen */
	while (error == 0 && next_part(w, part, &error))
		error = step(s, w, part);
	*ret_denied = w->is_denied;
	*ret_error = error;
	if (error == 0) {
		strcpy(ret, w->path);
		return w->fd;
	}
	close(w->fd);
	char below[FILES_PATH_MAX];
	if (!files_join(w->path, part, below) || !files_join(below, w->rest + strspn(w->rest, "/"), ret))
		*ret_denied = true; /* it does not even fit */
	return -1;
}

/* --- Sets */

static int add_root(struct files_root **roots, size_t *n, const char *path, bool is_allowed,
		    struct err *e)
{
	bool denied;
	int error;

	if (path[0] != '/')
		return err_set(e, EINVAL, "root '%.200s' is not absolute", path);
	if (*n == FILES_ROOTS_MAX)
		return err_set(e, E2BIG, "more than %d roots", FILES_ROOTS_MAX);
	struct files_root *more = realloc(*roots, (*n + 1) * sizeof(*more));
	if (!more)
		return err_set(e, ENOMEM, "roots: out of memory");
	*roots = more;
	struct files_root *r = &more[*n];
	struct stat st = { 0 };
	autoclose int fd = walk(NULL, path, r->path, &denied, &error);
	if (fd < 0 && is_allowed)
		return err_set(e, error, "root '%.200s': %s", path, strerror(error));
	if (fd >= 0 && fstat(fd, &st) < 0)
		return err_set(e, errno, "root '%.200s': %s", path, strerror(errno));
	if (is_allowed && !S_ISDIR(st.st_mode))
		return err_set(e, ENOTDIR, "root '%.200s' is no directory", path);
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	++*n;
	return 0;
}

int files_allow(struct files_set *s, const char *path, struct err *e)
{
	return add_root(&s->allow, &s->nallow, path, true, e);
}

int files_deny(struct files_set *s, const char *path, struct err *e)
{
	return add_root(&s->deny, &s->ndeny, path, false, e);
}

static int add_list(struct files_set *s, const char *list,
		    int (*add)(struct files_set *, const char *, struct err *), struct err *e)
{
	char path[FILES_PATH_MAX];

	while (*list) {
		size_t n = strcspn(list, ":");
		if (n >= sizeof(path))
			return err_set(e, ENAMETOOLONG, "a root is too long");
		memcpy(path, list, n);
		path[n] = '\0';
		list += n + (list[n] == ':');
		int rc = n > 0 ? add(s, path, e) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

int files_allow_list(struct files_set *s, const char *list, struct err *e)
{
	return add_list(s, list, files_allow, e);
}

int files_deny_list(struct files_set *s, const char *list, struct err *e)
{
	return add_list(s, list, files_deny, e);
}

void files_set_done(struct files_set *s)
{
	free(s->allow);
	free(s->deny);
	*s = (struct files_set){ 0 };
}

static enum files_verdict judge(const struct files_set *s, const char *path)
{
	const char *allow[FILES_ROOTS_MAX], *deny[FILES_ROOTS_MAX];

	for (size_t i = 0; i < s->nallow; i++)
		allow[i] = s->allow[i].path;
	for (size_t i = 0; i < s->ndeny; i++)
		deny[i] = s->deny[i].path;
	return files_judge(allow, s->nallow, deny, s->ndeny, path);
}

/* --- Finding and opening */

/* Gives a handle, or -1 where nothing is there but the place is inside; -errno for what is not. */
static int find(const struct files_set *s, const char *path, struct files_place *ret, struct err *e)
{
	bool denied;

	memset(ret, 0, sizeof(*ret));
	if (path[0] != '/')
		return err_set(e, EINVAL, "'%.200s' is not absolute", path);
	autoclose int fd = walk(s, path, ret->path, &denied, &ret->error);
	enum files_verdict v = judge(s, ret->path);
	if (v != FILES_INSIDE || denied)
		return err_set(e, EACCES, "'%.200s' is %s", path,
			       v == FILES_OUTSIDE ? "outside of what is allowed" : "denied");
	if (fd >= 0 && fstat(fd, &ret->st) < 0)
		ret->error = errno;
	return ret->error ? -1 : take_fd(&fd);
}

int files_find(const struct files_set *s, const char *path, struct files_place *ret, struct err *e)
{
	e->code = 0;
	autoclose int fd = find(s, path, ret, e);
	return fd < 0 && e->code ? -e->code : 0;
}

static int open_root(const struct files_root *r, struct err *e)
{
	autoclose int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (top < 0)
		return err_set(e, errno, "open '/': %s", strerror(errno));
	return r->path[1] ? fd_open_beneath(top, r->path + 1, O_PATH | O_DIRECTORY, 0, e) :
			    take_fd(&top);
}

/* @path is real and inside: opened below its root, with no link on the way. */
static int open_real(const struct files_set *s, const char *path, int flags, struct err *e)
{
	for (size_t i = 0; i < s->nallow; i++) {
		const struct files_root *r = &s->allow[i];
		if (!files_is_below(r->path, path))
			continue;
		autoclose int root = open_root(r, e);
		const char *below = path + (r->path[1] ? strlen(r->path) : 0);
		if (root < 0)
			return root;
		return fd_open_beneath(root, *below ? below + 1 : ".", flags, 0, e);
	}
	return err_set(e, EACCES, "'%.200s' is outside of what is allowed", path);
}

static int open_found(const struct files_set *s, const char *path, int flags, struct files_place *ret,
		      struct err *e)
{
	struct stat st;

	e->code = 0;
	autoclose int handle = find(s, path, ret, e);
	if (handle < 0)
		return e->code ? -e->code :
				 err_set(e, ret->error, "'%.200s': %s", path, strerror(ret->error));
	/* A device is not even opened. */
	if (!S_ISREG(ret->st.st_mode) && !S_ISDIR(ret->st.st_mode))
		return err_set(e, EACCES, "'%.200s' is neither a file nor a directory", path);
	autoclose int fd = open_real(s, ret->path, flags | O_NOCTTY | O_NONBLOCK, e);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "'%.200s': %s", path, strerror(errno));
	if (st.st_dev != ret->st.st_dev || st.st_ino != ret->st.st_ino)
		return err_set(e, EACCES, "'%.200s' was swapped while it was opened", path);
	ret->st = st;
	return take_fd(&fd);
}

int files_open(const struct files_set *s, const char *path, struct files_place *ret, struct err *e)
{
	autoclose int fd = open_found(s, path, O_RDONLY, ret, e);
	int rc;

	if (fd < 0)
		return fd;
	if (!S_ISREG(ret->st.st_mode))
		return err_set(e, EISDIR, "'%.200s' is a directory", path);
	rc = files_check_links(s, &ret->st, e);
	return rc < 0 ? rc : take_fd(&fd);
}

int files_open_directory(const struct files_set *s, const char *path, struct files_place *ret,
			 struct err *e)
{
	return open_found(s, path, O_RDONLY | O_DIRECTORY, ret, e);
}

/* --- Walking a tree */

struct tree {
	const struct files_set *set;
	int (*each)(void *ctx, int fd, const char *path, const struct stat *st, struct err *e);
	void *ctx;
	bool is_flat;
	unsigned depth;
	size_t seen;
	char path[FILES_PATH_MAX];
};

static int is_name(const struct dirent *d)
{
	return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int walk_tree(struct tree *t, int dirfd, struct err *e);

static int visit(struct tree *t, int dirfd, const char *name, struct err *e)
{
	autoclose int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (++t->seen > FILES_WALK_MAX)
		return err_set(e, EACCES, "more than %d names to look at", FILES_WALK_MAX);
	if (fd < 0 || fstat(fd, &st) < 0)
		return 0; /* gone meanwhile */
	if (is_denied_directory(t->set, &st) || judge(t->set, t->path) != FILES_INSIDE)
		return 0;
	int rc = t->each(t->ctx, fd, t->path, &st, e);
	if (rc != 0 || !S_ISDIR(st.st_mode) || t->is_flat)
		return rc;
	autoclose int dir = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir < 0 ? 0 : walk_tree(t, dir, e);
}

/* Bounded: by FILES_DEPTH_MAX and FILES_WALK_MAX. */
static int walk_tree(struct tree *t, int dirfd, struct err *e)
{
	struct dirent **names = NULL;
	size_t len = strlen(t->path);
	int n, rc = 0;

	if (t->depth == FILES_DEPTH_MAX)
		return err_set(e, EACCES, "'%.200s' lies too deep", t->path);
	n = scandirat(dirfd, ".", &names, is_name, by_bytes);
	t->depth++;
	for (int i = 0; i < n; i++) {
		char below[FILES_PATH_MAX];
		if (rc == 0 && files_join(t->path, names[i]->d_name, below)) {
			strcpy(t->path, below);
			rc = visit(t, dirfd, names[i]->d_name, e);
			t->path[len] = '\0';
		}
		free(names[i]);
	}
	free(names);
	t->depth--;
	return rc;
}

int files_walk(const struct files_set *s, const char *dir, enum files_depth depth,
	       int (*each)(void *ctx, int fd, const char *path, const struct stat *st, struct err *e),
	       void *ctx, struct err *e)
{
	autofree struct tree *t = calloc(1, sizeof(*t));
	struct files_place place;
	autoclose int fd = files_open_directory(s, dir, &place, e);

	if (fd < 0)
		return fd;
	if (!t)
		return err_set(e, ENOMEM, "walk: out of memory");
	t->set = s;
	t->is_flat = depth == FILES_ONE_LEVEL;
	t->each = each;
	t->ctx = ctx;
	memcpy(t->path, place.path, sizeof(t->path));
	int rc = walk_tree(t, fd, e);
	return rc > 0 ? 0 : rc;
}

/* --- Hard links */

struct sought {
	const struct stat *st;
	nlink_t found;
};

static int compare(void *ctx, int fd, const char *path, const struct stat *st, struct err *e)
{
	struct sought *s = ctx;

	(void)fd;
	(void)path;
	(void)e;
	s->found += st->st_dev == s->st->st_dev && st->st_ino == s->st->st_ino;
	return s->found >= s->st->st_nlink;
}

/* Roots inside roots would be counted twice. */
static bool is_nested(const struct files_set *s, size_t i)
{
	for (size_t k = 0; k < s->nallow; k++)
		if (k != i && files_is_below(s->allow[k].path, s->allow[i].path) &&
		    (strcmp(s->allow[k].path, s->allow[i].path) != 0 || k < i))
			return true;
	return false;
}

int files_check_links(const struct files_set *s, const struct stat *st, struct err *e)
{
	struct sought sought = { .st = st };

	if (!S_ISREG(st->st_mode) || st->st_nlink <= 1)
		return 0;
	for (size_t i = 0; i < s->nallow && sought.found < st->st_nlink; i++) {
		if (is_nested(s, i) || judge(s, s->allow[i].path) != FILES_INSIDE)
			continue;
		int rc = files_walk(s, s->allow[i].path, FILES_ALL, compare, &sought, e);
		if (rc < 0)
			return rc;
	}
	if (sought.found >= st->st_nlink)
		return 0;
	return err_set(e, EACCES, "it has another name outside of what is allowed");
}

/* --- Writing */

/*
 * A file beside @name takes its place: made new under a name nobody could have
 * prepared, so that nothing is ever written through a link.
 */
static int replace(int dir, const char *name, const void *buf, size_t len, mode_t mode,
		   struct err *e)
{
	char fresh[64];
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return err_set(e, EIO, "no random bytes");
	snprintf(fresh, sizeof(fresh), ".cordon-%016llx", (unsigned long long)random);
	autoclose int fd =
		openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(e, errno, "create '%s': %s", fresh, strerror(errno));
	if (fd_write_all(fd, buf, len, e) < 0)
		goto undo;
	if (fchmod(fd, mode) == 0 && fsync(fd) == 0 && renameat(dir, fresh, dir, name) == 0)
		return 0;
	err_set(e, errno, "replace '%.200s': %s", name, strerror(errno));
undo:
	unlinkat(dir, fresh, 0);
	return -e->code;
}

/* The real path's directory and last part. False for "/". */
static bool split(const char *path, char dir[FILES_PATH_MAX], const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash == path ? 1 : (size_t)(slash - path);

	memcpy(dir, path, n);
	dir[n] = '\0';
	*ret_name = slash + 1;
	return slash[1] != '\0';
}

int files_write(const struct files_set *s, const char *path, const void *buf, size_t len,
		struct files_place *ret, struct err *e)
{
	char dir[FILES_PATH_MAX];
	const char *name;
	int rc = files_find(s, path, ret, e);

	if (rc < 0)
		return rc;
	if (ret->error && ret->error != ENOENT)
		return err_set(e, ret->error, "'%.200s': %s", path, strerror(ret->error));
	if (!ret->error && !S_ISREG(ret->st.st_mode))
		return err_set(e, EACCES, "'%.200s' is not a regular file", path);
	rc = ret->error ? 0 : files_check_links(s, &ret->st, e);
	if (rc < 0)
		return rc;
	if (!split(ret->path, dir, &name))
		return err_set(e, EISDIR, "'%.200s' is a directory", path);
	autoclose int fd = open_real(s, dir, O_RDONLY | O_DIRECTORY, e);
	if (fd < 0)
		return fd;
	mode_t mode = ret->error ? 0644 : ret->st.st_mode & 0777;
	return replace(fd, name, buf, len, mode, e);
}
