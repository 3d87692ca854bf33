/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands over the API: POST /v1/run (seal, open, execute and close in one
 * go), POST /v1/jobs/{job}/commands, and the stream of standard input. Every
 * refusal here is a command's refusal and leaves its row (A1).
 */
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "broker/api.h"
#include "broker/command.h"
#include "broker/reply.h"
#include "session/session.h"

static bool may_run(const struct exchange *x)
{
	return x->peer->roles & ROLE_RUNNER;
}

/* --- POST /v1/run */

enum reason api_open_session(struct broker *b, struct exchange *x, const struct exec_request *r,
			     struct job **ret, const char **text)
{
	const struct session_claim claim = { r->org_id, r->user_id, r->surface, r->run_id };
	autofree struct session *s = malloc(sizeof(*s));
	enum reason why = s ? session_mint(&claim, 0, s, text) : REASON_WORKER_ERROR;

	if (why != REASON_NONE)
		return why;
	if (!b->keys.carrier) /* nothing is minted by a plane that cannot seal */
		return REASON_CAPABILITY_UNAVAILABLE;
	if (!peer_may_name(x->peer, s->org_id, s->user_id)) {
		*text = "this peer may not name that organisation or user";
		return REASON_CAPABILITY_DENIED;
	}
	if (b->is_stopping)
		return REASON_SHUTDOWN;
	why = jobs_open(&b->jobs, s, x->peer->uid, NULL, ret);
	if (why == REASON_NONE)
		(*ret)->is_oneshot = true;
	return why;
}

void api_run(struct broker *b, struct exchange *x)
{
	struct exec_request r;
	struct err e = { 0 };
	struct job *j = NULL;
	const char *text = NULL;
	enum reason why = request_parse(x->body ? x->body : "", x->body_len, REQUEST_RUN, &r, &e);

	if (why == REASON_NONE && !may_run(x)) {
		why = REASON_CAPABILITY_DENIED;
		text = "this peer does not have the role runner";
	} else if (why != REASON_NONE) {
		text = e.msg;
	}
	if (why == REASON_NONE)
		why = api_open_session(b, x, &r, &j, &text);
	if (why != REASON_NONE) {
		command_refuse_request(b, NULL, &r, x, why, text);
		return;
	}
	command_begin(b, j, &r, x);
}

/* --- POST /v1/jobs/{job}/commands */

void api_exec(struct broker *b, struct exchange *x)
{
	struct exec_request r;
	struct err e = { 0 };
	struct job *j = jobs_find(&b->jobs, x->param[0], x->peer->uid);
	enum reason why = request_parse(x->body ? x->body : "", x->body_len, REQUEST_EXEC, &r, &e);

	if (!may_run(x))
		command_refuse_request(b, NULL, &r, x, REASON_CAPABILITY_DENIED,
				       "this peer does not have the role runner");
	else if (!j)
		command_refuse_request(b, NULL, &r, x, REASON_UNKNOWN_JOB, NULL);
	else if (why != REASON_NONE)
		command_refuse_request(b, j, &r, x, why, e.msg);
	else
		command_begin(b, j, &r, x);
}

/* --- Standard input */

static void on_room(struct feed *f)
{
	struct command *c = CONTAINER_OF(f, struct command, feed);

	if (c->stdin_exchange)
		exchange_go_on(c->stdin_exchange);
}

/* Half an input must not look like a whole one. */
static void on_stdin_gone(struct exchange *x)
{
	struct command *c = x->owner;

	if (!c)
		return;
	c->stdin_exchange = NULL;
	c->feed.on_room = NULL;
	if (!c->feed.is_closed)
		command_stop(c, REASON_CANCELLED);
}

void api_stdin_begin(struct broker *b, struct exchange *x)
{
	struct job *j = jobs_find(&b->jobs, x->param[0], x->peer->uid);
	struct command *c = j ? command_find(j, x->param[1]) : NULL;

	if (!j)
		reply_reason(x, REASON_UNKNOWN_JOB, NULL);
	else if (!c)
		reply_reason(x, REASON_INVALID_REQUEST, "no such command is in flight");
	else if (c->request.stdin_kind != STDIN_STREAM || c->stdin_exchange || c->feed.is_ended)
		reply_reason(x, REASON_INVALID_REQUEST,
			     "the command takes no stream of standard input, or has one");
	if (x->response)
		return;
	x->owner = c;
	x->on_gone = on_stdin_gone;
	c->stdin_exchange = x;
	c->feed.on_room = on_room;
}

size_t api_stdin_chunk(struct exchange *x, const void *buf, size_t len)
{
	struct command *c = x->owner;

	if (!c || c->feed.is_closed)
		return len; /* the command does not read any more */
	/* Until nothing fits: only a feed that holds bytes says when there is room again. */
	size_t n = 0, put = 1;
	while (n < len && put > 0) {
		put = feed_put(&c->feed, (const char *)buf + n, len - n);
		n += put;
	}
	if (!c->feed.is_closed)
		digest_add(c->input, buf, n);
	x->received += n;
	return n;
}

void api_stdin_end(struct broker *b, struct exchange *x)
{
	struct command *c = x->owner;
	bool was_open = c && !c->feed.is_closed;

	(void)b;
	x->on_gone = NULL;
	x->owner = NULL;
	if (c) {
		c->stdin_exchange = NULL;
		c->feed.on_room = NULL;
		feed_end(&c->feed);
	}
	reply_json(x, 200, json_pack("{s:I, s:b}", "bytes", (json_int_t)x->received, "closed",
				     !was_open));
}
