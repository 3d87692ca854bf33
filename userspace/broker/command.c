/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a command before it runs. They stand in one table; a step that
 * has to wait is continued by command_go_on(). Whoever refuses a command ends
 * it: after command_refuse() it must not be touched.
 */
#include "broker/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "json/json.h"
#include "policy/command.h"
#include "receipt/receipt.h"

enum step_result { STEP_OVER = 0 /* waiting, or refused and gone */, STEP_NEXT };

static enum step_result refuse(struct command *c, enum reason why, const char *text)
{
	command_refuse(c, why, text);
	return STEP_OVER;
}

/* --- Liveness (S5), before the queue and again after it */

static void collect_run(struct command *c)
{
	struct workspace *w = c->job->workspace;

	/* Only a run that no longer exists has its workspace collected. */
	if (w->is_run && w->refs == 1)
		reap_workspace(c->broker, w->key);
}

static void on_run_state(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct command *c = ctx;
	const char *state = json_string_value(json_object_get(result, "state"));
	const char *org = json_string_value(json_object_get(result, "orgId"));
	const char *user = json_string_value(json_object_get(result, "userId"));

	c->letter = 0;
	if (type != L_RESULT) {
		command_refuse(c, REASON_AUDIT_UNAVAILABLE, "the run registry does not answer");
		return;
	}
	bool is_known = json_is_true(json_object_get(result, "known")) && state && org && user;
	bool is_gone = !is_known || strcmp(state, "gone") == 0;
	bool is_foreign = is_known && (strcmp(org, c->job->org_id) != 0 ||
				       strcmp(user, c->job->user_id) != 0);
	if (!is_gone && !is_foreign) {
		command_go_on(c);
		return;
	}
	if (!is_foreign)
		collect_run(c);
	job_end(&c->broker->jobs, c->job, REASON_RUN_REMOVED);
	command_refuse(c, REASON_RUN_REMOVED, NULL);
}

static enum step_result step_alive(struct command *c)
{
	if (c->job->ended != REASON_NONE)
		return refuse(c, c->job->ended == REASON_RUN_REMOVED ? REASON_RUN_REMOVED :
								       REASON_JOB_TERMINATED,
			      NULL);
	if (!c->broker->config.run_registry || !c->job->run_id)
		return STEP_NEXT;
	auto_json json_t *body = json_pack("{s:s}", "runId", c->job->run_id);
	c->letter = body ? ledger_send(&c->broker->ledger, L_RUN_GET, body, 0, on_run_state, c) : 0;
	if (!c->letter)
		return refuse(c, REASON_AUDIT_UNAVAILABLE, "the run registry does not answer");
	return STEP_OVER;
}

/* --- The queue (Q6) */

static enum step_result step_admit(struct command *c)
{
	struct broker *b = c->broker;

	if (!worker_is_up(&b->worker))
		return refuse(c, REASON_WORKER_UNAVAILABLE, NULL);
	if (http_is_full(&b->http))
		return refuse(c, REASON_QUEUE_SATURATED, "too many answers wait to be read");
	switch (admission_enter(&b->admission, &c->item, &c->job->org->admission,
				&c->job->workspace->admission)) {
	case ADMISSION_RUN:
		return STEP_NEXT;
	case ADMISSION_WAIT:
		return STEP_OVER;
	case ADMISSION_REFUSED:
		break;
	}
	return refuse(c, REASON_QUEUE_SATURATED, NULL);
}

void admit_more(struct broker *b)
{
	struct admission_item *it;

	if (b->is_admitting)
		return; /* the one on the stack goes on */
	b->is_admitting = true;
	while ((it = admission_next(&b->admission)))
		command_go_on(CONTAINER_OF(it, struct command, item));
	b->is_admitting = false;
}

/* --- Claiming a name (Q7) */

static void on_claimed(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct command *c = ctx;

	c->letter = 0;
	if (type != L_RESULT)
		command_refuse(c, REASON_AUDIT_UNAVAILABLE, "the command's name cannot be kept");
	else if (!json_is_true(json_object_get(result, "new")))
		command_refuse(c, REASON_COMMAND_REPLAYED, NULL);
	else
		command_go_on(c);
}

