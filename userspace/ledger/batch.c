/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of requests, and how a batch of them meets the database. Does not
 * read or write the socket.
 */
#include "ledger/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "json/json.h"

enum route_flag {
	WRITES = 1u << 0,
	READS = 1u << 1, /* may give a long answer */
	NO_STORE = 1u << 2, /* answers while the database is down */
	BEFORE_HELLO = 1u << 3,
	SPOOLED = 1u << 4,
};

static const struct route {
	request_fn *run;
	unsigned flags;
} routes[L_MSG_COUNT] = {
	[L_HELLO] = { request_hello, WRITES | BEFORE_HELLO },
	[L_ROW] = { request_row, WRITES | SPOOLED },
	[L_INTENT] = { request_intent, WRITES },
	[L_RECEIPT] = { request_receipt, READS },
	[L_COMMAND_ID] = { request_command_id, WRITES },
	[L_QUERY] = { request_query, READS },
	[L_EXPORT] = { request_export, WRITES | READS },
	[L_ACK] = { request_ack, WRITES },
	[L_EXPORT_DROP] = { request_export_drop, WRITES },
	[L_RETAIN] = { request_retain, WRITES },
	[L_VERIFY] = { request_verify, NO_STORE },
	[L_HEALTH] = { request_health, NO_STORE },
	[L_NONCE] = { request_nonce, WRITES },
	[L_RUN_SET] = { request_run_set, WRITES },
	[L_RUN_GET] = { request_run_get, READS },
	[L_RUN_LIST] = { request_run_list, READS },
	[L_RUN_DROP] = { request_run_drop, WRITES },
	[L_KEEP] = { request_keep, WRITES },
	[L_KEPT] = { request_kept, READS },
};

static bool is_row(const struct request *r)
{
	return r->type == L_ROW || r->type == L_INTENT;
}

static bool is_admitted(const struct request *r)
{
	return r->body || r->raw;
}

static int read_row(struct ledger *l, struct batch *b, struct request *r, const char *json,
		    size_t len, struct err *e)
{
	if (memchr(json, '\0', len))
		return err_set(e, EINVAL, "json: holds a NUL");
	if (2 * (len + 1) > sizeof(b->memory) - b->used)
		return err_set(e, E2BIG, "row: no room for it in its batch");
	r->raw = b->memory + b->used;
	b->used += 2 * (len + 1);
	r->text = r->raw + len + 1;
	memcpy(r->raw, json, len);
	memcpy(r->text, json, len);
	r->raw[len] = r->text[len] = '\0';
	if (admit_row_message(r->text, len, &r->row, e) < 0)
		return -e->code;
	r->is_suppressed = r->type == L_ROW && record_is_repetition(l, &r->row.row);
	return 0;
}

static int read_object(struct request *r, const char *json, size_t len, struct err *e)
{
	r->body = json_parse_strict(json, len, JSON_DEPTH, e);
	if (!r->body)
		return -e->code;
	return json_is_object(r->body) ? 0 : err_set(e, EINVAL, "json: not an object");
}

static void forget(struct request *r)
{
	json_decref(r->body);
	r->raw = r->text = NULL;
	r->body = NULL;
}

void batch_add(struct ledger *l, struct batch *b, uint16_t type, const uint8_t *body, size_t len)
{
	struct request *r = &b->r[b->n++];
	const char *json = (const char *)body + sizeof(struct ledger_head);
	size_t json_len = len - sizeof(struct ledger_head);
	struct ledger_head h;
	struct err e;

	memset(r, 0, sizeof(*r));
	memcpy(&h, body, sizeof(h));
	r->req = h.req;
	r->type = type;
	r->time_us = clock_realtime_us();
	int rc = is_row(r) ? read_row(l, b, r, json, json_len, &e) :
			     read_object(r, json, json_len, &e);
	if (rc < 0) {
		r->why = e;
		forget(r);
	}
	b->cost += routes[type].flags & READS ? READ_COST : len;
}

bool batch_is_full(const struct batch *b)
{
	return b->n == BATCH_MAX || b->cost >= BATCH_BYTES;
}

unsigned batch_room(const struct batch *b)
{
	return b->n < BATCH_MAX - MSG_MANY ? MSG_MANY : (unsigned)(BATCH_MAX - b->n);
}

static void set_outcome(struct request *r, int code, const struct err *why)
{
	if (code < 0) {
		json_decref(r->result);
		r->result = NULL;
		memset(&r->count, 0, sizeof(r->count));
	}
	r->code = code;
	if (code < 0)
		r->why = *why;
}

/*
 * One request within the open transaction. False: the transaction is no good
 * any more, because the store failed or the request left something half done.
 */
