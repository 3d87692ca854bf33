/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite behind a small door: the statements as one table, transactions, the
 * files. SQLite finds its files by names relative to the working directory
 * (ROOT/var/lib/cordon): its own path resolution, which wants to look at every
 * parent, is switched off, because those may be closed to the ledger's user.
 */
#include "ledger/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/schema.h"
#include "base/fault.h"
#include "base/scope.h"

const char store_db[] = "ledger.db";
const char store_wal[] = "ledger.db-wal";
const char store_shm[] = "ledger.db-shm";

#define ROW_COLUMNS \
	"sequence, timeUs, organizationId, actorPrincipalId, actorPrincipalType, authSource," \
	" resourceType, resourceId, operation, decision, runId, metadata, keyVersion, chain"

static const char *const sql[ST_COUNT] = {
	[ST_ROW_ADD] = "INSERT INTO rows(" ROW_COLUMNS ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	[ST_ROW_LAST] = "SELECT sequence, chain FROM rows ORDER BY sequence DESC LIMIT 1",
	[ST_ROW_LINK] = "SELECT chain FROM rows WHERE sequence = ?",
	[ST_ROWS_ORG] = "SELECT " ROW_COLUMNS " FROM rows WHERE organizationId = ?1"
			" AND sequence > ?2 ORDER BY sequence LIMIT ?3",
	[ST_ROWS_ALL] = "SELECT " ROW_COLUMNS " FROM rows WHERE sequence > ?1"
			" ORDER BY sequence LIMIT ?2",
	[ST_ROWS_ORG_NEWEST] = "SELECT " ROW_COLUMNS " FROM rows WHERE organizationId = ?1"
			       " ORDER BY sequence DESC LIMIT ?2",
	[ST_ROWS_ALL_NEWEST] = "SELECT " ROW_COLUMNS " FROM rows ORDER BY sequence DESC LIMIT ?1",
	[ST_ROWS_OLDEST] = "SELECT " ROW_COLUMNS " FROM rows ORDER BY sequence LIMIT ?",
	[ST_ROWS_CUT] = "DELETE FROM rows WHERE sequence <= ?",
	[ST_CUT_READ] = "SELECT upto, chain FROM cut",
	[ST_CUT_WRITE] = "INSERT OR REPLACE INTO cut(id, upto, chain, timeUs, keyVersion, mac)"
			 " VALUES(1,?,?,?,?,?)",
	[ST_RECEIPT_ADD] = "INSERT OR IGNORE INTO receipts(jobId, commandId, sequence,"
			   " organizationId, userId, receipt, envelope) VALUES(?,?,?,?,?,?,?)",
	[ST_RECEIPT_GET] = "SELECT receipt, envelope, organizationId, userId FROM receipts"
			   " WHERE jobId = ? AND commandId = ?",
	[ST_RECEIPTS_CUT] = "DELETE FROM receipts WHERE sequence <= ?",
	[ST_INTENT_ADD] = "INSERT INTO intents(id, timeUs, broker, body, keyVersion, mac)"
			  " VALUES(?,?,?,?,?,?)",
	[ST_INTENT_END] = "DELETE FROM intents WHERE id = ?",
	[ST_INTENTS_OTHER] = "SELECT id, timeUs, broker, body, keyVersion, mac FROM intents"
			     " WHERE broker <> ? ORDER BY timeUs LIMIT 1",
	[ST_INTENTS_COUNT] = "SELECT count(*) FROM intents",
	[ST_COMMAND_CLAIM] = "INSERT OR IGNORE INTO commands(jobId, commandId) VALUES(?,?)",
	[ST_COMMAND_GET] = "SELECT decision, termination, exitCode FROM commands"
			   " WHERE jobId = ? AND commandId = ?",
	[ST_COMMAND_END] = "UPDATE commands SET decision = ?3, termination = ?4, exitCode = ?5"
			   " WHERE jobId = ?1 AND commandId = ?2 AND decision IS NULL",
	[ST_CONSUMER_NEW] = "INSERT OR IGNORE INTO consumers(name, sequence) VALUES(?, 0)",
	[ST_CONSUMER_GET] = "SELECT sequence FROM consumers WHERE name = ?",
	[ST_CONSUMER_SET] = "UPDATE consumers SET sequence = ?2 WHERE name = ?1 AND sequence < ?2",
	[ST_CONSUMER_DROP] = "DELETE FROM consumers WHERE name = ?",
	[ST_CONSUMERS_LEAST] = "SELECT min(sequence) FROM consumers",
	[ST_NONCE_ADD] = "INSERT OR IGNORE INTO nonces(digest, untilMs) VALUES(?,?)",
	[ST_NONCES_COUNT] = "SELECT count(*) FROM nonces",
	[ST_NONCES_PRUNE] = "DELETE FROM nonces WHERE untilMs <= ?",
	[ST_RUN_SET] = "INSERT OR REPLACE INTO runs(runId, orgId, userId, state) VALUES(?,?,?,?)",
	[ST_RUN_GET] = "SELECT runId, orgId, userId, state FROM runs WHERE runId = ?",
	[ST_RUN_LIST] = "SELECT runId, orgId, userId, state FROM runs WHERE runId > ?"
			" ORDER BY runId LIMIT ?",
	[ST_RUN_DROP] = "DELETE FROM runs WHERE runId = ?",
	[ST_KEEP_SET] = "INSERT OR REPLACE INTO kept(kind, key, value) VALUES(?,?,?)",
	[ST_KEEP_DROP] = "DELETE FROM kept WHERE kind = ? AND key = ?",
	[ST_KEPT_LIST] = "SELECT key, value FROM kept WHERE kind = ? AND key > ?"
			 " ORDER BY key LIMIT ?",
	[ST_STATE_SET] = "INSERT OR REPLACE INTO state(key, value) VALUES(?,?)",
	[ST_STATE_GET] = "SELECT value FROM state WHERE key = ?",
};

