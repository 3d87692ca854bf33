/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification by file names: the auditor's door. The database is read as it
 * lies there (copy.c); where somebody writes into it meanwhile it is read
 * again, so that a writer never looks like damage.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/copy.h"
#include "audit/schema.h"
#include "audit/verify.h"
#include "base/fd.h"
#include "digest/digest.h"
#include "digest/secrets.h"

enum { ATTEMPTS_MAX = 10, STEP_ROWS = 10000 };

struct audit_files {
	struct audit_copy *copy;
	struct secret_set *keys;
	bool has_checkpoint, has_due;
	struct audit_point due;
	struct err bad; /* why the checkpoint cannot be used */
};

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
		return secrets_load(AT_FDCWD, path, st.st_uid, ret, e); /* whose it is, is the ledger's */
	if (fd_read_file(AT_FDCWD, path, SECRET_MAX + 1, &text, &len, e) < 0)
		return err_wrap(e, "key");
	size_t key_len = len && text[len - 1] == '\n' ? len - 1 : len;
	int rc = secrets_from_key(version_of(path), text, key_len, ret, e);
	digest_wipe(text, len);
	return rc;
}

/* What the chain must have come to, by a checkpoint's text. */
static void use_checkpoint(struct audit_files *f, const char *text, size_t len)
{
	char boot[AUDIT_BOOT_LEN + 1];
	struct audit_checkpoint c;
	struct err ignored;

	f->has_checkpoint = true;
	f->has_due = audit_checkpoint_parse(text, len, f->keys, &c, &f->bad) == 0;
	if (f->has_due)
		f->due = *audit_checkpoint_due(&c, audit_boot_id(boot, &ignored) == 0 ? boot : NULL);
}

int audit_files_open(const char *db, const char *key, const char *checkpoint,
		     struct audit_files **ret, struct err *e)
{
	auto_(audit_files) f = calloc(1, sizeof(*f));
	autofree char *text = NULL;
	size_t len = 0;

	if (!f)
		return err_set(e, ENOMEM, "verify: out of memory");
	if (load_key(key, &f->keys, e) < 0)
		return -e->code;
	/* The checkpoint before the database: a writer is only ever further on. */
	if (checkpoint &&
	    fd_read_file(AT_FDCWD, checkpoint, AUDIT_CHECKPOINT_LEN + 1, &text, &len, e) < 0)
		return err_wrap(e, "checkpoint");
	if (checkpoint)
		use_checkpoint(f, text, len);
	if (audit_copy_open(db, &f->copy, e) < 0)
		return -e->code;
	*ret = take_ptr(f);
	return 0;
}

static void db_close(sqlite3 **db)
{
	sqlite3_close(*db);
}

/* One reading of the files as they are now. */
static int verify_once(struct audit_files *f, const struct audit_point *anchor,
		       struct audit_result *ret, struct err *e)
{
	__attribute__((cleanup(db_close))) sqlite3 *db = NULL;
	auto_(audit_verifier) v = NULL;
	bool is_new;

	if (audit_copy_connect(f->copy, &db, e) < 0 || audit_db_check_version(db, &is_new, e) < 0)
		return -e->code;
	if (is_new)
		return err_set(e, EUCLEAN, "it is not a ledger");
	if (audit_verifier_new(db, f->keys, f->has_due ? &f->due : NULL,
			       f->has_checkpoint && !f->has_due ? f->bad.msg : NULL, anchor, &v,
			       e) < 0)
		return -e->code;
	while (audit_verifier_step(v, STEP_ROWS))
		;
	*ret = *audit_verifier_result(v);
	return 0;
}

void audit_files_verify(struct audit_files *f, const struct audit_point *anchor,
			struct audit_result *ret)
{
	struct err e;

	for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
		if (verify_once(f, anchor, ret, &e) < 0)
			audit_result_unreadable(ret, e.msg);
		if (ret->verdict == VERDICT_OK || !audit_copy_is_stale(f->copy))
			return;
	}
	audit_result_unreadable(ret, "it is being written to: ask its ledger, or take a copy");
}

void audit_files_free(struct audit_files *f)
{
	if (!f)
		return;
	audit_copy_free(f->copy);
	secrets_free(f->keys);
	free(f);
}
