/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_LEDGER_H
#define CORDON_LEDGER_LEDGER_H

/*
 * The ledger's context and its requests. A request is parsed once, carried out
 * within the transaction of its batch, perhaps again in one of its own when the
 * batch failed, and answered after the commit.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "audit/verify.h"
#include "ledger/admit.h"
#include "ledger/keeper.h"
#include "ledger/spool.h"
#include "ledger/store.h"
#include "ledger/suppress.h"
#include "proto/ledger.h"

enum {
	VERIFY_WAITING_MAX = 16,
	NONCES_MAX = 65536,
	BROKER_ID_LEN = 32,
	RETAIN_CHUNK = 2000,
};

struct counters {
	uint64_t written, suppressed, spooled, failures, refused, outcome_unknown;
};

struct verify_wait {
	uint64_t req;
	struct audit_point anchor;
	bool has_anchor;
};

struct ledger {
	bool is_required;
	bool is_hello_said; /* the broker at hand has introduced itself */
	bool is_settle_due; /* while the store was down: intents of others wait for it */
	char broker[BROKER_ID_LEN + 1];
	uid_t uid;
	int dir_fd;  /* ROOT/var/lib/cordon/ledger */
	int keys_fd; /* ROOT/etc/cordon/secrets/chain */
	uint32_t guards_missing;
	struct secret_set *keys;
	struct store store;	/* .db NULL: not open now */
	uint64_t down_until_ms; /* monotonic; not 0: the store failed and is tried again then */
	uint64_t sync_at_ms;	/* not 0: commits wait to be synced then */
	uint64_t retention_ms;	/* 0: rows are kept for ever */
	uint64_t retain_at_ms;	/* when to look for rows that are too old */
	struct keeper keeper;
	struct spool spool;
	struct suppress suppress;
	struct counters count;
	int64_t nonces; /* -1: count them */
	/* verification: one at a time, on a connection of its own */
	sqlite3 *reader;
	struct audit_verifier *verifier;
	struct verify_wait verify[VERIFY_WAITING_MAX];
	size_t verify_waiting;
};

/* One request of a batch. */
struct request {
	uint64_t req;
	uint16_t type;
	int64_t time_us;
	/* what it asks: a row message or a JSON object; neither: not admitted, see @why */
	char *raw;		/* row message: as it came, in its batch's memory */
	char *text;		/* row message: what @row borrows from, behind @raw */
	struct row_message row; /* row message */
	json_t *body;
	bool is_suppressed; /* decided once, before any attempt */
	bool is_deferred; /* answered later, by itself */
	/* the outcome, anew with every attempt */
	int code; /* 0 or -errno */
	struct err why;
	json_t *result; /* L_RESULT with it; else L_OK */
	struct counters count; /* what it adds when committed */
};

/* serve.c: requests in, batches, answers out, until cordond says stop. 0, or -errno. */
int serve(struct ledger *l, int broker_fd, struct err *e);

/* open.c: the database and its checkpoint; again when it was not there before. */
int ledger_open_store(struct ledger *l, struct err *e);
int ledger_load_keys(struct ledger *l, struct err *e);
void ledger_close(struct ledger *l);

typedef int request_fn(struct ledger *l, struct request *r, struct err *e);

/* record.c: what is chained */
request_fn request_hello, request_row, request_intent, request_receipt, request_command_id;
/* Who the broker is, without the store. */
int record_hello(struct ledger *l, struct request *r, struct err *e);
/* Makes rows of the intents of every other broker; within a transaction. */
int record_settle(struct ledger *l, int64_t time_us, struct counters *count, struct err *e);
/* Writes a spooled row (spool_write); @ctx is the struct ledger. */
int record_spooled(void *ctx, int64_t time_us, const char *body, size_t len, struct err *e);
/* Is it a denial just written (A7)? Asked once per row: it remembers. */
bool record_is_repetition(struct ledger *l, const struct admitted *row);

/* read.c: what is looked at */
request_fn request_query, request_export, request_ack, request_export_drop, request_verify,
	request_health, request_retain;
/* Goes on with a verification: true while there is more to do. */
bool verify_turn(struct ledger *l, uint64_t *ret_req, json_t **ret_result);
void verify_abandon(struct ledger *l);

/* small.c: nonces, runs, the broker's own things */
request_fn request_nonce, request_run_set, request_run_get, request_run_list, request_run_drop,
	request_keep, request_kept;

#endif
