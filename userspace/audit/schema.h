/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_AUDIT_SCHEMA_H
#define CORDON_AUDIT_SCHEMA_H

/*
 * The ledger's database: its tables, its version and how it is opened. The
 * ledger writes it, the verifier reads it, also in a copy on another host.
 */
#include <stdbool.h>

#include "base/err.h"

struct sqlite3;

enum {
	AUDIT_SCHEMA = 1,		/* PRAGMA user_version */
	AUDIT_APPLICATION = 0x436f724c, /* PRAGMA application_id: "CorL" */
};

/* All tables and indexes, each "if not exists". */
extern const char audit_schema_sql[];

/* Columns of table `rows` as every reader selects them: see enum below. */
extern const char audit_row_columns[];

enum {
	FIELD_SEQUENCE = 0,
	FIELD_TIME,
	FIELD_COLUMNS, /* the first of AUDIT_COLUMNS */
	FIELD_KEY_VERSION = 12,
	FIELD_CHAIN,
};

/*
 * Makes @db safe to read although its content may be hostile: no triggers, no
 * views, no functions in the schema, no writing of the schema table.
 */
void audit_db_harden(struct sqlite3 *db);

/* Is this a ledger of a version we know? -ENOTSUP for a newer one, naming both. */
int audit_db_check_version(struct sqlite3 *db, bool *ret_is_new, struct err *e);

/*
 * Are the tables a verification reads the very ones of audit_schema_sql? A view,
 * a virtual table or computed columns of those names would let whoever wrote the
 * file choose what runs. -EUCLEAN: they are not, or are not there.
 */
int audit_db_check_tables(struct sqlite3 *db, struct err *e);

/* What SQLite says went wrong: an errno value for *e (ENOSPC, EIO, EUCLEAN, ...) and its text. */
int audit_db_error(struct sqlite3 *db, const char *what, struct err *e);

#endif
