/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plane says about itself: health, reasons, its description, metrics;
 * and the workspaces the worker keeps.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/scope.h"
#include "broker/api.h"
#include "broker/reply.h"

/* The document itself, as it stands beside this file. */
__asm__(".section .rodata\n"
	".global openapi_begin\n"
	".global openapi_end\n"
	"openapi_begin:\n"
	".incbin \"userspace/broker/openapi.json\"\n"
	"openapi_end:\n"
	".byte 0\n"
	".previous\n");
extern const char openapi_begin[], openapi_end[];

void api_openapi(struct broker *b, struct exchange *x)
{
	(void)b;
	exchange_answer_static(x, 200, "application/json", openapi_begin,
			       (size_t)(openapi_end - openapi_begin));
}

void api_health(struct broker *b, struct exchange *x)
{
	health_answer(b, x);
}

void api_reasons(struct broker *b, struct exchange *x)
{
	json_t *list = json_array();

	(void)b;
	for (int r = REASON_NONE + 1; list && r < REASON_COUNT; r++) {
		const struct reason_row *row = reason_row((enum reason)r);
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:i, s:i}", "code", row->code, "meaning",
					row->meaning, "decision",
					row->decision == DECIDES_ALLOWED ? "allowed" : "denied",
					"exitStatus", row->exit_status, "httpStatus",
					row->http_status));
	}
	reply_json(x, 200, json_pack("{s:o}", "reasons", list));
}

/* --- Metrics (F5): Prometheus text */

static void write_metrics(struct broker *b, struct exchange *x, const json_t *store)
{
	const json_t *suppressed = json_object_get(store, "suppressed");
	const struct {
		const char *name, *kind;
		uint64_t value;
	} rows[] = {
		{ "cordon_commands_total", "counter", b->ncommands },
		{ "cordon_commands_refused_total", "counter", b->nrefused },
		{ "cordon_commands_running", "gauge", b->admission.running },
		{ "cordon_commands_queued", "gauge", b->admission.waiting },
		{ "cordon_jobs_open", "gauge", b->admission.jobs },
		{ "cordon_connections_open", "gauge", b->http.nclients },
		{ "cordon_connections_refused_total", "counter", b->http.refused },
		{ "cordon_worker_up", "gauge", worker_is_up(&b->worker) },
		{ "cordon_ledger_up", "gauge", ledger_is_up(&b->ledger) },
		{ "cordon_ledger_waiting", "gauge", b->ledger.nwaiting },
		{ "cordon_ledger_lost_total", "counter", b->ledger.lost },
		{ "cordon_ledger_failures_total", "counter", b->ledger.failures },
	};
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 0; f && i < ARRAY_SIZE(rows); i++)
		fprintf(f, "# TYPE %s %s\n%s %llu\n", rows[i].name, rows[i].kind, rows[i].name,
			(unsigned long long)rows[i].value);
	/* The ledger's own number (A7); absent while it does not answer. */
	if (f && json_is_integer(suppressed))
		fprintf(f, "# TYPE cordon_ledger_suppressed_total counter\n"
			   "cordon_ledger_suppressed_total %llu\n",
			(unsigned long long)json_integer_value(suppressed));
	if (f)
		fclose(f);
	exchange_answer(x, 200, "text/plain; version=0.0.4", text, len);
}

static void on_metrics(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct exchange *x = ctx;

	x->on_gone = NULL;
	write_metrics(x->http->broker, x, type == L_RESULT ? result : NULL);
}

static void on_scraper_gone(struct exchange *x)
{
	ledger_forget(&x->http->broker->ledger, (uint64_t)(uintptr_t)x->owner);
}

void api_metrics(struct broker *b, struct exchange *x)
{
	auto_json json_t *body = json_object();
	uint64_t letter = body ? ledger_send(&b->ledger, L_HEALTH, body, 0, on_metrics, x) : 0;

	if (!letter) {
		write_metrics(b, x, NULL);
		return;
	}
	x->owner = (void *)(uintptr_t)letter;
	x->on_gone = on_scraper_gone;
}

