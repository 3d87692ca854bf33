/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema as text, and what every connection to it is set to. No query but
 * for the version lives here.
 */
#include "audit/schema.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdint.h>

#include "base/scope.h"

const char audit_schema_sql[] =
	"CREATE TABLE IF NOT EXISTS rows("
	" sequence INTEGER PRIMARY KEY, timeUs INTEGER NOT NULL, organizationId TEXT NOT NULL,"
	" actorPrincipalId TEXT NOT NULL, actorPrincipalType TEXT NOT NULL,"
	" authSource TEXT NOT NULL, resourceType TEXT NOT NULL, resourceId TEXT NOT NULL,"
	" operation TEXT NOT NULL, decision TEXT NOT NULL, runId TEXT, metadata TEXT NOT NULL,"
	" keyVersion INTEGER NOT NULL, chain BLOB NOT NULL) STRICT;"
	"CREATE INDEX IF NOT EXISTS rows_organization ON rows(organizationId);"
	/* retention's signed cut: one at most */
	"CREATE TABLE IF NOT EXISTS cut("
	" id INTEGER PRIMARY KEY CHECK(id = 1), upto INTEGER NOT NULL, chain BLOB NOT NULL,"
	" timeUs INTEGER NOT NULL, keyVersion INTEGER NOT NULL, mac BLOB NOT NULL) STRICT;"
	/* `required` mode: what was let run and has no row yet */
	"CREATE TABLE IF NOT EXISTS intents("
	" id INTEGER PRIMARY KEY, timeUs INTEGER NOT NULL, broker TEXT NOT NULL,"
	" body TEXT NOT NULL, keyVersion INTEGER NOT NULL, mac BLOB NOT NULL) STRICT;"
	"CREATE TABLE IF NOT EXISTS receipts("
	" jobId TEXT NOT NULL, commandId TEXT NOT NULL, sequence INTEGER NOT NULL,"
	" organizationId TEXT NOT NULL, userId TEXT NOT NULL, receipt TEXT NOT NULL,"
	" envelope TEXT) STRICT;"
	"CREATE UNIQUE INDEX IF NOT EXISTS receipts_name ON receipts(jobId, commandId);"
	"CREATE INDEX IF NOT EXISTS receipts_sequence ON receipts(sequence);"
	/* Q7: names given by callers */
	"CREATE TABLE IF NOT EXISTS commands("
	" jobId TEXT NOT NULL, commandId TEXT NOT NULL, decision TEXT, termination TEXT,"
	" exitCode INTEGER, PRIMARY KEY(jobId, commandId)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS consumers("
	" name TEXT PRIMARY KEY, sequence INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS nonces("
	" digest BLOB PRIMARY KEY, untilMs INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE INDEX IF NOT EXISTS nonces_until ON nonces(untilMs);"
	"CREATE TABLE IF NOT EXISTS runs("
	" runId TEXT PRIMARY KEY, orgId TEXT NOT NULL, userId TEXT NOT NULL,"
	" state TEXT NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS kept("
	" kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
	" PRIMARY KEY(kind, key)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS state("
	" key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;";

const char audit_row_columns[] =
	"sequence, timeUs, organizationId, actorPrincipalId, actorPrincipalType, authSource,"
	" resourceType, resourceId, operation, decision, runId, metadata, keyVersion, chain";

void audit_db_harden(sqlite3 *db)
{
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 16 * 1024 * 1024);
}

int audit_db_error(sqlite3 *db, const char *what, struct err *e)
{
	static const struct {
		int rc, code;
	} codes[] = {
		{ SQLITE_FULL, ENOSPC },   { SQLITE_NOMEM, ENOMEM },  { SQLITE_BUSY, EBUSY },
		{ SQLITE_LOCKED, EBUSY },  { SQLITE_PERM, EACCES },   { SQLITE_READONLY, EROFS },
		{ SQLITE_CANTOPEN, EACCES }, { SQLITE_CORRUPT, EUCLEAN }, { SQLITE_NOTADB, EUCLEAN },
		{ SQLITE_CONSTRAINT, EEXIST },
	};
	int rc = sqlite3_errcode(db), code = EIO;

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].rc == (rc & 0xff))
			code = codes[i].code;
	return err_set(e, code, "%s: %s", what, sqlite3_errmsg(db));
}

static int read_pragma(sqlite3 *db, const char *sql, int64_t *ret, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

	if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
		*ret = sqlite3_column_int64(s, 0);
	else
		rc = audit_db_error(db, "database", e);
	sqlite3_finalize(s);
	return rc;
}

int audit_db_check_version(sqlite3 *db, bool *ret_is_new, struct err *e)
{
	int64_t version = 0, application = 0;
	int rc = read_pragma(db, "PRAGMA user_version", &version, e);

	if (rc == 0)
		rc = read_pragma(db, "PRAGMA application_id", &application, e);
	if (rc < 0)
		return rc;
	*ret_is_new = version == 0 && application == 0;
	if (!*ret_is_new && application != AUDIT_APPLICATION)
		return err_set(e, EUCLEAN, "database is not a ledger");
	if (version > AUDIT_SCHEMA || version < 0)
		return err_set(e, ENOTSUP, "ledger has schema version %lld, this program knows %d",
			       (long long)version, AUDIT_SCHEMA);
	return 0;
}