static enum step_result step_claim(struct command *c)
{
	if (!c->request.command_id)
		return STEP_NEXT;
	auto_json json_t *body = json_pack("{s:s, s:s}", "jobId", c->job_id, "commandId", c->id);
	c->letter = body ? ledger_send(&c->broker->ledger, L_COMMAND_ID, body, 0, on_claimed, c) :
			   0;
	if (!c->letter)
		return refuse(c, REASON_AUDIT_UNAVAILABLE, "the command's name cannot be kept");
	return STEP_OVER;
}

/* --- The intent of `required` mode (A6) */

static void on_intent(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct command *c = ctx;
	json_int_t intent = json_integer_value(json_object_get(result, "intent"));

	c->letter = 0;
	if (type != L_RESULT || intent <= 0) {
		command_refuse(c, REASON_AUDIT_UNAVAILABLE, NULL);
		return;
	}
	c->intent = (uint64_t)intent;
	command_go_on(c);
}

static enum step_result step_intent(struct command *c)
{
	if (c->broker->config.audit != AUDIT_REQUIRED)
		return STEP_NEXT;
	json_t *row = record_row(c);
	auto_json json_t *body =
		row ? json_pack("{s:o, s:s}", "row", row, "commandId", c->id) : NULL;
	c->letter = body ? ledger_send(&c->broker->ledger, L_INTENT, body, 0, on_intent, c) : 0;
	if (!c->letter)
		return refuse(c, REASON_AUDIT_UNAVAILABLE, NULL);
	return STEP_OVER;
}

/* --- Slot, egress, dispatch */

static enum step_result step_skills(struct command *c)
{
	const char *text = NULL;
	bool wait;
	enum reason why = view_begin(c, &wait, &text);

	if (why != REASON_NONE)
		return refuse(c, why, text);
	return wait ? STEP_OVER : STEP_NEXT;
}

/* --- Lists (Q8, hygiene) and vouchers (S7) */

static enum step_result step_lists(struct command *c)
{
	const struct config *k = &c->broker->config;

	if (!command_is_internal(c) &&
	    !command_is_allowed(k->command_allow, k->command_block, c->request.args,
				c->request.args_len, c->request.argc))
		return refuse(c, REASON_COMMAND_BLOCKED, NULL);
	return STEP_NEXT;
}

static enum step_result step_voucher(struct command *c)
{
	const char *text = NULL;
	enum reason why = voucher_check_command(c, &text);

	return why == REASON_NONE ? STEP_NEXT : refuse(c, why, text);
}

static enum step_result step_nonce(struct command *c)
{
	const char *text = NULL;
	bool wait;
	enum reason why = voucher_use_nonce(c, &wait, &text);

	if (why != REASON_NONE)
		return refuse(c, why, text);
	return wait ? STEP_OVER : STEP_NEXT;
}

static enum step_result step_slot(struct command *c)
{
	/* While it waited, others' answers may have piled up. */
	if (http_is_full(&c->broker->http))
		return refuse(c, REASON_QUEUE_SATURATED, "too many answers wait to be read");
	if (worker_slot_get(&c->broker->worker, &c->call, &run_events, c->request.image,
			    egress_net_kind(&c->egress)) < 0)
		return refuse(c, REASON_WORKER_UNAVAILABLE, NULL);
	return STEP_OVER;
}

static enum step_result step_egress(struct command *c)
{
	struct err e = { 0 };
	bool wait;
	enum reason why = egress_register(c, &wait, &e);

	if (why != REASON_NONE)
		return refuse(c, why, e.msg);
	return wait ? STEP_OVER : STEP_NEXT;
}

static enum step_result step_run(struct command *c)
{
	const char *text = NULL;
	enum reason why = run_begin(c, &text);

	return why == REASON_NONE ? STEP_OVER : refuse(c, why, text);
}

/* Each with its fault point, hit before the step. */
static const struct {
	const char *fault;
	enum step_result (*run)(struct command *);
} steps[] = {
	{ "command.alive", step_alive },     { "command.lists", step_lists },
	{ "command.voucher", step_voucher }, { "command.admit", step_admit },
	{ "command.alive", step_alive },     { "command.nonce", step_nonce },
	{ "command.claim", step_claim },     { "command.intent", step_intent },   { "command.skills", step_skills },
	{ "command.slot", step_slot },	     { "command.egress", step_egress },
	{ "command.run", step_run },
};

void command_go_on(struct command *c)
{
	while (c->step < ARRAY_SIZE(steps)) {
		fault_hit(steps[c->step].fault);
		if (steps[c->step++].run(c) == STEP_OVER)
			return;
	}
}

/* --- Birth */

