/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_KEEPER_H
#define CORDON_LEDGER_KEEPER_H

/*
 * Keeps the checkpoint file (A5). Where the database does not continue what the
 * checkpoint saw, the file is never written again: it is the evidence, and rows
 * go on being recorded.
 */
#include <stdbool.h>

#include "audit/checkpoint.h"
#include "base/err.h"

struct secret_set;
struct store;

struct keeper {
	int fd;
	bool is_frozen;
	char why[128]; /* it is frozen */
	char boot[AUDIT_BOOT_LEN + 1];
	struct audit_checkpoint c;
};

/*
 * Opens or makes @dirfd's `checkpoint` and holds it against @s. A file that is
 * missing although there are rows, is not ours or disagrees freezes the keeper;
 * only errors of I/O are errors.
 */
int keeper_open(struct keeper *k, int dirfd, const struct secret_set *keys, struct store *s,
		struct err *e);

/* The chain has come to @p; @is_durable: and that is on the disk already. */
int keeper_advance(struct keeper *k, const struct secret_set *keys, const struct audit_point *p,
		   bool is_durable, struct err *e);

/* Everything up to the last advance is on the disk: so is the checkpoint afterwards. */
int keeper_sync(struct keeper *k, const struct secret_set *keys, struct err *e);

bool keeper_is_synced(const struct keeper *k);

/* What must hold now, for a verifier; NULL with *ret_bad set where the file is no use. */
const struct audit_point *keeper_due(const struct keeper *k, const char **ret_bad);

void keeper_close(struct keeper *k);

#endif
