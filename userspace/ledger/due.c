/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger does by the clock: tries a failed store again and drains the
 * spool into it, brings commits and the checkpoint to the disk, removes rows
 * that are too old. Each in transactions of its own, never within a batch.
 */
#include <stddef.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "ledger/batch.h"
#include "ledger/rows.h"

enum {
	SYNC_MS = 1000,
	RETAIN_EVERY_MS = 60 * 1000,
};

/* What a broker's hello would have done, had there been a store. */
static int settle(struct ledger *l, struct err *e)
{
	struct counters count = { 0 };

	if (store_begin(&l->store, e) < 0)
		return -e->code;
	if (record_settle(l, clock_realtime_us(), &count, e) < 0 || store_commit(&l->store, e) < 0) {
		store_rollback(&l->store);
		return -e->code;
	}
	l->is_settle_due = false;
	l->count.written += count.written;
	l->count.outcome_unknown += count.outcome_unknown;
	batch_advance(l);
	return 0;
}

/* The store once more, and what waits for it: first the rows, so that no intent of theirs is left. */
static int try_again(struct ledger *l, struct err *e)
{
	if (!l->store.db && ledger_open_store(l, e) < 0)
		return -e->code;
	l->store.is_failed = false;
	while (spool_pending(&l->spool) > 0) {
		uint64_t before = spool_pending(&l->spool), rows = l->store.head.sequence;
		int rc = spool_drain(&l->spool, l->keys, &l->store, record_spooled, l, e);
		if (rc < 0)
			return rc;
		l->count.written += l->store.head.sequence - rows;
		batch_advance(l);
		log_info("spool_drained", "%llu of %llu", (unsigned long long)
			 (before - spool_pending(&l->spool)), (unsigned long long)before);
	}
	return l->is_settle_due ? settle(l, e) : 0;
}

static void sync_now(struct ledger *l)
{
	struct err e;

	if (store_sync(&l->store, &e) < 0 || keeper_sync(&l->keeper, l->keys, &e) < 0) {
		l->count.failures++;
		log_error("sync", "%s", e.msg);
	}
}

/* A chunk of rows that are too old, in a transaction of its own. */
static int retain(struct ledger *l, struct err *e)
{
	int64_t now = clock_realtime_us();
	uint64_t upto;

	l->store.is_failed = false;
	if (store_begin(&l->store, e) < 0)
		return -e->code;
	int n = rows_cut(&l->store, l->keys, now - (int64_t)l->retention_ms * 1000, now,
			 RETAIN_CHUNK, &upto, e);
	if (n >= 0 && store_commit(&l->store, e) == 0) {
		if (n > 0)
			log_info("retention", "%d rows removed, up to %llu", n,
				 (unsigned long long)upto);
		return n;
	}
	store_rollback(&l->store);
	return -e->code;
}

static void tick_retention(struct ledger *l, uint64_t now_ms)
{
	struct err e;

	if (!l->retention_ms || !l->store.db || l->down_until_ms || now_ms < l->retain_at_ms)
		return;
	int n = retain(l, &e);
	if (n < 0)
		log_error("retention", "%s", e.msg);
	l->retain_at_ms = now_ms + (n == RETAIN_CHUNK ? 1 : RETAIN_EVERY_MS);
}

static void tick_store(struct ledger *l, uint64_t now_ms)
{
	bool waiting = spool_pending(&l->spool) > 0 || !l->store.db;
	bool was_down = l->down_until_ms;
	struct err e;

	if (!(was_down || waiting) || now_ms < l->down_until_ms)
		return;
	if (try_again(l, &e) < 0) {
		batch_go_down(l, &e);
		return;
	}
	l->down_until_ms = 0;
	if (was_down)
		log_info("store_up", "the database works again");
}

static void tick_sync(struct ledger *l, uint64_t now_ms)
{
	if (!l->store.db || keeper_is_synced(&l->keeper))
		return;
	if (!l->sync_at_ms) {
		l->sync_at_ms = now_ms + SYNC_MS;
	} else if (now_ms >= l->sync_at_ms) {
		sync_now(l);
		l->sync_at_ms = 0;
	}
}

uint64_t due_run(struct ledger *l, uint64_t now_ms)
{
	tick_store(l, now_ms);
	tick_sync(l, now_ms);
	tick_retention(l, now_ms);
	const uint64_t due[] = { l->down_until_ms, l->sync_at_ms,
				 l->retention_ms ? l->retain_at_ms : 0 };
	uint64_t next = 0;
	for (size_t i = 0; i < ARRAY_SIZE(due); i++)
		if (due[i] && (!next || due[i] < next))
			next = due[i];
	return next;
}
