/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs over the API: opened by a carrier, listed, killed, closed. A job is its
 * peer's alone: for anybody else there is no such job (F1).
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "broker/api.h"
#include "broker/command.h"
#include "broker/reply.h"
#include "session/carrier.h"

struct open_body {
	const char *carrier;
	const json_t *skills, *environment;
};

static const struct json_field open_fields[] = {
	FIELD(struct open_body, carrier, "carrier", FIELD_PTR, FIELD_REQUIRED, 0),
	FIELD(struct open_body, skills, "skills", FIELD_ARRAY, 0, 0),
	FIELD(struct open_body, environment, "environment", FIELD_ANY, 0, 0),
};

static enum reason refuse_unbuilt(const struct open_body *body, const char **text)
{
	if (body->environment && !json_is_null(body->environment)) {
		*text = "'environment' is not available on this plane yet";
		return REASON_NOT_AVAILABLE;
	}
	return REASON_NONE;
}

static enum reason open_job(struct broker *b, struct exchange *x, const struct open_body *body,
			    struct session *s, struct job **ret, const char **text)
{
	enum reason why = carrier_open(b->keys.carrier, body->carrier, strlen(body->carrier),
				       clock_realtime_ns() / 1000000, s, NULL);

	if (why == REASON_NONE && strcmp(s->org_id, SESSION_HANDSHAKE) == 0)
		why = REASON_CARRIER_MALFORMED; /* reserved: never out of a carrier from outside */
	if (why == REASON_NONE && !peer_may_name(x->peer, s->org_id, s->user_id)) {
		*text = "this peer may not name that organisation or user";
		why = REASON_CAPABILITY_DENIED;
	}
	if (why == REASON_NONE)
		why = refuse_unbuilt(body, text);
	if (why == REASON_NONE && b->is_stopping)
		why = REASON_SHUTDOWN;
	return why == REASON_NONE ? jobs_open(&b->jobs, s, x->peer->uid, NULL, ret) : why;
}

static void answer_opened(struct broker *b, struct exchange *x, struct job *j)
{
	json_t *v = json_pack("{s:s, s:s, s:s, s:s, s:s?}", "jobId", j->id, "orgId", j->org_id,
			      "userId", j->user_id, "surface", surface_name(j->surface), "runId",
			      j->run_id);

	job_keep(b, j);
	reap_begin(b);
	if (v && j->view)
		json_object_set_new(v, "skills", view_to_json(j->view));
	reply_json(x, 201, v);
}

/* --- A job with skills is answered when its view is open */

struct opening {
	struct skills_call call;
	struct broker *broker;
	struct exchange *exchange; /* NULL: the client has gone */
	struct job *job;
};

static struct exchange *opening_done(struct opening *o)
{
	struct exchange *x = o->exchange;

	if (x)
		x->on_gone = NULL;
	free(o);
	return x;
}

static void on_opener_gone(struct exchange *x)
{
	struct opening *o = x->owner;

	o->exchange = NULL;
}

static void on_view(struct skills_call *call, const struct k_view *v, int fd)
{
	struct opening *o = CONTAINER_OF(call, struct opening, call);
	struct broker *b = o->broker;
	struct job *j = o->job;
	struct exchange *x = opening_done(o);

	view_opened(j->view, v, fd);
	j->ncommands--;
	if (x)
		answer_opened(b, x, j);
	else
		job_close(b, j, REASON_CANCELLED);
}

static void refuse_opening(struct opening *o, enum reason why, const char *text)
{
	struct broker *b = o->broker;
	struct job *j = o->job;
	struct exchange *x = opening_done(o);

	log_info("job_refused", "uid=%u reason=%s", j->uid, reason_code(why));
	j->ncommands--;
	if (x)
		reply_reason(x, why, text);
	job_free(&b->jobs, j);
}

static void on_refused(struct skills_call *call, enum reason why, const char *text)
{
	refuse_opening(CONTAINER_OF(call, struct opening, call), why, text);
}

static void on_lost(struct skills_call *call)
{
	refuse_opening(CONTAINER_OF(call, struct opening, call), REASON_WORKER_UNAVAILABLE,
		       skills_lost_text);
}

static const struct skills_events opening_events = {
	.view = on_view,
	.refused = on_refused,
	.lost = on_lost,
};

/* Takes @j; it is held like one with a command, so that nothing else ends it meanwhile. */
static void open_view(struct broker *b, struct exchange *x, struct job *j)
{
	struct opening *o = calloc(1, sizeof(*o));

	if (!o || view_open(j->view, &o->call, &opening_events) < 0) {
		reply_reason(x, o ? REASON_WORKER_UNAVAILABLE : REASON_WORKER_ERROR,
			     o ? "no skills server" : "out of memory");
		free(o);
		job_free(&b->jobs, j);
		return;
	}
	o->broker = b;
	o->exchange = x;
	o->job = j;
	x->owner = o;
	x->on_gone = on_opener_gone;
	j->ncommands++;
}

