/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of an instance (S4): makes those of a new one and checks the
 * files of an old one by what stat says. cordond never reads a secret.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "digest/digest.h"
#include "supervisor/ground.h"

enum { SECRET_BYTES = 32, SECRET_MAX = 4096 };

static const struct {
	const char *name;
	enum config_reader owner;
} secrets[] = {
	{ "carrier", FOR_BROKER },     { "control", FOR_GATEWAY }, { "provenance", FOR_BROKER },
	{ "attestation", FOR_BROKER }, { "chain", FOR_LEDGER },
};

static inline void close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

static int check_file(int dir, const char *dirname, const char *file, uid_t owner, struct err *e)
{
	struct stat st;

	if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, errno, "secret '%s/%s': %s", dirname, file, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, EPERM, "secret '%s/%s' is no regular file", dirname, file);
	if (st.st_mode & 077)
		return err_set(e, EPERM, "secret '%s/%s' has mode %04o: others may read it; 0400 "
					 "is right",
			       dirname, file, st.st_mode & 07777);
	if (st.st_uid != 0 && st.st_uid != owner)
		return err_set(e, EPERM, "secret '%s/%s' belongs to user %u, neither root nor %u",
			       dirname, file, st.st_uid, owner);
	if (st.st_size == 0 || st.st_size > SECRET_MAX)
		return err_set(e, EINVAL, "secret '%s/%s' has %lld bytes", dirname, file,
			       (long long)st.st_size);
	/* Root's own file becomes its daemon's, so that it can read a later version of it too. */
	if (st.st_uid != owner && fchownat(dir, file, owner, 0, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, errno, "owner of '%s/%s': %s", dirname, file, strerror(errno));
	return 0;
}

/* Versions are decimal numbers without leading zeros; anything else is not a secret. */
static bool is_version(const char *name)
{
	size_t len = strlen(name);

	return name[0] != '0' && len > 0 && len < 10 && strspn(name, "0123456789") == len;
}

/* Checks every version in @dir. Gives their number. */
static int check_versions(int dir, const char *dirname, uid_t owner, struct err *e)
{
	__attribute__((cleanup(close_dir))) DIR *d = fdopendir(dup(dir));
	int n = 0;

	if (!d)
		return err_set(e, errno, "secrets '%s': %s", dirname, strerror(errno));
	rewinddir(d);
	for (struct dirent *x; (x = readdir(d));) {
		if (!is_version(x->d_name))
			continue;
		if (check_file(dir, dirname, x->d_name, owner, e) < 0)
			return -e->code;
		n++;
	}
	return n;
}

static int generate(int dir, uid_t owner, gid_t group, struct err *e)
{
	uint8_t raw[SECRET_BYTES];
	char text[2 * SECRET_BYTES + 1];

	if (digest_random(raw, sizeof(raw)) < 0)
		return err_set(e, EIO, "no random bytes");
	digest_hex(raw, sizeof(raw), text);
	int rc = fd_replace_file(dir, "1", text, 2 * SECRET_BYTES, 0400, e);
	digest_wipe(raw, sizeof(raw));
	digest_wipe(text, sizeof(text));
	if (rc == 0 && fchownat(dir, "1", owner, group, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, errno, "owner of a secret: %s", strerror(errno));
	return rc;
}

static int provide(const struct plane *p, const char *name, enum config_reader who,
		   bool has_state, struct err *e)
{
	char path[PLACES_PATH_MAX + 32];
	uint32_t uid, gid;
	struct stat st;

	plane_daemon_id(p, who, &uid, &gid);
	snprintf(path, sizeof(path), "%s/%s", p->places.secrets, name);
	if (mkdir(path, 0500) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", path, strerror(errno));
	autoclose int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) < 0)
		return err_set(e, errno, "secrets '%s': %s", path, strerror(errno));
	if (fchown(dir, uid, gid) < 0 || fchmod(dir, 0500) < 0)
		return err_set(e, errno, "owner of '%s': %s", path, strerror(errno));
	int n = check_versions(dir, path, uid, e);
	if (n != 0)
		return n < 0 ? n : 0;
	if (has_state)
		return err_set(e, ENOENT,
			       "secret '%s/1' is missing and this instance has state; put it back",
			       path);
	return generate(dir, uid, gid, e);
}

int ground_secrets(const struct plane *p, struct err *e)
{
	int schema = ground_read_schema(p, e);

	if (schema < 0)
		return schema;
	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		if (provide(p, secrets[i].name, secrets[i].owner, schema > 0, e) < 0)
			return -e->code;
	return 0;
}
