/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_BATCH_H
#define CORDON_LEDGER_BATCH_H

/*
 * Group commit: what arrived together is carried out in one transaction. When
 * that fails, every request is tried again in one of its own, so that one
 * cannot harm another; rows that cannot be written then are spooled (A6).
 */
#include "ledger/ledger.h"
#include "wire/msg.h"

enum {
	BATCH_MAX = 256,
	BATCH_BYTES = 256 * 1024, /* of bodies, a read counting as READ_COST */
	READ_COST = 16 * 1024,
	DOWN_MS = 1000,
};

/* Memory of row messages, twice each: all that comes before it is full, and behind that. */
enum { BATCH_MEMORY = 2 * (BATCH_BYTES + MSG_MANY * MSG_BODY_MAX) };

struct batch {
	size_t n, cost, used;
	struct request r[BATCH_MAX];
	char memory[BATCH_MEMORY];
};

/* Takes one message's body: parses it, whatever it is, into a request. */
void batch_add(struct ledger *l, struct batch *b, uint16_t type, const uint8_t *body, size_t len);

bool batch_is_full(const struct batch *b);

/* How many messages it takes at a time, so long as it is not full. */
unsigned batch_room(const struct batch *b);

/* Carries all of it out; every request then has its outcome. */
void batch_run(struct ledger *l, struct batch *b);

/* Frees the requests. */
void batch_clear(struct batch *b);

/* Rows are committed: the checkpoint follows. */
void batch_advance(struct ledger *l);

/* The store failed: nothing is tried for DOWN_MS. */
void batch_go_down(struct ledger *l, const struct err *why);

/* due.c: work that is due at @now_ms. Gives when to come again, or 0. */
uint64_t due_run(struct ledger *l, uint64_t now_ms);

#endif
