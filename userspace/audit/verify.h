/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_AUDIT_VERIFY_H
#define CORDON_AUDIT_VERIFY_H

/*
 * Verification of a ledger (A5), in steps so that a ledger can go on serving
 * meanwhile, and from a copy of the database and the key alone. One read
 * transaction; the checkpoint is read before it, so a concurrent writer never
 * causes a false alarm.
 */
#include <jansson.h>
#include <stdbool.h>

#include "audit/checkpoint.h"
#include "base/err.h"

struct sqlite3;
struct sqlite3_stmt;
struct secret_set;

enum audit_verdict {
	VERDICT_UNREADABLE = 0, /* the database cannot be read: not proven */
	VERDICT_OK,
	VERDICT_ALTERED,     /* this row is not what was written: edited, swapped or put in */
	VERDICT_MISSING,     /* this row is gone, a later one is there */
	VERDICT_UNKNOWN_KEY, /* this row is under a key version that was not given */
	VERDICT_BAD_CUT,     /* retention's cut is not ours */
	VERDICT_TRUNCATED,   /* the chain ends before the checkpoint: this row is the first gone */
	VERDICT_ROLLED_BACK, /* valid, but another history than checkpoint or anchor saw at this row */
	VERDICT_BAD_CHECKPOINT,
};

struct audit_result {
	enum audit_verdict verdict;
	uint64_t row; /* the first bad one; 0: none */
	char text[200];
	uint64_t rows, first; /* checked good ones */
	struct audit_point last; /* the anchor to export */
	bool has_cut, has_checkpoint, has_anchor;
	bool is_anchor_cut; /* the anchor lies before the cut: nothing to compare with */
	struct audit_cut cut;
	struct audit_point checkpoint;
};

struct audit_verifier;

/*
 * Begins on @db (borrowed until free; a connection of its own, no transaction
 * open). @due: where the checkpoint says the chain must at least be, or NULL;
 * @bad_checkpoint: why there is a checkpoint that cannot be used, or NULL.
 * @anchor: an exported one, or NULL. Keeps a pointer to @keys.
 */
int audit_verifier_new(struct sqlite3 *db, const struct secret_set *keys,
		       const struct audit_point *due, const char *bad_checkpoint,
		       const struct audit_point *anchor, struct audit_verifier **ret,
		       struct err *e);

/* Checks up to @rows more. True: there is more to do. */
bool audit_verifier_step(struct audit_verifier *v, unsigned rows);

/* After the last step. */
const struct audit_result *audit_verifier_result(const struct audit_verifier *v);

void audit_verifier_free(struct audit_verifier *v);
DEFINE_CLEANUP(audit_verifier)

/*
 * The row under the cursor of a statement over audit_row_columns, its texts
 * borrowed from it, and its stored link. False: a column has not the type that
 * the ledger writes; sequence, time and key version are set all the same.
 */
bool audit_row_columns_read(struct sqlite3_stmt *s, struct audit_row *ret,
			    uint8_t ret_chain[DIGEST_LEN]);

/* The verdict on a database that could not even be opened. */
void audit_result_unreadable(struct audit_result *ret, const char *why);

/* The object of L_VERIFY's answer and of `audit verify --json`; NULL: out of memory. */
json_t *audit_result_json(const struct audit_result *r);

const char *audit_verdict_name(enum audit_verdict v);

/*
 * The whole of it by names, for a person with a copy: @key is a file (its version is
 * its name, else 1) or a directory of them, @checkpoint a file or NULL. In two
 * steps, so that nothing needs a name any more when the database is read.
 */
struct audit_files;
int audit_files_open(const char *db, const char *key, const char *checkpoint,
		     struct audit_files **ret, struct err *e);
/* A database that is none is a verdict too: unreadable. */
void audit_files_verify(struct audit_files *f, const struct audit_point *anchor,
			struct audit_result *ret);
void audit_files_free(struct audit_files *f);
DEFINE_CLEANUP(audit_files)

#endif
