/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command's birth and its ends: made out of a request, refused, stopped from
 * outside, answered, freed. What lies between stands in steps.c and run.c.
 */
#include "broker/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "json/json.h"
#include "receipt/receipt.h"

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

bool command_is_own(const struct command *c)
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

static void begin(struct command *c, struct job *j)
{
	struct err e = { 0 };
	bool is_known = c->request.command_id && command_find(j, c->request.command_id);

	snprintf(c->job_id, sizeof(c->job_id), "%s", j->id);
	c->broker->ncommands++;
	job_add(j, c);
	enum reason why = prepare(c, &e);
	if (why == REASON_NONE && c->broker->is_stopping)
		why = REASON_SHUTDOWN;
	if (why == REASON_NONE && is_known)
		why = REASON_COMMAND_REPLAYED;
	if (why != REASON_NONE)
		command_refuse(c, why, e.msg[0] ? e.msg : NULL);
	else
		command_go_on(c);
}

void command_begin(struct broker *b, struct job *j, struct exec_request *r, struct exchange *x)
{
	struct command *c = command_new(b, r, x);

	if (c)
		begin(c, j);
	else
		command_refuse_request(b, j, r, x, REASON_WORKER_ERROR, "out of memory");
}

bool command_begin_own(struct broker *b, struct job *j, struct exec_request *r,
		       void (*on_end)(struct command *, void *), void *ctx, struct command **ret)
{
	struct command *c = command_new(b, r, NULL);

	if (!c) {
		request_done(r);
		return false;
	}
	c->on_end = on_end;
	c->on_end_ctx = ctx;
	if (ret)
		*ret = c;
	begin(c, j);
	return true;
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
	probe_forget(take_ptr(c->question));
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
	command_answer(c);
	retain_end(c);
	if (c->on_end) /* it may let go of the job, which this one still holds */
		c->on_end(c, c->on_end_ctx);
	if (j) {
		job_remove(j, c);
		c->job = NULL;
	}
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
	retain_drop(c);
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
