/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of jobs and workspaces: jobs close with their last command, or
 * when they idled longer than a carrier lives (Q6); a job's own workspace goes
 * with it, a run's stays (W1). Open jobs are kept in the ledger across restarts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"
#include "broker/reply.h"
#include "json/json.h"

enum { TICK_MIN_MS = 200, TICK_MAX_MS = 15000, KEPT_PAGE = 100 };

static const char kept_kind[] = "job";

/* --- Workspaces that go */

struct removal {
	struct worker_call call;
	struct broker *broker;
	uint8_t key[DIGEST_LEN];
	struct removal *next;
};

static void removal_send(struct removal *r);

static void on_removed(struct worker_call *call, const struct w_reply *reply)
{
	struct removal *r = CONTAINER_OF(call, struct removal, call);

	if (reply->reason && reply->reason != REASON_WORKSPACE_LOST)
		log_error("workspace", "error=\"not removed\"");
	free(r);
}

/* The next worker is asked again. */
static void on_remover_lost(struct worker_call *call)
{
	struct removal *r = CONTAINER_OF(call, struct removal, call);

	r->next = r->broker->removals;
	r->broker->removals = r;
}

static const struct worker_events removal_events = {
	.reply = on_removed,
	.lost = on_remover_lost,
};

static void removal_send(struct removal *r)
{
	if (worker_workspace_remove(&r->broker->worker, &r->call, &removal_events, r->key) < 0)
		on_remover_lost(&r->call);
}

void reap_workspace(struct broker *b, const uint8_t key[DIGEST_LEN])
{
	struct removal *r = calloc(1, sizeof(*r));
	struct workspace *w = jobs_find_workspace(&b->jobs, key);

	if (!r) {
		log_error("workspace", "error=\"not removed: out of memory\"");
		return;
	}
	if (w && w->admission.is_busy) {
		w->is_doomed = true;
		free(r);
		return;
	}
	if (w)
		w->is_used = w->is_doomed = false;
	r->broker = b;
	memcpy(r->key, key, sizeof(r->key));
	removal_send(r);
}

void reap_on_worker(struct broker *b)
{
	struct removal *r = b->removals;

	b->removals = NULL;
	while (r) {
		struct removal *next = r->next;
		removal_send(r);
		r = next;
	}
}

/* --- Jobs in the ledger, which has been told before the caller is */

void job_keep(struct broker *b, struct job *j)
{
	json_t *value = json_pack("{s:I, s:s, s:s, s:s, s:s?, s:I, s:b, s:o*}", "uid",
				  (json_int_t)j->uid, "orgId", j->org_id, "userId", j->user_id,
				  "surface", surface_name(j->surface), "runId", j->run_id,
				  "openedMs", (json_int_t)j->opened_ms, "used",
				  j->workspace->is_used, "skills",
				  j->view ? view_to_json(j->view) : NULL);
	auto_json json_t *body = value ? json_pack("{s:s, s:s, s:o}", "kind", kept_kind, "key",
						   j->id, "value", value) :
					 NULL;

	j->is_kept = body && ledger_send(&b->ledger, L_KEEP, body, LETTER_KEPT, NULL, NULL) != 0;
	ledger_flush(&b->ledger);
}

static void job_forget(struct broker *b, struct job *j)
{
	auto_json json_t *body = j->is_kept ? json_pack("{s:s, s:s, s:n}", "kind", kept_kind, "key",
							j->id, "value") :
					      NULL;

	if (body)
		ledger_send(&b->ledger, L_KEEP, body, LETTER_KEPT, NULL, NULL);
	ledger_flush(&b->ledger);
	j->is_kept = false;
}

struct kept {
	const char *org_id, *user_id, *surface;
	const json_t *run_id, *skills;
	uint64_t opened_ms;
	uint32_t uid;
	bool is_used;
};

static const struct json_field kept_fields[] = {
	FIELD(struct kept, org_id, "orgId", FIELD_PTR, FIELD_REQUIRED, 0),
	FIELD(struct kept, user_id, "userId", FIELD_PTR, FIELD_REQUIRED, 0),
	FIELD(struct kept, surface, "surface", FIELD_PTR, FIELD_REQUIRED, 0),
	FIELD(struct kept, run_id, "runId", FIELD_ANY, 0, 0),
	FIELD(struct kept, opened_ms, "openedMs", FIELD_U64, FIELD_REQUIRED, 0),
	FIELD(struct kept, uid, "uid", FIELD_U32, FIELD_REQUIRED, 0),
	FIELD(struct kept, is_used, "used", FIELD_BOOL, FIELD_REQUIRED, 0),
	FIELD(struct kept, skills, "skills", FIELD_ARRAY, 0, 0),
};