static void job_add(struct job *j, struct command *c)
{
	c->job = j;
	c->next = j->commands;
	j->commands = c;
	j->ncommands++;
	j->touched_ms = clock_monotonic_ms();
}

static void job_remove(struct job *j, struct command *c)
{
	struct command **p = &j->commands;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	j->ncommands--;
	j->touched_ms = clock_monotonic_ms();
}

bool command_is_internal(const struct command *c)
{
	return c->on_end != NULL;
}

struct command *command_find(struct job *j, const char *id)
{
	struct command *c = j->commands;

	while (c && strcmp(c->id, id) != 0)
		c = c->next;
	return c;
}

static void on_client_gone(struct exchange *x)
{
	struct command *c = x->owner;

	c->exchange = NULL;
	if (c->phase == COMMAND_ENDED)
		command_free(c);
	else
		command_stop(c, REASON_CANCELLED);
}

static struct command *command_new(struct broker *b, struct exec_request *r, struct exchange *x)
{
	struct command *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->broker = b;
	b->ninflight++;
	c->asked_ns = clock_realtime_ns();
	for (int i = 0; i < OUT_STREAMS + 1; i++)
		c->slot_fds[i] = -1;
	for (int i = 0; i < OUT_STREAMS; i++)
		c->pipes[i] = (struct pipe_watch){ .command = c, .fd = -1 };
	feed_begin(&c->feed, &b->loop);
	if (r) {
		c->request = *r;
		memset(r, 0, sizeof(*r));
	} else {
		c->request.cwd = c->request.image = "";
	}
	if (x) {
		c->exchange = x;
		x->owner = c;
		x->on_gone = on_client_gone;
	}
	return c;
}

static bool command_name(struct command *c)
{
	uint8_t random[8];
	char hex[17];

	if (c->request.command_id) {
		snprintf(c->id, sizeof(c->id), "%s", c->request.command_id);
		return true;
	}
	if (digest_random(random, sizeof(random)) < 0)
		return false;
	digest_hex(random, sizeof(random), hex);
	snprintf(c->id, sizeof(c->id), REQUEST_AUTO_PREFIX "%s", hex);
	return true;
}

/* What the receipt covers (T1) and what the pipe will carry. */
static bool take_input(struct command *c)
{
	struct exec_request *r = &c->request;

	c->input = receipt_input_new(r->argc, r->args, r->args_len);
	if (!c->input)
		return false;
	if (r->stdin_kind == STDIN_INLINE) {
		digest_add(c->input, r->stdin_buf, r->stdin_len);
		feed_put_whole(&c->feed, take_ptr(r->stdin_buf), r->stdin_len);
	}
	if (r->stdin_kind == STDIN_STREAM)
		return true;
	feed_end(&c->feed);
	digest_end(c->input, c->input_digest);
	c->has_input_digest = true;
	return true;
}

static enum reason prepare(struct command *c, struct err *e)
{
	struct broker *b = c->broker;

	if (!command_name(c) || !take_input(c)) {
		err_set(e, ENOMEM, "out of memory");
		return REASON_WORKER_ERROR;
	}
	if (!b->keys.attestation) {
		err_set(e, ENOKEY, "no attestation secret: no receipt could be signed");
		return REASON_CAPABILITY_UNAVAILABLE;
	}
	int rc = limits_resolve(&c->request.asked, &b->config.dflt, &b->config.max, &c->limits, e);
	if (rc < 0)
		return (enum reason)-rc;
	c->has_limits = true;
	return egress_resolve(b, c->request.egress, &c->egress, e);
}

void command_begin(struct broker *b, struct job *j, struct exec_request *r, struct exchange *x,
		   void (*on_end)(struct command *, void *), void *ctx)
{
	struct command *c = command_new(b, r, x);
	struct err e = { 0 };

	if (!c) {
		command_refuse_request(b, j, r, x, REASON_WORKER_ERROR, "out of memory");
		return;
	}
	c->on_end = on_end;
	c->on_end_ctx = ctx;
	snprintf(c->job_id, sizeof(c->job_id), "%s", j->id);
	b->ncommands++;
	bool is_known = c->request.command_id && command_find(j, c->request.command_id);
	job_add(j, c);
	enum reason why = prepare(c, &e);
	if (why == REASON_NONE && b->is_stopping)
		why = REASON_SHUTDOWN;
	if (why == REASON_NONE && is_known)
		why = REASON_COMMAND_REPLAYED;
	if (why != REASON_NONE)
		command_refuse(c, why, e.msg[0] ? e.msg : NULL);
	else
		command_go_on(c);
}

