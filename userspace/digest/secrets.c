/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading and making versioned secrets. Reads straight into the set's own
 * pages: no copy of a key is left in a heap block or a stream buffer. Does not
 * know what a key is for, and never puts one into a message.
 */
#include "digest/secrets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "digest/digest.h"

struct secret_set {
	size_t n;
	struct secret keys[SECRET_VERSIONS_MAX]; /* highest version first */
};

static int set_new(struct secret_set **ret, struct err *e)
{
	void *p = mmap(NULL, sizeof(struct secret_set), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return err_set(e, ENOMEM, "secrets: out of memory");
	madvise(p, sizeof(struct secret_set), MADV_DONTDUMP);
	mlock(p, sizeof(struct secret_set)); /* where the limit allows: keeps keys off swap */
	*ret = p;
	return 0;
}

void secrets_free(struct secret_set *set)
{
	if (!set)
		return;
	digest_wipe(set, sizeof(*set));
	munmap(set, sizeof(*set));
}

/* Versions are written one way only: decimal, no sign, no leading zero. */
static bool parse_version(const char *name, uint32_t *ret)
{
	uint32_t v = 0;
	size_t len = strlen(name);

	if (len < 1 || len > 9 || name[0] == '0')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (name[i] < '0' || name[i] > '9')
			return false;
		v = v * 10 + (uint32_t)(name[i] - '0');
	}
	*ret = v;
	return true;
}

/* Whose is it, and who else may look? @forbidden are mode bits that must be clear. */
static int check_owner(const struct stat *st, uid_t owner, mode_t forbidden, const char *what,
		       struct err *e)
{
	if (st->st_uid != owner && st->st_uid != 0)
		return err_set(e, EPERM, "secret '%s' belongs to user %u, not to %u", what,
			       st->st_uid, owner);
	if (st->st_mode & forbidden)
		return err_set(e, EPERM, "secret '%s' is open to others (mode %04o)", what,
			       st->st_mode & 07777);
	return 0;
}

static int read_key(int fd, struct secret *s, const char *what, struct err *e)
{
	size_t len = 0;

	for (;;) {
		uint8_t extra;
		bool full = len == sizeof(s->key);
		ssize_t n = full ? read(fd, &extra, 1) : read(fd, s->key + len, sizeof(s->key) - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "secret '%s': read: %s", what, strerror(errno));
		if (n == 0)
			break;
		if (full)
			return err_set(e, EFBIG, "secret '%s' is over %d bytes", what, SECRET_MAX);
		len += (size_t)n;
	}
	if (len && s->key[len - 1] == '\n')
		len--;
	if (len == 0)
		return err_set(e, EINVAL, "secret '%s' is empty", what);
	s->len = (uint32_t)len;
	return 0;
}

static int load_file(int dirfd, const char *name, const char *file, uid_t owner,
		     struct secret_set *set, struct err *e)
{
	char what[512];
	struct secret *s = &set->keys[set->n];
	struct stat st;
	int rc;

	if (snprintf(what, sizeof(what), "%s/%s", name, file) >= (int)sizeof(what))
		return err_set(e, ENAMETOOLONG, "secret '%.100s' has too long a name", file);
	if (set->n == SECRET_VERSIONS_MAX)
		return err_set(e, E2BIG, "secret '%s' is one version too many", what);
	if (!parse_version(file, &s->version))
		return err_set(e, EINVAL, "secret '%s' is not named by a version", what);
	/* O_NONBLOCK: a FIFO in the directory must not hang the daemon. */
	autoclose int fd = fd_open_beneath(dirfd, file, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, e);
	if (fd == -ENOENT) /* taken away since it was listed: not the same as "there is none" */
		return err_set(e, EAGAIN, "secret '%s' went away while it was read", what);
	if (fd < 0)
		return err_wrap(e, what);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "secret '%s': stat: %s", what, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "secret '%s' is not a regular file", what);
	rc = check_owner(&st, owner, 0077, what, e);
	if (rc == 0)
		rc = read_key(fd, s, what, e);
	if (rc == 0)
		set->n++;
	return rc;
}

static int newest_first(const void *a, const void *b)
{
	uint32_t va = ((const struct secret *)a)->version, vb = ((const struct secret *)b)->version;

	return va < vb ? 1 : va > vb ? -1 : 0;
}

/* Insertion, because qsort may copy keys into a heap block of its own. */
static void sort_keys(struct secret_set *set)
{
	_Static_assert(SECRET_VERSIONS_MAX <= 64, "quadratic");
	struct secret tmp;

	for (size_t i = 1; i < set->n; i++)
		for (size_t j = i; j > 0 && newest_first(&set->keys[j - 1], &set->keys[j]) > 0; j--) {
			tmp = set->keys[j];
			set->keys[j] = set->keys[j - 1];
			set->keys[j - 1] = tmp;
		}
	digest_wipe(&tmp, sizeof(tmp));
}

/* Files that a writer is still at work on, and what the system itself lists. */
static bool is_ignored(const char *name)
{
	size_t len = strlen(name);

	return name[0] == '.' || (len > 4 && strcmp(name + len - 4, ".new") == 0);
}