static void restore_one(struct broker *b, const char *id, const json_t *value)
{
	struct kept k = { 0 };
	struct session s;
	struct job *j;
	struct err e;

	if (!id || json_fields_read(value, kept_fields, ARRAY_SIZE(kept_fields), &k, &e) < 0) {
		log_error("restore", "error=\"a kept job is malformed\"");
		return;
	}
	struct session_claim claim = { k.org_id, k.user_id, k.surface,
				       json_string_value(k.run_id) };
	if (jobs_find(&b->jobs, id, k.uid))
		return; /* asked for a second time */
	if (session_mint(&claim, 0, &s, NULL) != REASON_NONE ||
	    jobs_open(&b->jobs, &s, k.uid, id, &j) != REASON_NONE) {
		log_error("restore", "job=%s error=\"not restored\"", id);
		return;
	}
	j->opened_ms = k.opened_ms;
	j->is_kept = true;
	j->workspace->is_used |= k.is_used;
	if (k.skills) { /* opened again, the same versions, for its next command */
		j->view = view_from_json(&b->skills, k.skills);
		if (!j->view)
			job_close(b, j, REASON_WORKER_ERROR);
	}
}

static void ask_kept(struct broker *b, const char *after);

static void on_kept(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct broker *b = ctx;
	const char *next = json_string_value(json_object_get(result, "next"));
	size_t i;
	json_t *item;

	if (type != L_RESULT) {
		log_error("restore", "error=\"the ledger does not answer\"");
		if (!result)
			return; /* asked again when there is one that does */
	} else {
		json_array_foreach(json_object_get(result, "items"), i, item)
			restore_one(b, json_string_value(json_object_get(item, "key")),
				    json_object_get(item, "value"));
		if (next) {
			ask_kept(b, next);
			return;
		}
	}
	b->is_restored = true;
	reap_begin(b);
	life_check_ready(b);
}

static void ask_kept(struct broker *b, const char *after)
{
	auto_json json_t *body = json_pack("{s:s, s:s, s:i}", "kind", kept_kind, "after", after,
					   "limit", KEPT_PAGE);

	if (!body || !ledger_send(&b->ledger, L_KEPT, body, 0, on_kept, b))
		on_kept(b, L_ERROR, NULL);
}

void jobs_restore(struct broker *b)
{
	if (!b->is_restored)
		ask_kept(b, "");
}

/* --- Jobs that end */

/* Tells every command in flight now; one that comes meanwhile is not told. */
static unsigned stop_all(struct job *j, enum reason why)
{
	unsigned n = 0;

	for (struct command *c = j->commands; c; c = c->next)
		c->is_to_stop = true;
	/* Stopping one may end others of the list: begin again each time. */
	for (struct command *c = j->commands; c;) {
		if (!c->is_to_stop) {
			c = c->next;
			continue;
		}
		c->is_to_stop = false;
		n++;
		command_stop(c, why);
		c = j->commands;
	}
	return n;
}

unsigned job_stop_commands(struct broker *b, struct job *j, enum reason why)
{
	j->ncommands++; /* holds the job while its commands end */
	unsigned n = stop_all(j, why);
	j->ncommands--;
	if (n && j->ncommands == 0)
		job_after_command(b, j);
	return n;
}

void job_close(struct broker *b, struct job *j, enum reason why)
{
	if (j->is_closing)
		return;
	j->is_closing = true;
	job_forget(b, j);
	job_end(&b->jobs, j, REASON_JOB_CLOSED);
	if (job_stop_commands(b, j, why) == 0)
		job_after_command(b, j);
}

static void job_go(struct broker *b, struct job *j)
{
	bool is_last = j->workspace->refs == 1;

	view_free(j->view);
	j->view = NULL;

	if (!j->workspace->is_run && j->workspace->is_used && is_last)
		reap_workspace(b, j->workspace->key);
	if (j->is_oneshot)
		job_free(&b->jobs, j); /* nobody knows its name to ask again */
}

void job_after_command(struct broker *b, struct job *j)
{
	if (j->workspace->is_doomed && !j->workspace->admission.is_busy)
		reap_workspace(b, j->workspace->key);
	if (j->ncommands)
		return;
	struct exchange *x = j->waiter;
	if (x) {
		j->waiter = NULL;
		x->on_gone = NULL;
		reply_json(x, 200, json_pack("{s:s, s:b}", "jobId", j->id, "closed", j->is_closing));
	}
	if (j->is_oneshot && !j->is_closing) {
		j->is_closing = true;
		job_end(&b->jobs, j, REASON_JOB_CLOSED);
	}
	if (j->is_closing)
		job_go(b, j);
}

/* --- The reaper */

static void on_tick(struct timer *t)
{
	struct broker *b = CONTAINER_OF(t, struct broker, reaper);
	uint64_t now = clock_monotonic_ms(), ttl = b->config.carrier_ttl_ms;

	for (struct job *j = b->jobs.oldest, *newer; j; j = newer) {
		newer = j->newer;
		if (j->ncommands)
			continue;
		bool is_old = now - j->touched_ms > ttl;
		if (j->is_closing && (is_old || b->jobs.nended > JOB_ENDED_MAX))
			job_free(&b->jobs, j);
		else if (!j->is_closing && is_old)
			job_close(b, j, REASON_JOB_CLOSED);
	}
	reap_begin(b);
}

void reap_begin(struct broker *b)
{
	uint64_t tick = b->config.carrier_ttl_ms / 4;

	tick = tick < TICK_MIN_MS ? TICK_MIN_MS : tick > TICK_MAX_MS ? TICK_MAX_MS : tick;
	if (b->jobs.njobs)
		loop_timer_set(&b->loop, &b->reaper, tick, on_tick);
}
