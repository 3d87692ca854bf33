/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_STORE_H
#define CORDON_LEDGER_STORE_H

/*
 * The database: opening it, transactions, statements by name, and the chain's
 * head. Knows no message. Every failure of SQLite is noted in @is_failed, so
 * that whoever runs a batch can tell "the request is wrong" from "the store is
 * broken" and put the transaction back.
 */
#include <sqlite3.h>
#include <stdbool.h>

#include "audit/checkpoint.h"
#include "base/err.h"

enum store_statement {
	ST_ROW_ADD = 0,
	ST_ROW_LAST,
	ST_ROW_LINK,
	ST_ROWS_ORG,
	ST_ROWS_ALL,
	ST_ROWS_ORG_NEWEST,
	ST_ROWS_ALL_NEWEST,
	ST_ROWS_OLDEST,
	ST_ROWS_CUT,
	ST_CUT_READ,
	ST_CUT_WRITE,
	ST_RECEIPT_ADD,
	ST_RECEIPT_GET,
	ST_RECEIPTS_CUT,
	ST_INTENT_ADD,
	ST_INTENT_END,
	ST_INTENTS_OTHER,
	ST_INTENTS_COUNT,
	ST_COMMAND_CLAIM,
	ST_COMMAND_GET,
	ST_COMMAND_END,
	ST_CONSUMER_NEW,
	ST_CONSUMER_GET,
	ST_CONSUMER_SET,
	ST_CONSUMER_DROP,
	ST_CONSUMERS_LEAST,
	ST_NONCE_ADD,
	ST_NONCES_COUNT,
	ST_NONCES_PRUNE,
	ST_RUN_SET,
	ST_RUN_GET,
	ST_RUN_LIST,
	ST_RUN_DROP,
	ST_KEEP_SET,
	ST_KEEP_DROP,
	ST_KEPT_LIST,
	ST_STATE_SET,
	ST_STATE_GET,
	ST_COUNT
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *statements[ST_COUNT];
	bool is_in_tx, is_failed;
	struct audit_point head;      /* the last row, committed or not */
	struct audit_point committed; /* what a rollback goes back to */
};

/* A value to bind, or out of a column. */
struct value {
	enum { VALUE_NULL = 0, VALUE_INT, VALUE_TEXT, VALUE_BLOB } kind;
	int64_t n; /* the integer, or the length */
	const void *p; /* borrowed until the statement has run */
};

struct value value_int(int64_t n);
struct value value_text(const char *s); /* NULL: null */
struct value value_span(const char *s, size_t len); /* the same, its length known */
struct value value_blob(const void *p, size_t len);

/* Beside the working directory: the files SQLite uses; made by root, given to the ledger. */
extern const char store_db[], store_wal[], store_shm[];

/* As root: makes the three files for @uid, so that the ledger needs no right in their directory. */
int store_make_files(uid_t uid, gid_t gid, struct err *e);

/*
 * Opens and, where it is new, lays out the database; reads the chain's head.
 * @is_required: every commit reaches the disk (FULL). -ENOTSUP: a newer schema.
 * -EUCLEAN: not a ledger. A half-open store is closed again.
 */
int store_open(struct store *s, bool is_required, struct err *e);
void store_close(struct store *s);
int store_set_required(struct store *s, bool is_required, struct err *e);

/* A second connection for a reader that takes its time (verification). */
int store_open_reader(sqlite3 **ret, struct err *e);

/* Opens a transaction unless one is open. */
int store_begin(struct store *s, struct err *e);
int store_commit(struct store *s, struct err *e);
void store_rollback(struct store *s);

/* All commits so far are on the disk when this returns 0. */
int store_sync(struct store *s, struct err *e);

/* Binds and runs a statement that gives no rows. Gives the number of rows changed. */
int store_run(struct store *s, enum store_statement id, const struct value *values, int n,
	      struct err *e);

/*
 * Binds and runs a statement to its first row: 1, or 0 where there is none.
 * store_next() goes on; the columns are read from store_row() and are valid
 * until the next call with the same @id. store_done() ends early.
 */
int store_select(struct store *s, enum store_statement id, const struct value *values, int n,
		 struct err *e);
int store_next(struct store *s, enum store_statement id, struct err *e);
sqlite3_stmt *store_row(struct store *s, enum store_statement id);
void store_done(struct store *s, enum store_statement id);

/* A text column or NULL. */
const char *store_text(sqlite3_stmt *row, int column);

#endif
