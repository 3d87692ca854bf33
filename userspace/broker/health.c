/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readiness handshake and the health answer. The probe goes the way of
 * every command, the queue, the ledger and the receipt included; only its
 * identity is its own (S8).
 */
#include "broker/health.h"

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
#include "session/carrier.h"

struct health_waiter {
	struct broker *broker;
	struct exchange *exchange; /* NULL: it went away */
	struct health_waiter *next;
};

/* The uid of no peer: nobody finds the handshake's job. */
#define HANDSHAKE_UID ((uid_t)-1)

/* --- What is there (R3) */

static const char *what_is_missing(const struct broker *b)
{
	if (!b->keys.provenance)
		return "no provenance key";
	if (!b->keys.carrier)
		return "no carrier secret";
	if (!b->keys.attestation)
		return "no attestation secret";
	if (!worker_is_up(&b->worker))
		return "no worker";
	if (b->config.audit == AUDIT_REQUIRED && !ledger_is_up(&b->ledger))
		return b->ledger.is_silent ? "the ledger does not answer" : "no ledger";
	return NULL;
}

static bool is_fresh(const struct health *h)
{
	return h->is_over && clock_monotonic_ms() - h->at_ms < HEALTH_FRESH_MS;
}

/* --- The answer */

static const char *state_of(const struct broker *b)
{
	return !what_is_missing(b) && b->health.is_over && b->health.is_good ? "ready" :
									      "unavailable";
}

static json_t *missing_of(const struct broker *b)
{
	json_t *list = json_array();
	const char *what = what_is_missing(b);

	if (list && !what && !(b->health.is_over && b->health.is_good))
		what = b->health.missing ? b->health.missing : "no completed handshake";
	if (list && what)
		json_array_append_new(list, json_string(what));
	if (list && !ledger_is_up(&b->ledger) && b->config.audit != AUDIT_REQUIRED)
		json_array_append_new(list, json_string(b->ledger.is_silent ?
								"the ledger does not answer: rows wait" :
								"no ledger: rows are spooled"));
	if (b->config.gateway && !gateway_is_up(&b->gateway))
		json_array_append_new(list, json_string("no gateway: only tier none runs"));
	if (!skills_are_up(&b->skills) || b->skills.ping.req)
		json_array_append_new(
			list, json_string(b->skills.fd < 0 || !b->skills.is_ready ?
						  "no skills server: commands with skills are refused" :
						  "the skills server does not answer: commands with "
						  "skills are refused"));
	if (b->config.run_probe[0] && (b->health.question || b->health.run_probe))
		json_array_append_new(
			list, json_string("no liveness probe: commands of runs are refused"));
	return list;
}

static json_t *handshake_of(const struct health *h)
{
	if (!h->is_over)
		return json_null();
	return json_pack("{s:b, s:I, s:I, s:s?}", "ok", h->is_good, "atMs",
			 (json_int_t)h->at_realtime_ms, "wallMs", (json_int_t)h->wall_ms, "reason",
			 reason_code(h->reason));
}

static json_t *image_of(const struct broker *b)
{
	char text[7 + DIGEST_HEX_MAX] = "sha256:";

	if (!worker_is_up(&b->worker))
		return json_null();
	digest_hex(b->worker.ready.image_digest, DIGEST_LEN, text + 7);
	return json_string(text);
}

static json_t *ledger_of(const struct broker *b, const json_t *detail)
{
	return json_pack("{s:b, s:I, s:I, s:I, s:O?}", "up", ledger_is_up(&b->ledger), "waiting",
			 (json_int_t)b->ledger.nwaiting, "lost", (json_int_t)b->ledger.lost,
			 "failures", (json_int_t)b->ledger.failures, "store",
			 (json_t *)(uintptr_t)detail);
}

/* E9: exceptions are loud. */
static json_t *exceptions_of(const struct config *c)
{
	json_t *list = json_array();
	const char *at = c->gateway_exceptions;

	while (*(at += strspn(at, " \t,"))) {
		size_t n = strcspn(at, " \t,");
		json_array_append_new(list, json_stringn(at, n));
		at += n;
	}
	return list;
}

static json_t *egress_of(const struct broker *b)
{
	return json_pack("{s:b, s:b, s:s, s:o}", "configured", (int)b->config.gateway, "up",
			 gateway_is_up(&b->gateway), "maximum",
			 egress_tier_name(b->egress_maximum.tier), "exceptions",
			 exceptions_of(&b->config));
}