void command_refuse_request(struct broker *b, struct job *j, struct exec_request *r,
			    struct exchange *x, enum reason why, const char *text)
{
	struct command *c = command_new(b, r, x);

	if (!c) {
		static const char body[] = "{\"reason\":\"worker_error\",\"text\":\"out of memory\"}";
		if (r)
			request_done(r);
		if (x)
			exchange_answer_static(x, 500, "application/json", body, sizeof(body) - 1);
		return;
	}
	b->ncommands++;
	if (j) {
		snprintf(c->job_id, sizeof(c->job_id), "%s", j->id);
		job_add(j, c);
	}
	if (c->request.args && command_name(c))
		take_input(c);
	command_refuse(c, why, text);
}

/* --- Refusal, end from outside, death */

/* Takes back what was asked of others. */
static void withdraw(struct command *c)
{
	struct broker *b = c->broker;

	ledger_forget(&b->ledger, c->letter);
	c->letter = 0;
	skills_forget(&b->skills, &c->skills_call);
	egress_unregister(c);
	run_pipes_close(c);
	if (c->call.req) {
		uint64_t req = c->call.req;
		worker_forget(&b->worker, &c->call);
		if (c->has_slot)
			worker_drop(&b->worker, req, c->slot);
	}
}

void command_refuse(struct command *c, enum reason why, const char *text)
{
	withdraw(c);
	c->is_denied = true;
	c->reason = why;
	c->termination = TERMINATION_NONE;
	free(c->text);
	c->text = text ? strdup(text) : NULL;
	c->broker->nrefused++;
	record_begin(c);
}

void command_stop(struct command *c, enum reason why)
{
	switch (c->phase) {
	case COMMAND_BEFORE:
		command_refuse(c, why, NULL);
		break;
	case COMMAND_RUNNING:
		run_kill(c, why, TERMINATION_EXITED);
		break;
	case COMMAND_DRAINING:
	case COMMAND_RECORDING:
	case COMMAND_ENDED:
		break; /* it has an end of its own */
	}
}

/* Refused for what otherwise ends a command that runs (shutdown, job_closed): not a success. */
static unsigned refusal_status(enum reason why)
{
	int status = reason_row(why)->http_status;

	return status < 400 ? 409 : (unsigned)status;
}

void command_answer(struct command *c)
{
	struct exchange *x = c->exchange;
	size_t len = 0;

	if (c->is_answered)
		return;
	c->is_answered = true;
	feed_close(&c->feed);
	if (!x)
		return;
	if (c->request.is_stream && !c->is_denied)
		stream_begin(c);
	if (c->stream.is_on) {
		stream_more(c);
		return;
	}
	c->exchange = NULL;
	x->on_gone = NULL;
	char *text = result_text(c, !c->request.is_stream, &len);
	exchange_answer(x, c->is_denied ? refusal_status(c->reason) : 200, "application/json", text,
			len);
}

void command_end(struct command *c)
{
	struct broker *b = c->broker;
	struct job *j = c->job;

	c->phase = COMMAND_ENDED;
	b->ninflight--;
	admission_leave(&b->admission, &c->item);
	if (j) {
		job_remove(j, c);
		c->job = NULL;
	}
	command_answer(c);
	if (c->on_end)
		c->on_end(c, c->on_end_ctx);
	if (!c->exchange)
		command_free(c);
	if (j)
		job_after_command(b, j);
	admit_more(b);
}

void command_free(struct command *c)
{
	struct broker *b = c->broker;

	if (c->stdin_exchange) {
		c->stdin_exchange->owner = NULL;
		exchange_go_on(c->stdin_exchange);
	}
	loop_timer_clear(&b->loop, &c->timer);
	run_pipes_close(c);
	for (int i = 0; i < OUT_STREAMS; i++)
		output_done(&c->out[i]);
	for (int i = 0; i < OUT_STREAMS + 1; i++)
		scope_close(&c->slot_fds[i]);
	feed_done(&c->feed);
	digest_free(c->input);
	egress_grant_done(b, &c->egress);
	request_done(&c->request);
	stream_done(&c->stream);
	json_decref(c->receipt);
	free(c->text);
	free(c->signed_receipt);
	free(c->nonce);
	free(c);
}
