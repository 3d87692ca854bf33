/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification by file names: the auditor's door. It reads copies of a key and
 * a checkpoint that somebody brought; an instance's own are not its business.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/verify.h"
#include "base/fd.h"
#include "digest/digest.h"
#include "digest/secrets.h"

/* A key file's version is its name, as in a secrets directory; any other name is version 1. */
static uint32_t version_of(const char *path)
{
	const char *name = strrchr(path, '/');
	char *end;

	name = name ? name + 1 : path;
	unsigned long v = strtoul(name, &end, 10);
	return *name >= '1' && *name <= '9' && *end == '\0' && v < 1000000000 ? (uint32_t)v : 1;
}

static int load_key(const char *path, struct secret_set **ret, struct err *e)
{
	autofree char *text = NULL;
	size_t len;
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(e, errno, "key '%s': %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return secrets_load(AT_FDCWD, path, geteuid(), ret, e);
	if (fd_read_file(AT_FDCWD, path, SECRET_MAX + 1, &text, &len, e) < 0)
		return err_wrap(e, "key");
	size_t key_len = len && text[len - 1] == '\n' ? len - 1 : len;
	int rc = secrets_from_key(version_of(path), text, key_len, ret, e);
	digest_wipe(text, len);
	return rc;
}

int audit_verify_files(const char *db, const char *key, const char *checkpoint,
		       const struct audit_point *anchor, struct audit_result *ret, struct err *e)
{
	auto_(secret_set) keys = NULL;
	autofree char *text = NULL;
	size_t len = 0;

	if (load_key(key, &keys, e) < 0)
		return -e->code;
	if (checkpoint &&
	    fd_read_file(AT_FDCWD, checkpoint, AUDIT_CHECKPOINT_LEN, &text, &len, e) < 0)
		return err_wrap(e, "checkpoint");
	return audit_verify_copy(db, keys, text, len, anchor, ret, e);
}