static int load_all(DIR *dir, const char *name, uid_t owner, struct secret_set *set, struct err *e)
{
	struct dirent *d;

	for (errno = 0; (d = readdir(dir)); errno = 0) {
		if (is_ignored(d->d_name))
			continue;
		int rc = load_file(dirfd(dir), name, d->d_name, owner, set, e);
		if (rc < 0)
			return rc;
	}
	if (errno)
		return err_set(e, errno, "secrets '%s': %s", name, strerror(errno));
	if (set->n == 0)
		return err_set(e, ENOENT, "secrets '%s': there is no version", name);
	sort_keys(set);
	return 0;
}

int secrets_load(int dfd, const char *name, uid_t owner, struct secret_set **ret, struct err *e)
{
	autoclose int fd = openat(dfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct secret_set *set;
	struct stat st;
	int rc;

	if (fd < 0)
		return err_set(e, errno, "secrets '%s': %s", name, strerror(errno));
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "secrets '%s': stat: %s", name, strerror(errno));
	rc = check_owner(&st, owner, 0022, name, e);
	if (rc == 0)
		rc = set_new(&set, e);
	if (rc < 0)
		return rc;
	DIR *dir = fdopendir(fd);
	if (!dir) {
		rc = err_set(e, errno, "secrets '%s': %s", name, strerror(errno));
	} else {
		(void)take_fd(&fd); /* the stream's now */
		rc = load_all(dir, name, owner, set, e);
		closedir(dir);
	}
	if (rc < 0)
		secrets_free(set);
	else
		*ret = set;
	return rc;
}

const struct secret *secrets_at(const struct secret_set *set, size_t i)
{
	return set && i < set->n ? &set->keys[i] : NULL;
}

const struct secret *secrets_current(const struct secret_set *set)
{
	return secrets_at(set, 0);
}

const struct secret *secrets_version(const struct secret_set *set, uint32_t version)
{
	for (size_t i = 0; set && i < set->n; i++)
		if (set->keys[i].version == version)
			return &set->keys[i];
	return NULL;
}

int secrets_from_key(uint32_t version, const void *key, size_t len, struct secret_set **ret,
		     struct err *e)
{
	if (version == 0 || len == 0 || len > SECRET_MAX)
		return err_set(e, EINVAL, "a key of %zu bytes, version %u", len, version);
	int rc = set_new(ret, e);
	if (rc < 0)
		return rc;
	(*ret)->n = 1;
	(*ret)->keys[0].version = version;
	(*ret)->keys[0].len = (uint32_t)len;
	memcpy((*ret)->keys[0].key, key, len);
	return 0;
}

/* The directory of one secret; made where it is missing. */
static int open_or_make(int dfd, const char *name, uid_t uid, gid_t gid, struct err *e)
{
	bool made = mkdirat(dfd, name, 0700) == 0;

	if (!made && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", name, strerror(errno));
	autoclose int fd = openat(dfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "open '%s': %s", name, strerror(errno));
	if (made && fchown(fd, uid, gid) < 0)
		return err_set(e, errno, "chown '%s': %s", name, strerror(errno));
	return take_fd(&fd);
}

/* Written under a name that loading ignores, then linked: never half, never over another. */
static int write_key(int dir, const char *file, uid_t uid, gid_t gid, struct err *e)
{
	uint8_t raw[SECRET_GENERATED_LEN / 2];
	char text[SECRET_GENERATED_LEN + 2], tmp[48];
	int rc = digest_random(raw, sizeof(raw));

	if (rc < 0)
		return err_set(e, -rc, "no random bytes");
	snprintf(tmp, sizeof(tmp), ".%s.%d.new", file, (int)getpid());
	autoclose int fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	if (fd < 0)
		return err_set(e, errno, "create: %s", strerror(errno));
	digest_hex(raw, sizeof(raw), text);
	text[SECRET_GENERATED_LEN] = '\n';
	rc = fd_write_all(fd, text, SECRET_GENERATED_LEN + 1, e);
	digest_wipe(raw, sizeof(raw));
	digest_wipe(text, sizeof(text));
	if (rc == 0 && (fchown(fd, uid, gid) < 0 || fchmod(fd, 0400) < 0 || fsync(fd) < 0 ||
			linkat(dir, tmp, dir, file, 0) < 0))
		rc = err_set(e, errno, "%s", strerror(errno));
	unlinkat(dir, tmp, 0);
	return rc;
}

int secrets_generate(int dfd, const char *name, uint32_t version, uid_t uid, gid_t gid,
		     struct err *e)
{
	char file[16], what[300];

	snprintf(file, sizeof(file), "%u", version);
	snprintf(what, sizeof(what), "secret '%s/%s'", name, file);
	autoclose int dir = open_or_make(dfd, name, uid, gid, e);
	if (dir < 0)
		return dir;
	return write_key(dir, file, uid, gid, e) < 0 ? err_wrap(e, what) : 0;
}