void api_job_open(struct broker *b, struct exchange *x)
{
	struct open_body body = { 0 };
	auto_json json_t *v = reply_body(x, open_fields, ARRAY_SIZE(open_fields), &body);
	autofree struct session *s = malloc(sizeof(*s));
	const char *text = NULL;
	struct job *j = NULL;

	if (!v)
		return;
	enum reason why = s ? open_job(b, x, &body, s, &j, &text) : REASON_WORKER_ERROR;
	if (why == REASON_NONE && body.skills && json_array_size(body.skills) > 0) {
		why = view_new(&b->skills, body.skills, &j->view, &text);
		if (why != REASON_NONE)
			job_free(&b->jobs, j);
	}
	if (why != REASON_NONE) { /* an event, not a command's row (A1) */
		log_info("job_refused", "uid=%u reason=%s", x->peer->uid, reason_code(why));
		reply_reason(x, why, text);
		return;
	}
	if (j->view)
		open_view(b, x, j);
	else
		answer_opened(b, x, j);
}

static const char *phase_of(const struct command *c)
{
	if (c->item.state == ADMISSION_WAITING)
		return "queued";
	return c->phase == COMMAND_BEFORE ? "starting" :
	       c->phase == COMMAND_RUNNING ? "running" :
					     "ending";
}

/* Which versions, and what their server had counted for them when a command last ended. */
static json_t *skills_of(const struct job *j)
{
	if (!j->view)
		return json_null();
	return json_pack("{s:o, s:I, s:I}", "attached", view_to_json(j->view), "filesLookedUp",
			 (json_int_t)j->view->counted.files_looked_up, "bytesServed",
			 (json_int_t)j->view->counted.bytes_served);
}

static json_t *job_to_json(const struct job *j)
{
	json_t *commands = json_array();

	for (const struct command *c = j->commands; commands && c; c = c->next)
		json_array_append_new(
			commands,
			json_pack("{s:s, s:s, s:i}", "commandId", c->id, "phase", phase_of(c),
				  "position", (int)admission_position(&c->item)));
	return json_pack(
		"{s:s, s:s, s:s, s:s, s:s?, s:I, s:s, s:s?, s:I, s:I, s:o, s:o}", "jobId", j->id,
		"orgId", j->org_id, "userId", j->user_id, "surface", surface_name(j->surface),
		"runId", j->run_id, "uid", (json_int_t)j->uid, "state",
		j->is_closing		  ? "closed" :
		j->ended != REASON_NONE ? "ended" :
					  "open",
		"reason", reason_code(j->ended), "openedMs", (json_int_t)j->opened_ms, "idleMs",
		(json_int_t)(j->ncommands ? 0 : clock_monotonic_ms() - j->touched_ms), "commands",
		commands, "skills", skills_of(j));
}

void api_job_list(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { "all", NULL };
	const char *all = exchange_query(x, "all");
	bool is_all = all && strcmp(all, "1") == 0;

	if (!exchange_query_is(x, known) || (all && !is_all)) {
		reply_reason(x, REASON_INVALID_REQUEST, "the query takes all=1");
		return;
	}
	if (is_all && !(x->peer->roles & ROLE_ADMIN)) {
		reply_reason(x, REASON_CAPABILITY_DENIED, "all=1 takes the role admin");
		return;
	}
	json_t *list = json_array();
	for (const struct job *j = b->jobs.oldest; list && j; j = j->newer)
		if ((is_all || j->uid == x->peer->uid) && (!j->is_closing || j->ncommands))
			json_array_append_new(list, job_to_json(j));
	reply_json(x, 200, json_pack("{s:o}", "jobs", list));
}

static struct job *find(struct broker *b, struct exchange *x)
{
	struct job *j = jobs_find(&b->jobs, x->param[0], x->peer->uid);

	if (!j)
		reply_reason(x, REASON_UNKNOWN_JOB, NULL);
	return j;
}

void api_job_show(struct broker *b, struct exchange *x)
{
	struct job *j = find(b, x);

	if (j)
		reply_json(x, 200, job_to_json(j));
}

static void on_waiter_gone(struct exchange *x)
{
	struct job *j = x->owner;

	j->waiter = NULL;
}

/* The answer comes when nothing of the job runs any more. */
static void wait_for_end(struct job *j, struct exchange *x)
{
	if (j->waiter) { /* one of them waits; the other is told at once */
		reply_json(x, 200,
			   json_pack("{s:s, s:b}", "jobId", j->id, "closed", j->is_closing));
		return;
	}
	j->waiter = x;
	x->owner = j;
	x->on_gone = on_waiter_gone;
}

void api_job_close(struct broker *b, struct exchange *x)
{
	struct job *j = find(b, x);

	if (!j)
		return;
	wait_for_end(j, x);
	if (!j->is_closing)
		job_close(b, j, REASON_JOB_CLOSED);
	else
		job_after_command(b, j);
}

void api_job_kill(struct broker *b, struct exchange *x)
{
	struct job *j = find(b, x);

	if (!j)
		return;
	if (x->body_len) {
		struct {
			const char *command_id;
		} body = { 0 };
		const struct json_field fields[] = {
			{ "commandId", FIELD_PTR, 0, 0, sizeof(body.command_id), 0 },
		};
		auto_json json_t *v = reply_body(x, fields, ARRAY_SIZE(fields), &body);
		if (!v)
			return;
		struct command *c = body.command_id ? command_find(j, body.command_id) : NULL;
		if (body.command_id) {
			if (c)
				command_stop(c, REASON_CANCELLED);
			reply_json(x, 200, json_pack("{s:s, s:i}", "jobId", x->param[0], "killed",
						     c ? 1 : 0));
			return;
		}
	}
	int n = (int)j->ncommands;
	reply_json(x, 200, json_pack("{s:s, s:i}", "jobId", j->id, "killed", n));
	job_stop_commands(b, j, REASON_CANCELLED);
}