static bool run_one(struct ledger *l, struct request *r)
{
	const struct route *route = &routes[r->type];
	struct err e;
	int changes = l->store.db ? sqlite3_total_changes(l->store.db) : 0;

	json_decref(r->result);
	r->result = NULL;
	r->is_deferred = false;
	memset(&r->count, 0, sizeof(r->count));
	if (!is_admitted(r)) {
		r->code = -r->why.code;
		return true;
	}
	if (!l->is_hello_said && !(route->flags & BEFORE_HELLO)) {
		err_set(&e, EINVAL, "say hello first");
		set_outcome(r, -EINVAL, &e);
		return true;
	}
	int rc = route->run(l, r, &e);
	set_outcome(r, rc, &e);
	return !l->store.is_failed &&
	       (rc >= 0 || !l->store.db || sqlite3_total_changes(l->store.db) == changes);
}

void batch_advance(struct ledger *l)
{
	struct err e;

	if (l->keeper.c.live.sequence == l->store.committed.sequence)
		return;
	if (keeper_advance(&l->keeper, l->keys, &l->store.committed, l->is_required, &e) < 0) {
		l->count.failures++;
		log_error("checkpoint", "%s", e.msg);
	}
}

static bool finish(struct ledger *l, bool good)
{
	struct err e;

	if (good && store_commit(&l->store, &e) == 0) {
		batch_advance(l);
		return true;
	}
	if (good)
		log_error("commit", "%s", e.msg);
	store_rollback(&l->store);
	l->nonces = -1;
	return false;
}

static bool run_together(struct ledger *l, struct batch *b)
{
	bool good = true, writes = false;
	struct err e;

	for (size_t i = 0; i < b->n; i++)
		writes |= is_admitted(&b->r[i]) && (routes[b->r[i].type].flags & WRITES);
	l->store.is_failed = false;
	if (writes && store_begin(&l->store, &e) < 0)
		return false;
	for (size_t i = 0; i < b->n && good; i++)
		good = run_one(l, &b->r[i]);
	return finish(l, good);
}

void batch_go_down(struct ledger *l, const struct err *why)
{
	if (!l->down_until_ms)
		log_error("store_down", "%s", why->msg);
	l->count.failures++;
	l->down_until_ms = clock_monotonic_ms() + DOWN_MS;
}

static void refuse_down(struct ledger *l, struct request *r)
{
	struct err e;

	if (r->type == L_QUERY) { /* A8 */
		r->code = 0;
		r->result = json_pack("{s:[], s:n}", "rows", "next");
		return;
	}
	if (r->type == L_HELLO) { /* else its rows were refused when the store is back */
		set_outcome(r, record_hello(l, r, &e), &e);
		l->is_settle_due = true;
		return;
	}
	err_set(&e, EIO, "the ledger's database cannot be used now");
	set_outcome(r, -EIO, &e);
	if (!(routes[r->type].flags & SPOOLED))
		return;
	if (r->is_suppressed) {
		l->count.suppressed++;
	} else {
		spool_put(&l->spool, l->keys, r->time_us, r->raw, strlen(r->raw));
		l->count.spooled++;
	}
}

/* In a transaction of its own. */
static void run_alone(struct ledger *l, struct request *r)
{
	bool is_write = routes[r->type].flags & WRITES, good = true;
	struct err e = { .code = EIO, .msg = "the store failed" };

	if (!is_admitted(r) || (routes[r->type].flags & NO_STORE)) {
		run_one(l, r);
		return;
	}
	l->store.is_failed = false;
	if (!l->down_until_ms && l->store.db) {
		if (is_write)
			good = store_begin(&l->store, &e) == 0;
		if (good)
			good = run_one(l, r) && r->code >= 0;
		if (r->code < 0)
			e = r->why;
		bool is_refusal = r->code < 0 && !l->store.is_failed;
		if (finish(l, good) || is_refusal)
			return;
		batch_go_down(l, &e);
	}
	json_decref(r->result);
	r->result = NULL;
	refuse_down(l, r);
}

static void add_counts(struct counters *to, const struct counters *from)
{
	to->written += from->written;
	to->suppressed += from->suppressed;
	to->outcome_unknown += from->outcome_unknown;
}

void batch_run(struct ledger *l, struct batch *b)
{
	bool together = !l->down_until_ms && l->store.db && run_together(l, b);

	for (size_t i = 0; i < b->n; i++) {
		struct request *r = &b->r[i];
		if (!together)
			run_alone(l, r);
		if (r->code == -EINVAL)
			l->count.refused++;
		else if (r->code == 0)
			add_counts(&l->count, &r->count);
	}
}

void batch_clear(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		forget(&b->r[i]);
		json_decref(b->r[i].result);
	}
	b->n = b->cost = b->used = 0;
}