struct value value_int(int64_t n)
{
	return (struct value){ VALUE_INT, n, NULL };
}

struct value value_text(const char *s)
{
	return value_span(s, s ? strlen(s) : 0);
}

struct value value_span(const char *s, size_t len)
{
	return s ? (struct value){ VALUE_TEXT, (int64_t)len, s } : (struct value){ 0 };
}

struct value value_blob(const void *p, size_t len)
{
	return (struct value){ VALUE_BLOB, (int64_t)len, p };
}

int store_make_files(uid_t uid, gid_t gid, struct err *e)
{
	const char *const names[] = { store_db, store_wal, store_shm };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		autoclose int fd = open(names[i], O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		struct stat st;
		if (fd < 0 || fstat(fd, &st) < 0)
			return err_set(e, errno, "'%s': %s", names[i], strerror(errno));
		if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
			return err_set(e, EUCLEAN, "'%s' is not a file of its own", names[i]);
		if (fchown(fd, uid, gid) < 0 || fchmod(fd, 0600) < 0)
			return err_set(e, errno, "'%s': %s", names[i], strerror(errno));
	}
	return 0;
}

static int full_pathname(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
	(void)vfs;
	return snprintf(out, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* The ordinary VFS, but a name is taken as it is. */
static int vfs_register(void)
{
	static sqlite3_vfs flat; /* SQLite keeps a pointer for the process's life */
	sqlite3_vfs *unix_vfs = sqlite3_vfs_find("unix");

	if (flat.zName)
		return SQLITE_OK;
	/* Before SQLite's first use. A lock around every allocation would be one for nobody. */
	sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	if (!unix_vfs)
		return SQLITE_ERROR;
	flat = *unix_vfs;
	flat.pNext = NULL;
	flat.zName = "cordon";
	flat.xFullPathname = full_pathname;
	return sqlite3_vfs_register(&flat, 0);
}

static int fail(struct store *s, const char *what, struct err *e)
{
	s->is_failed = true;
	return audit_db_error(s->db, what, e);
}

static int exec(struct store *s, const char *text, struct err *e)
{
	return sqlite3_exec(s->db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(s, "database", e);
}

static int open_db(int flags, sqlite3 **ret, struct err *e)
{
	int on = 1;

	if (vfs_register() != SQLITE_OK)
		return err_set(e, EIO, "database: no file system layer");
	if (sqlite3_open_v2(store_db, ret, flags | SQLITE_OPEN_NOMUTEX, "cordon") != SQLITE_OK) {
		int rc = audit_db_error(*ret, "open the database", e);
		sqlite3_close(*ret);
		*ret = NULL;
		return rc;
	}
	audit_db_harden(*ret);
	sqlite3_busy_timeout(*ret, 2000);
	/* The files belong to root's doing: they are never removed or made again by us. */
	sqlite3_file_control(*ret, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
	return 0;
}

int store_open_reader(sqlite3 **ret, struct err *e)
{
	return open_db(SQLITE_OPEN_READWRITE, ret, e);
}

/* WAL is reached by way of memory: a rollback journal would be a fourth file. */
static int lay_out(struct store *s, struct err *e)
{
	char text[128];
	bool is_new;
	int rc = audit_db_check_version(s->db, &is_new, e);

	if (rc < 0)
		return rc;
	if (exec(s, "PRAGMA journal_mode=MEMORY; PRAGMA journal_mode=WAL; PRAGMA temp_store=MEMORY;"
		    "PRAGMA cache_size=-2048; PRAGMA journal_size_limit=16777216;"
		    /* Pages written often are copied once: with 1000 the copying is seen in bench. */
		    "PRAGMA wal_autocheckpoint=3000;"
		    "PRAGMA secure_delete=ON", e) < 0 ||
	    exec(s, "BEGIN IMMEDIATE", e) < 0)
		return -e->code;
	rc = exec(s, audit_schema_sql, e);
	if (rc == 0 && is_new) {
		snprintf(text, sizeof(text), "PRAGMA user_version=%d; PRAGMA application_id=%d",
			 AUDIT_SCHEMA, AUDIT_APPLICATION);
		rc = exec(s, text, e);
	}
	if (rc == 0)
		return exec(s, "COMMIT", e);
	sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

static int read_point(struct store *s, enum store_statement id, struct audit_point *ret,
		      struct err *e)
{
	int rc = store_select(s, id, NULL, 0, e);

	if (rc == 1) {
		sqlite3_stmt *row = store_row(s, id);
		if (sqlite3_column_bytes(row, 1) != DIGEST_LEN)
			rc = err_set(e, EUCLEAN, "the last row has no link");
		else
			memcpy(ret->link, sqlite3_column_blob(row, 1), DIGEST_LEN);
		ret->sequence = (uint64_t)sqlite3_column_int64(row, 0);
	}
	store_done(s, id);
	return rc;
}

/* After the last row, else after the cut, else at the beginning. */
static int read_head(struct store *s, struct err *e)
{
	struct audit_point p = { 0 };
	int rc = read_point(s, ST_ROW_LAST, &p, e);

	if (rc == 0)
		rc = read_point(s, ST_CUT_READ, &p, e);
	if (rc < 0)
		return rc;
	if (rc == 0)
		audit_genesis(p.link);
	s->head = s->committed = p;
	return 0;
}

int store_set_required(struct store *s, bool is_required, struct err *e)
{
	return exec(s, is_required ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", e);
}

int store_open(struct store *s, bool is_required, struct err *e)
{
	*s = (struct store){ 0 };
	int rc = open_db(SQLITE_OPEN_READWRITE, &s->db, e);

	if (rc == 0)
		rc = lay_out(s, e);
	if (rc == 0)
		rc = store_set_required(s, is_required, e);
	if (rc == 0)
		rc = read_head(s, e);
	if (rc < 0)
		store_close(s);
	return rc;
}

void store_close(struct store *s)
{
	for (size_t i = 0; i < ST_COUNT; i++)
		sqlite3_finalize(s->statements[i]);
	if (s->db) {
		/* A copy of the one file is then the whole ledger. */
		sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
		sqlite3_close(s->db);
	}
	*s = (struct store){ 0 };
}

int store_begin(struct store *s, struct err *e)
{
	if (s->is_in_tx)
		return 0;
	if (exec(s, "BEGIN IMMEDIATE", e) < 0)
		return -e->code;
	s->is_in_tx = true;
	s->committed = s->head;
	return 0;
}

int store_commit(struct store *s, struct err *e)
{
	if (!s->is_in_tx)
		return 0;
	if (fault_step("ledger.commit", e) < 0 || exec(s, "COMMIT", e) < 0)
		return -e->code;
	fault_hit("ledger.committed");
	s->is_in_tx = false;
	s->committed = s->head;
	return 0;
}

void store_rollback(struct store *s)
{
	if (!s->is_in_tx)
		return;
	for (size_t i = 0; i < ST_COUNT; i++)
		if (s->statements[i])
			sqlite3_reset(s->statements[i]);
	sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->is_in_tx = false;
	s->head = s->committed;
}

int store_sync(struct store *s, struct err *e)
{
	sqlite3_file *wal = NULL;

	sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
	if (!wal || !wal->pMethods)
		return 0; /* nothing was written since the database was opened */
	if (wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL) != SQLITE_OK) {
		s->is_failed = true;
		return err_set(e, EIO, "sync the database");
	}
	return 0;
}

static int bind_all(sqlite3_stmt *st, const struct value *values, int n)
{
	int rc = SQLITE_OK;

	for (int i = 0; i < n && rc == SQLITE_OK; i++) {
		const struct value *v = &values[i];
		if (v->kind == VALUE_INT)
			rc = sqlite3_bind_int64(st, i + 1, v->n);
		else if (v->kind == VALUE_TEXT)
			rc = sqlite3_bind_text(st, i + 1, v->p, (int)v->n, SQLITE_STATIC);
		else if (v->kind == VALUE_BLOB)
			rc = sqlite3_bind_blob(st, i + 1, v->p, (int)v->n, SQLITE_STATIC);
		else
			rc = sqlite3_bind_null(st, i + 1);
	}
	return rc;
}

static int start(struct store *s, enum store_statement id, const struct value *values, int n,
		 struct err *e)
{
	if (!s->statements[id] &&
	    sqlite3_prepare_v3(s->db, sql[id], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[id],
			       NULL) != SQLITE_OK)
		return fail(s, "prepare", e);
	sqlite3_reset(s->statements[id]);
	if (bind_all(s->statements[id], values, n) != SQLITE_OK)
		return fail(s, "bind", e);
	return 0;
}

int store_run(struct store *s, enum store_statement id, const struct value *values, int n,
	      struct err *e)
{
	if (start(s, id, values, n, e) < 0)
		return -e->code;
	if (fault_step("ledger.write", e) < 0) {
		s->is_failed = true;
		return -e->code;
	}
	int rc = sqlite3_step(s->statements[id]);
	if (rc != SQLITE_DONE)
		fail(s, "write", e);
	sqlite3_reset(s->statements[id]);
	sqlite3_clear_bindings(s->statements[id]);
	return rc == SQLITE_DONE ? sqlite3_changes(s->db) : -e->code;
}

int store_next(struct store *s, enum store_statement id, struct err *e)
{
	int rc = sqlite3_step(s->statements[id]);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		fail(s, "read", e);
	sqlite3_reset(s->statements[id]);
	return rc == SQLITE_DONE ? 0 : -e->code;
}

int store_select(struct store *s, enum store_statement id, const struct value *values, int n,
		 struct err *e)
{
	return start(s, id, values, n, e) < 0 ? -e->code : store_next(s, id, e);
}

sqlite3_stmt *store_row(struct store *s, enum store_statement id)
{
	return s->statements[id];
}

void store_done(struct store *s, enum store_statement id)
{
	if (s->statements[id])
		sqlite3_reset(s->statements[id]);
}

const char *store_text(sqlite3_stmt *row, int column)
{
	return (const char *)sqlite3_column_text(row, column);
}