/* --- Workspaces */

struct lister {
	struct worker_call call;
	struct broker *broker;
	struct exchange *exchange; /* NULL: it went away */
	json_t *list;
	bool is_removal;
};

static void lister_end(struct lister *l, enum reason why)
{
	struct exchange *x = l->exchange;

	if (x) {
		x->on_gone = NULL;
		if (why != REASON_NONE)
			reply_reason(x, why, NULL);
		else if (l->is_removal)
			reply_json(x, 200, json_pack("{s:s, s:b}", "key", x->param[0], "removed", 1));
		else
			reply_json(x, 200, json_pack("{s:O}", "workspaces", l->list));
	}
	json_decref(l->list);
	free(l);
}

static void on_entry(struct worker_call *call, const struct w_workspace_entry *w)
{
	struct lister *l = CONTAINER_OF(call, struct lister, call);
	char key[DIGEST_HEX_MAX];

	digest_hex(w->key, sizeof(w->key), key);
	json_t *label = json_string(w->label); /* a cut one may end in half a character */
	json_array_append_new(l->list,
			      json_pack("{s:s, s:o, s:I, s:I, s:I, s:b, s:b}", "key", key, "label",
					label ? label : json_null(), "usedBytes",
					(json_int_t)w->used_bytes, "quotaBytes",
					(json_int_t)w->quota_bytes, "modifiedMs",
					(json_int_t)w->mtime_s * 1000, "inUse", w->in_use, "lost",
					w->lost));
}

static void on_reply(struct worker_call *call, const struct w_reply *r)
{
	struct lister *l = CONTAINER_OF(call, struct lister, call);

	lister_end(l, r->reason < REASON_COUNT ? (enum reason)r->reason : REASON_WORKER_ERROR);
}

static void on_lost(struct worker_call *call)
{
	lister_end(CONTAINER_OF(call, struct lister, call), REASON_WORKER_UNAVAILABLE);
}

static const struct worker_events lister_events = {
	.entry = on_entry,
	.reply = on_reply,
	.lost = on_lost,
};

static void on_gone(struct exchange *x)
{
	struct lister *l = x->owner;

	l->exchange = NULL;
}

static struct lister *lister_new(struct broker *b, struct exchange *x)
{
	struct lister *l = calloc(1, sizeof(*l));

	if (!l || !(l->list = json_array())) {
		free(l);
		exchange_answer(x, 500, "application/json", NULL, 0);
		return NULL;
	}
	l->broker = b;
	l->exchange = x;
	x->owner = l;
	x->on_gone = on_gone;
	return l;
}

void api_workspaces(struct broker *b, struct exchange *x)
{
	struct lister *l = lister_new(b, x);

	if (l && worker_workspace_list(&b->worker, &l->call, &lister_events) < 0)
		lister_end(l, REASON_WORKER_UNAVAILABLE);
}

void api_workspace_remove(struct broker *b, struct exchange *x)
{
	uint8_t key[DIGEST_LEN];

	if (strlen(x->param[0]) != 2 * DIGEST_LEN || digest_unhex(x->param[0], key, sizeof(key))) {
		reply_reason(x, REASON_INVALID_REQUEST, "a key is 64 lower-case hexadecimal digits");
		return;
	}
	struct workspace *w = jobs_find_workspace(&b->jobs, key);
	if (w && w->admission.is_busy) {
		reply_reason(x, REASON_INVALID_REQUEST, "a command runs on this workspace");
		return;
	}
	struct lister *l = lister_new(b, x);
	if (!l)
		return;
	l->is_removal = true;
	if (w)
		w->is_used = false;
	if (worker_workspace_remove(&b->worker, &l->call, &lister_events, key) < 0)
		lister_end(l, REASON_WORKER_UNAVAILABLE);
}
