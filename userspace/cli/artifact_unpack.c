/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking: all of the stream is judged before the first file is made; then
 * everything is written into a fresh directory beside the target and moved
 * there in one step, so that nobody meets half of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifact/tar.h"
#include "base/fd.h"
#include "base/scope.h"
#include "cli/artifact.h"
#include "digest/digest.h"
#include "json/json.h"

/* What lies below @top; NULL: it does not. */
static const char *below(const char *path, const char *top)
{
	size_t n = strlen(top);

	if (n == 0)
		return path;
	if (strncmp(path, top, n) != 0 || (path[n] != '\0' && path[n] != '/'))
		return NULL;
	return path[n] == '/' ? path + n + 1 : path + n;
}

static json_t *describe(const struct tar_entry *t, const char *path)
{
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];

	digest_sha256(t->bytes, t->size, digest);
	digest_hex(digest, sizeof(digest), hex);
	return json_pack("{s:s, s:I, s:s, s:b, s:b}", "path", path, "size", (json_int_t)t->size,
			 "sha256", hex, "executable", t->is_executable, "hook", tar_is_hook(path));
}

/* Everything in the stream is something we would write. */
static int judge(const void *buf, size_t len, const char *top, json_t *files, struct err *e)
{
	struct tar_reader r = { .buf = buf, .len = len };
	struct tar_entry t;
	size_t n = 0;
	int rc;

	while ((rc = tar_read(&r, &t, e)) > 0) {
		const char *path = below(t.path, top);
		if (!path)
			return err_set(e, EINVAL, "'%.150s' was not asked for", t.path);
		if (++n > ARTIFACT_ENTRIES_MAX)
			return err_set(e, E2BIG, "more than %d files and directories",
				       ARTIFACT_ENTRIES_MAX);
		if (!t.is_directory &&
		    json_array_append_new(files, describe(&t, *path ? path : top)) < 0)
			return err_set(e, ENOMEM, "out of memory");
	}
	return rc < 0 ? rc : n ? 0 : err_set(e, EINVAL, "the stream is empty");
}

static int write_file(int dir, const char *path, const struct tar_entry *t, bool keeps_exec,
		      struct err *e)
{
	mode_t mode = keeps_exec && t->is_executable ? 0755 : 0644;
	autoclose int fd = fd_open_beneath(dir, path, O_WRONLY | O_CREAT | O_EXCL, mode, e);

	return fd < 0 ? fd : fd_write_all(fd, t->bytes, t->size, e);
}

static int make_directory(int dir, const char *path, struct err *e)
{
	char parent[TAR_PATH_MAX];
	const char *slash = strrchr(path, '/');
	autoclose int up = -1;

	if (slash) {
		snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
		up = fd_open_beneath(dir, parent, O_RDONLY | O_DIRECTORY, 0, e);
		if (up < 0)
			return up;
	}
	if (mkdirat(slash ? up : dir, slash ? slash + 1 : path, 0755) < 0 && errno != EEXIST)
		return err_set(e, errno, "'%.150s': %s", path, strerror(errno));
	return 0;
}

/* Below @dir as "it" and "it/...". */
static int write_all(int dir, const void *buf, size_t len, const char *top, bool keeps_exec,
		     struct err *e)
{
	struct tar_reader r = { .buf = buf, .len = len };
	struct tar_entry t;
	int rc;

	while ((rc = tar_read(&r, &t, e)) > 0) {
		char path[TAR_PATH_MAX + 8];
		const char *rest = below(t.path, top);
		snprintf(path, sizeof(path), "it%s%s", *rest ? "/" : "", rest);
		rc = t.is_directory ? make_directory(dir, path, e) :
				      write_file(dir, path, &t, keeps_exec, e);
		if (rc < 0)
			return rc;
	}
	return rc;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

int artifact_unpack(const void *buf, size_t len, const char *top, const char *to, bool keeps_exec,
		    json_t **ret, struct err *e)
{
	char fresh[TAR_PATH_MAX + 16], it[sizeof(fresh) + 4];
	auto_json json_t *files = json_array();
	struct stat st;

	if (lstat(to, &st) == 0)
		return err_set(e, EEXIST, "'%.150s' exists", to);
	if (snprintf(fresh, sizeof(fresh), "%s.XXXXXX", to) >= (int)sizeof(fresh))
		return err_set(e, ENAMETOOLONG, "'%.100s...': too long", to);
	if (judge(buf, len, top, files, e) < 0)
		return -e->code;
	if (!mkdtemp(fresh))
		return err_set(e, errno, "'%.150s': %s", fresh, strerror(errno));
	snprintf(it, sizeof(it), "%s/it", fresh);
	autoclose int dir = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = dir < 0 ? err_set(e, errno, "'%.150s': %s", fresh, strerror(errno)) :
			   write_all(dir, buf, len, top, keeps_exec, e);
	if (rc == 0 && renameat2(AT_FDCWD, it, AT_FDCWD, to, RENAME_NOREPLACE) < 0)
		rc = err_set(e, errno, "'%.150s': %s", to, strerror(errno));
	nftw(fresh, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (rc == 0)
		*ret = json_incref(files);
	return rc;
}