static json_t *health_of(const struct broker *b, const json_t *ledger)
{
	const struct admission *a = &b->admission;

	return json_pack(
		"{s:s, s:o, s:b, s:o, s:s, s:s, s:{s:b, s:o, s:i}, s:o, s:o, s:{s:i, s:i, s:i}, "
		"s:{s:I, s:I}, s:{s:I, s:I}, s:o, s:o}",
		"state", state_of(b), "missing", missing_of(b), "pending", b->health.is_flying,
		"handshake", handshake_of(&b->health), "placement", "local", "version", VERSION,
		"worker", "up", worker_is_up(&b->worker), "imageDigest", image_of(b), "pool",
		worker_is_up(&b->worker) ? (int)b->worker.ready.pool : 0, "ledger",
		ledger_of(b, ledger), "egress", egress_of(b), "admission", "running", (int)a->running, "queued",
		(int)a->waiting, "openJobs", (int)a->jobs, "commands", "asked",
		(json_int_t)b->ncommands, "refused", (json_int_t)b->nrefused, "connections",
		"open", (json_int_t)b->http.nclients, "refused", (json_int_t)b->http.refused, "retention",
		retain_health(b), "runProbe", probe_health(b));
}

/* The ledger's own numbers, where it answers. */
static void on_ledger_health(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct health_waiter *w = ctx;

	if (w->exchange) {
		w->exchange->on_gone = NULL;
		reply_json(w->exchange, 200,
			   health_of(w->broker, type == L_RESULT ? result : NULL));
	}
	free(w);
}

static void answer(struct health_waiter *w)
{
	struct ledger_link *l = &w->broker->ledger;
	auto_json json_t *body = json_object();

	if (!body || !ledger_send(l, L_HEALTH, body, 0, on_ledger_health, w))
		on_ledger_health(w, L_ERROR, NULL);
}

static void answer_all(struct broker *b)
{
	struct health_waiter *w = b->health.waiters;

	b->health.waiters = NULL;
	while (w) {
		struct health_waiter *next = w->next;
		answer(w);
		w = next;
	}
}

/* --- The handshake */

/* All of it is over: the command, skills' answer and, where there is one, the liveness probe's. */
static void landed(struct broker *b)
{
	if (b->health.is_flying || b->health.question || b->skills.ping.req)
		return;
	loop_timer_clear(&b->loop, &b->health.patience);
	answer_all(b);
}

static void end(struct broker *b, enum reason why, const char *missing)
{
	struct health *h = &b->health;
	bool was_good = h->is_over && h->is_good, is_first = !h->is_over;

	h->is_flying = false;
	/* A plane too busy to probe is not a plane that does not work. */
	if (why != REASON_QUEUE_SATURATED || !h->is_over) {
		h->is_over = true;
		h->is_good = why == REASON_NONE && !missing;
		h->reason = why;
		h->missing = missing;
	}
	h->at_ms = clock_monotonic_ms();
	h->at_realtime_ms = clock_realtime_ns() / 1000000;
	if (is_first || was_good != h->is_good)
		log_info("health", "state=%s reason=%s", state_of(b), reason_code(why) ?: "-");
	landed(b);
}

static void on_probe_end(struct command *c, void *ctx)
{
	struct broker *b = ctx;
	const struct output *o = &c->out[OUT_STDOUT];
	size_t len = strlen(b->health.expected);

	b->health.wall_ms = c->done.wall_ns / 1000000;
	if (c->is_denied || c->termination != TERMINATION_EXITED)
		end(b, c->reason != REASON_NONE ? c->reason : REASON_WORKER_ERROR,
		    "the handshake's command did not run to its end");
	else if (c->done.exit_code != 0 || o->len != len ||
		 memcmp(o->buf, b->health.expected, len) != 0)
		end(b, REASON_WORKER_ERROR, "the handshake's command gave something else");
	else
		end(b, REASON_NONE, NULL);
}

/* Sealed and opened again: both ways are tried. */
static enum reason probe_session(struct broker *b, struct session *ret)
{
	const struct session_claim claim = { SESSION_HANDSHAKE, SESSION_HANDSHAKE,
					     "deterministic_task", NULL };
	struct session s;
	autofree char *carrier = malloc(CARRIER_MAX);
	size_t len;
	uint64_t now = clock_realtime_ns() / 1000000;
	enum reason why = session_mint(&claim, MINT_HANDSHAKE, &s, NULL);

