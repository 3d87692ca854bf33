/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One script after another on a job that is held meanwhile. Knows no route and
 * no tar; who starts a transfer says what is done with what comes out.
 */
#include "broker/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"
#include "json/json.h"

static void on_gone(struct exchange *x)
{
	struct transfer *t = x->owner;

	t->exchange = NULL;
	t->is_whole = true;
	transfer_refuse(t, REASON_CANCELLED, NULL);
}

struct transfer *transfer_new(struct broker *b, struct exchange *x, struct job *j)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->broker = b;
	t->exchange = x;
	t->job = j;
	j->ncommands++; /* as one with a command: nothing else ends it meanwhile */
	x->owner = t;
	x->on_gone = on_gone;
	return t;
}

void transfer_free(struct transfer *t)
{
	struct job *j = t->job;

	if (t->exchange) {
		t->exchange->on_gone = NULL;
		t->exchange->owner = NULL;
	}
	artifact_scan_free(t->scan);
	json_decref(t->receipt);
	free(t->out);
	j->ncommands--;
	j->touched_ms = clock_monotonic_ms();
	job_after_command(t->broker, j);
	free(t);
}

static void settle(struct transfer *t)
{
	if (!t->command && t->is_whole)
		t->then(t);
	else if (!t->command && t->exchange)
		exchange_hurry(t->exchange); /* what still comes is dropped, but not for ever */
}

static void set_refused(struct transfer *t, enum reason why, const char *text)
{
	if (t->refused != REASON_NONE)
		return;
	t->refused = why;
	snprintf(t->text, sizeof(t->text), "%s", text ? text : "");
}

void transfer_refuse(struct transfer *t, enum reason why, const char *text)
{
	set_refused(t, why, text);
	if (t->command)
		command_stop(t->command, REASON_CANCELLED); /* its end settles */
	else
		settle(t);
}

void transfer_is_whole(struct transfer *t)
{
	t->is_whole = true;
	settle(t);
}

/* The sandbox's word for what went wrong: one line, nothing that drives a terminal. */
static void first_line(const struct output *o, char *ret, size_t size)
{
	size_t n = 0;

	for (size_t i = o->start; i < o->len && n + 1 < size && o->buf[i] != '\n'; i++)
		ret[n++] = o->buf[i] < 0x20 || o->buf[i] > 0x7e ? '?' : (char)o->buf[i];
	ret[n] = '\0';
}

static void judge_end(struct transfer *t, const struct command *c)
{
	char line[200], text[TRANSFER_TEXT_MAX];

	if (c->is_denied) {
		set_refused(t, c->reason, c->text);
		return;
	}
	if (c->termination == TERMINATION_EXITED && c->reason == REASON_NONE &&
	    c->done.exit_code == 0)
		return;
	first_line(&c->out[OUT_STDERR], line, sizeof(line));
	snprintf(text, sizeof(text), "%s%s%s",
		 c->termination == TERMINATION_EXITED ? "" : termination_code(c->termination),
		 c->termination == TERMINATION_EXITED || !line[0] ? "" : ": ", line);
	set_refused(t, c->reason != REASON_NONE ? c->reason : REASON_STAGING_FAILED,
		    text[0] ? text : "it failed in the sandbox");
}

static void on_end(struct command *c, void *ctx)
{
	struct transfer *t = ctx;
	struct output *o = &c->out[OUT_STDOUT];

	t->command = NULL;
	judge_end(t, c);
	snprintf(t->job_id, sizeof(t->job_id), "%s", c->job_id);
	snprintf(t->command_id, sizeof(t->command_id), "%s", c->id);
	json_decref(t->receipt);
	t->receipt = json_incref(c->receipt);
	free(t->out);
	t->out = o->buf; /* nobody took of it: it begins at 0 */
	t->out_len = o->len;
	o->buf = NULL;
	o->len = 0;
	settle(t);
}

static enum reason make_request(const struct transfer *t, const char *script, const char *first,
				const char *second, bool streams_in, struct exec_request *r,
				struct err *e)
{
	size_t len;
	auto_json json_t *v =
		json_pack("{s:[s, s, s, s, s, s], s:{s:s}}", "argv", "/bin/sh", "-c", script,
			  "artifact", first, second, "egress", "mode", "none");

	if (v && !t->scan) /* what comes out is what is asked for */
		json_object_set_new(v, "outputBytes", json_integer((json_int_t)t->max_bytes));
	if (v && streams_in)
		json_object_set_new(v, "stdin", json_string("stream"));
	autofree char *text = v ? json_dump_compact(v, &len) : NULL;
	if (!text) {
		memset(r, 0, sizeof(*r));
		err_set(e, EINVAL, "a name is no UTF-8");
		return REASON_INVALID_REQUEST;
	}
	return request_parse(text, len, REQUEST_EXEC, r, e);
}

void transfer_run(struct transfer *t, const char *script, const char *first, const char *second,
		  bool streams_in, char *in, size_t in_len)
{
	struct exec_request r;
	struct err e = { 0 };
	enum reason why = make_request(t, script, first, second, streams_in, &r, &e);

	if (in) {
		r.stdin_kind = STDIN_INLINE;
		r.stdin_buf = (uint8_t *)in;
		r.stdin_len = in_len;
	}
	if (why != REASON_NONE) {
		request_done(&r);
		transfer_refuse(t, why, e.msg);
	} else if (!command_begin_own(t->broker, t->job, &r, on_end, t, &t->command)) {
		transfer_refuse(t, REASON_WORKER_ERROR, "out of memory");
	}
}
