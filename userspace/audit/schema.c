/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema as text, what every connection to it is set to, and whether a file
 * has it. No query of rows lives here.
 */
#include "audit/schema.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdint.h>
#include <string.h>

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

static const char tables_sql[] = "SELECT type, sql FROM sqlite_schema WHERE name IN ('rows','cut')"
				 " ORDER BY name, type";

static int next_table(sqlite3_stmt *s, const char **ret_type, const char **ret_sql)
{
	int rc = sqlite3_step(s);

	*ret_type = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
	*ret_sql = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 1) : NULL;
	return rc;
}

/* Both statements walk the same names in the same order. */
static int compare_tables(sqlite3 *db, sqlite3_stmt *ours, sqlite3_stmt *theirs, struct err *e)
{
	const char *type, *text, *their_type, *their_text;

	for (;;) {
		int want = next_table(ours, &type, &text);
		int have = next_table(theirs, &their_type, &their_text);
		if (have != SQLITE_ROW && have != SQLITE_DONE)
			return audit_db_error(db, "tables", e);
		if (want == SQLITE_DONE && have == SQLITE_DONE)
			return 0;
		if (want != SQLITE_ROW || have != SQLITE_ROW || !type || !text || !their_type ||
		    !their_text || strcmp(type, their_type) != 0 || strcmp(text, their_text) != 0)
			return err_set(e, EUCLEAN, "its tables are not those of a ledger");
	}
}

int audit_db_check_tables(sqlite3 *db, struct err *e)
{
	sqlite3_stmt *ours = NULL, *theirs = NULL;
	sqlite3 *model = NULL;
	int rc;

	if (sqlite3_open_v2(":memory:", &model, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
		    SQLITE_OK ||
	    sqlite3_exec(model, audit_schema_sql, NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(model, tables_sql, -1, &ours, NULL) != SQLITE_OK)
		rc = audit_db_error(model, "schema", e);
	else if (sqlite3_prepare_v2(db, tables_sql, -1, &theirs, NULL) != SQLITE_OK)
		rc = audit_db_error(db, "tables", e);
	else
		rc = compare_tables(db, ours, theirs, e);
	sqlite3_finalize(ours);
	sqlite3_finalize(theirs);
	sqlite3_close(model);
	return rc;
}
