/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_ROWS_H
#define CORDON_LEDGER_ROWS_H

/*
 * Rows in and out of the database: appending to the chain, reading by the
 * second allowlist (A8), retention's cut. All within the caller's transaction.
 */
#include <jansson.h>

#include "base/err.h"
#include "ledger/admit.h"
#include "ledger/store.h"

struct secret;
struct secret_set;

/* Appends behind the head and moves it. */
int rows_append(struct store *s, const struct secret *key, const struct admitted *row,
		int64_t time_us, struct err *e);

/* The row under the statement's cursor as an answer's OUT object; @with_chain for exports. */
json_t *rows_read(sqlite3_stmt *row, bool with_chain);

/*
 * Removes up to @max rows from the beginning that are older than @before_us
 * and, where there are consumers, acknowledged by all of them; their receipts
 * too. Gives the number removed; *ret_upto is the cut afterwards (0: none).
 * -EBADMSG: a row that would go is not intact; nothing was removed.
 */
int rows_cut(struct store *s, const struct secret_set *keys, int64_t before_us, int64_t now_us,
	     unsigned max, uint64_t *ret_upto, struct err *e);

#endif
