/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands reach right now, and what would become of a request (E12). Live
 * only: the gateway's counts are passed on and never kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "broker/api.h"
#include "broker/command.h"
#include "broker/reply.h"
#include "broker/request.h"

struct asking {
	struct gateway_call call;
	struct broker *broker;
	struct exchange *exchange;
	json_t *list;
	char target[HOST_TEXT_MAX];
};

static void on_client_gone(struct exchange *x)
{
	struct asking *a = x->owner;

	gateway_forget(&a->broker->gateway, &a->call);
	json_decref(a->list);
	free(a);
}

static struct asking *asking_new(struct broker *b, struct exchange *x)
{
	struct asking *a = calloc(1, sizeof(*a));

	if (!a) {
		reply_reason(x, REASON_WORKER_ERROR, "out of memory");
		return NULL;
	}
	a->broker = b;
	a->exchange = x;
	x->owner = a;
	x->on_gone = on_client_gone;
	return a;
}

/* Gives the exchange back to be answered; @a is gone. */
static struct exchange *asking_end(struct asking *a)
{
	struct exchange *x = a->exchange;

	x->owner = NULL;
	x->on_gone = NULL;
	json_decref(a->list);
	free(a);
	return x;
}

static void on_lost(struct gateway_call *call)
{
	struct asking *a = CONTAINER_OF(call, struct asking, call);

	reply_reason(asking_end(a), REASON_EGRESS_UNAVAILABLE, "the gateway is not running");
}

/* --- Live counts */

/* The job whose command has that slot, of this peer or for an admin. */
static const struct command *command_at(const struct broker *b, uint64_t slot)
{
	for (const struct job *j = b->jobs.oldest; j; j = j->newer)
		for (const struct command *c = j->commands; c; c = c->next)
			if (c->has_slot && c->slot == slot)
				return c;
	return NULL;
}

static void on_destination(struct gateway_call *call, const struct g_destination *d)
{
	struct asking *a = CONTAINER_OF(call, struct asking, call);
	const struct command *c = command_at(a->broker, d->slot);

	if (!c)
		return; /* it has ended while we asked */
	json_array_append_new(
		a->list,
		json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I}", "jobId", c->job_id,
			  "commandId", c->id, "host", d->host, "port", (int)d->port, "open",
			  (int)d->open, "allowed", (json_int_t)d->allowed, "denied",
			  (json_int_t)d->denied, "outBytes", (json_int_t)d->out_bytes, "inBytes",
			  (json_int_t)d->in_bytes));
}

static void on_end(struct gateway_call *call)
{
	struct asking *a = CONTAINER_OF(call, struct asking, call);
	json_t *list = take_ptr(a->list);

	reply_json(asking_end(a), 200, json_pack("{s:o}", "destinations", list));
}

static const struct gateway_events live_events = {
	.destination = on_destination,
	.end = on_end,
	.lost = on_lost,
};

void api_egress_live(struct broker *b, struct exchange *x)
{
	struct asking *a = asking_new(b, x);

	if (!a)
		return;
	a->list = json_array();
	if (gateway_live(&b->gateway, &a->call, &live_events) < 0)
		on_lost(&a->call);
}

/* --- What would happen */

static void on_checked(struct gateway_call *call, const struct g_checked *k)
{
	struct asking *a = CONTAINER_OF(call, struct asking, call);
	bool is_allowed = k->verdict == EGRESS_ALLOW;
	json_t *v = json_pack("{s:s, s:s, s:o, s:o}", "target", a->target, "verdict",
			      is_allowed ? "allow" : "deny", "reason",
			      is_allowed ? json_null()
					 : json_string(egress_verdict_row(k->verdict)->code),
			      "address", k->address[0] ? json_string(k->address) : json_null());

	reply_json(asking_end(a), 200, v);
}

static const struct gateway_events check_events = {
	.checked = on_checked,
	.lost = on_lost,
};

struct check_body {
	const char *target;
	const json_t *egress;
};

static const struct json_field check_fields[] = {
	FIELD(struct check_body, target, "target", FIELD_PTR, FIELD_REQUIRED, HOST_TEXT_MAX),
	FIELD(struct check_body, egress, "egress", FIELD_OBJECT, 0, 0),
};

static enum reason check_ask(struct broker *b, struct exchange *x, const struct check_body *body,
			     struct err *e)
{
	autofree struct egress_policy *asked = NULL;
	struct egress_grant grant = { 0 };
	struct asking *a;
	struct target t;
	enum reason why;

	if (body->egress && request_read_egress(body->egress, &asked, e) < 0)
		return REASON_INVALID_REQUEST;
	if (!target_parse(body->target, strlen(body->target), 0, &t)) {
		err_set(e, EINVAL, "'target' is no HOST:PORT");
		return REASON_INVALID_REQUEST;
	}
	why = egress_resolve(b, asked, &grant, e);
	a = why == REASON_NONE ? asking_new(b, x) : NULL;
	if (a) {
		target_format(&t, 0, a->target);
		if (gateway_check(&b->gateway, &a->call, &check_events, grant.policy, &t) < 0)
			on_lost(&a->call);
	}
	egress_grant_done(b, &grant);
	return why;
}

void api_egress_check(struct broker *b, struct exchange *x)
{
	struct check_body body = { 0 };
	auto_json json_t *v = reply_body(x, check_fields, ARRAY_SIZE(check_fields), &body);
	struct err e = { 0 };

	if (!v)
		return;
	enum reason why = check_ask(b, x, &body, &e);
	if (why != REASON_NONE)
		reply_reason(x, why, e.msg);
}