	if (!carrier)
		return REASON_CAPABILITY_UNAVAILABLE;
	if (why == REASON_NONE)
		why = carrier_seal(b->keys.carrier, &s, now, b->config.carrier_ttl_ms, carrier, &len);
	if (why == REASON_NONE)
		why = carrier_open(b->keys.carrier, carrier, len, now, ret, NULL);
	if (why == REASON_NONE && strcmp(ret->org_id, SESSION_HANDSHAKE) != 0)
		why = REASON_CARRIER_MALFORMED;
	return why;
}

static enum reason probe_request(struct health *h, struct exec_request *r)
{
	char body[256];
	uint8_t random[8];
	char hex[17];
	struct err e;

	if (digest_random(random, sizeof(random)) < 0)
		return REASON_WORKER_ERROR;
	digest_hex(random, sizeof(random), hex);
	snprintf(h->expected, sizeof(h->expected), "cordon %s\n", hex);
	int n = snprintf(body, sizeof(body),
			 "{\"argv\":[\"/bin/sh\",\"-c\",\"echo cordon %s\"],"
			 "\"egress\":{\"mode\":\"none\"}}",
			 hex);

	enum reason why = request_parse(body, (size_t)n, REQUEST_EXEC, r, &e);
	r->asked.timeout_ms = h->probe_ms;
	return why;
}

void health_skills_pinged(struct broker *b)
{
	landed(b);
}

static void on_run_probe(void *ctx, const struct liveness_record *r, const char *trouble)
{
	struct broker *b = ctx;

	(void)r; /* whatever it says of such a run: it answers */
	b->health.question = NULL;
	b->health.run_probe = trouble;
	landed(b);
}

static void ask_run_probe(struct broker *b)
{
	static const struct probe_subject who = { SESSION_HANDSHAKE, SESSION_HANDSHAKE,
						  SESSION_HANDSHAKE, "deterministic_task" };

	if (!b->config.run_probe[0] || b->health.question)
		return;
	b->health.question = probe_ask(b, &who, NULL, on_run_probe, b);
	if (!b->health.question)
		b->health.run_probe = "out of memory";
}

static void fly(struct broker *b)
{
	struct session s;
	struct exec_request r;
	struct job *j;
	enum reason why;

	b->health.is_flying = true;
	ask_run_probe(b);
	skills_ping(&b->skills);
	b->health.probe_ms = b->config.max.timeout_ms < HEALTH_PROBE_MS ? b->config.max.timeout_ms :
									  HEALTH_PROBE_MS;
	if ((why = probe_session(b, &s)) != REASON_NONE) {
		end(b, why, "the carrier of the handshake was not sealed");
		return;
	}
	if ((why = jobs_open(&b->jobs, &s, HANDSHAKE_UID, NULL, &j)) != REASON_NONE) {
		end(b, why, "the handshake's job was not opened");
		return;
	}
	j->is_oneshot = true;
	if ((why = probe_request(&b->health, &r)) != REASON_NONE) {
		request_done(&r);
		job_free(&b->jobs, j);
		end(b, why, "the handshake's command was not made");
		return;
	}
	if (!command_begin_own(b, j, &r, on_probe_end, b, NULL)) {
		job_free(&b->jobs, j);
		end(b, REASON_WORKER_ERROR, "the handshake's command was not made");
	}
}

/* The queue is long: who asked gets what is known so far. */
static void on_impatient(struct timer *t)
{
	answer_all(CONTAINER_OF(t, struct broker, health.patience));
}

static void on_waiter_gone(struct exchange *x)
{
	struct health_waiter *w = x->owner;

	w->exchange = NULL;
}

void health_answer(struct broker *b, struct exchange *x)
{
	struct health_waiter *w = calloc(1, sizeof(*w));

	if (!w) {
		exchange_answer(x, 500, "application/json", NULL, 0);
		return;
	}
	w->broker = b;
	w->exchange = x;
	x->owner = w;
	x->on_gone = on_waiter_gone;
	bool is_known = is_fresh(&b->health) && !b->health.is_flying;
	if (what_is_missing(b) || (is_known && !b->health.question && !b->skills.ping.req)) {
		answer(w);
		return;
	}
	w->next = b->health.waiters;
	b->health.waiters = w;
	if (!b->health.patience.is_set)
		loop_timer_set(&b->loop, &b->health.patience, HEALTH_PATIENCE_MS, on_impatient);
	if (!b->health.is_flying && !is_known)
		fly(b);
}

void health_changed(struct broker *b)
{
	b->health.at_ms = 0;
	if (what_is_missing(b)) {
		b->health.is_over = b->health.is_good = false;
		if (!b->health.is_flying)
			answer_all(b);
		return;
	}
	if (!b->health.is_flying && !b->is_stopping)
		fly(b);
}
