/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Skills over the API: staging, removing, looking. A body is a stream that the broker
 * only passes on, through a pipe, as fast as the stager takes it; it is looked
 * at there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/scope.h"
#include "broker/api.h"
#include "broker/reply.h"
#include "digest/digest.h"

enum { ANSWER_MAX = 64 << 20 };

struct staging {
	struct skills_call call;
	struct broker *broker;
	struct exchange *exchange; /* NULL: the client has gone */
	struct watch room;
	int fd;			   /* the pipe's end that is written; -1: closed */
	bool is_ended;		   /* the whole body has come */
	json_t *answer;		   /* that came before the body's end */
	enum reason refused;
};

static void close_pipe(struct staging *s)
{
	if (s->fd < 0)
		return;
	loop_unwatch(&s->broker->loop, &s->room);
	close(take_fd(&s->fd));
}

static void staging_free(struct staging *s)
{
	close_pipe(s);
	json_decref(s->answer);
	free(s);
}

/* Answered once both have come: the stager's word and the end of the body. */
static void settle(struct staging *s)
{
	struct exchange *x = s->exchange;

	if (!s->answer || (x && !s->is_ended))
		return;
	if (x) {
		x->on_gone = NULL;
		x->owner = NULL;
		const char *text = json_string_value(json_object_get(s->answer, "text"));
		if (s->refused != REASON_NONE)
			reply_reason(x, s->refused, text);
		else
			reply_json(x, 201, json_incref(s->answer));
	}
	staging_free(s);
}

static void on_staged(struct skills_call *call, const struct k_staged *k)
{
	struct staging *s = CONTAINER_OF(call, struct staging, call);
	char digest[7 + DIGEST_HEX_MAX] = "sha256:";

	digest_hex(k->digest, sizeof(k->digest), digest + 7);
	s->answer = json_pack("{s:s, s:s, s:I, s:I, s:I, s:b, s:i, s:s}", "slug", k->slug, "digest",
			      digest, "files", (json_int_t)k->files, "links", (json_int_t)k->links,
			      "bytes", (json_int_t)k->bytes, "requiresExecution",
			      k->requires_execution, "frontMatterLine", (int)k->front_matter_line,
			      "frontMatterFault", k->front_matter_fault);
	settle(s);
}

/* What still comes of the body is taken and dropped: the refusal is its answer. */
static void refuse(struct staging *s, enum reason why, const char *text)
{
	struct exchange *x = s->exchange;

	s->refused = why;
	s->answer = json_pack("{s:s}", "text", text);
	close_pipe(s);
	if (x && !s->is_ended)
		exchange_go_on(x);
	settle(s);
}

static void on_refused(struct skills_call *call, enum reason why, const char *text)
{
	refuse(CONTAINER_OF(call, struct staging, call), why, text);
}

static void on_lost(struct skills_call *call)
{
	refuse(CONTAINER_OF(call, struct staging, call), REASON_STAGING_FAILED, skills_lost_text);
}

static const struct skills_events staging_events = {
	.staged = on_staged,
	.refused = on_refused,
	.lost = on_lost,
};

/* A stream that is cut ends too early for the stager: nothing of it stays. */
static void on_stager_gone(struct exchange *x)
{
	struct staging *s = x->owner;

	s->exchange = NULL;
	close_pipe(s);
	settle(s);
}

static void on_room(struct watch *w, uint32_t events)
{
	struct staging *s = CONTAINER_OF(w, struct staging, room);

	(void)events;
	loop_unwatch(&s->broker->loop, &s->room);
	if (s->exchange)
		exchange_go_on(s->exchange);
}

void api_skill_begin(struct broker *b, struct exchange *x)
{
	struct staging *s = calloc(1, sizeof(*s));
	int ends[2] = { -1, -1 };

	if (!s || pipe2(ends, O_CLOEXEC) < 0) {
		free(s);
		reply_reason(x, REASON_WORKER_ERROR, "out of memory or descriptors");
		return;
	}
	autoclose int theirs = ends[0];
	s->broker = b;
	s->fd = ends[1];
	if (fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0 ||
	    skills_stage(&b->skills, &s->call, &staging_events, theirs) < 0) {
		staging_free(s);
		reply_reason(x, REASON_STAGING_FAILED, "no skills server");
		return;
	}
	s->exchange = x;
	x->owner = s;
	x->on_gone = on_stager_gone;
}

size_t api_skill_chunk(struct exchange *x, const void *buf, size_t len)
{
	struct staging *s = x->owner;
	struct err e;
	ssize_t n;

	if (!s || s->fd < 0)
		return len;
	do
		n = write(s->fd, buf, len);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)len)
		return len;
	/* What it does not take now it takes when there is room. */
	if ((n >= 0 || errno == EAGAIN) &&
	    (s->room.fn || loop_watch(&s->broker->loop, &s->room, s->fd, EPOLLOUT, on_room, &e) == 0))
		return n < 0 ? 0 : (size_t)n;
	close_pipe(s); /* the stager has heard enough; its answer is on its way */
	return len;
}

void api_skill_end(struct broker *b, struct exchange *x)
{
	struct staging *s = x->owner;

	(void)b;
	if (!s)
		return;
	s->is_ended = true;
	close_pipe(s);
	settle(s);
}

/* --- Everything that is asked and answered at once */

struct question {
	struct skills_call call;
	struct exchange *exchange; /* NULL: the client has gone */
};

static struct exchange *question_done(struct skills_call *call)
{
	struct question *r = CONTAINER_OF(call, struct question, call);
	struct exchange *x = r->exchange;

	if (x)
		x->on_gone = NULL;
	free(r);
	return x;
}

static void on_removed(struct skills_call *call)
{
	struct exchange *x = question_done(call);

	if (x)
		reply_json(x, 200, json_pack("{s:s}", "removed", x->param[0]));
}

static void on_question_refused(struct skills_call *call, enum reason why, const char *text)
{
	struct exchange *x = question_done(call);

	if (x)
		reply_reason(x, why, text);
}

static void on_question_lost(struct skills_call *call)
{
	on_question_refused(call, REASON_STAGING_FAILED, skills_lost_text);
}

/* What skills have put into words is the answer as it is. */
static void on_text(struct skills_call *call, int fd, uint64_t len)
{
	struct exchange *x = question_done(call);
	autoclose int text = fd;
	autofree char *body = x && len < ANSWER_MAX ? malloc(len + 1) : NULL;

	if (!x)
		return;
	if (!body || pread(text, body, len, 0) != (ssize_t)len)
		reply_reason(x, REASON_WORKER_ERROR, "the answer cannot be read");
	else
		exchange_answer(x, 200, "application/json", take_ptr(body), len);
}

static const struct skills_events question_events = {
	.removed = on_removed,
	.text = on_text,
	.refused = on_question_refused,
	.lost = on_question_lost,
};

static void on_asker_gone(struct exchange *x)
{
	struct question *r = x->owner;

	r->exchange = NULL;
}

/* @rc of the request: 0, and its answer comes to @r; else it is refused here. */
static void wait_for_answer(struct exchange *x, struct question *r, int rc, const char *invalid)
{
	if (rc < 0) {
		free(r);
		reply_reason(x, rc == -EINVAL ? REASON_INVALID_REQUEST : REASON_STAGING_FAILED,
			     rc == -EINVAL ? invalid : "no skills server");
		return;
	}
	r->exchange = x;
	x->owner = r;
	x->on_gone = on_asker_gone;
}

void api_skill_remove(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { "digest", NULL };
	struct question *r = calloc(1, sizeof(*r));
	int rc = r ? -EINVAL : -ENOMEM;

	if (r && exchange_query_is(x, known))
		rc = skills_remove(&b->skills, &r->call, &question_events, x->param[0],
				   exchange_query(x, "digest"));
	wait_for_answer(x, r, rc, "the query takes digest=SHA256");
}

void api_skill_list(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { "all", NULL };
	struct question *r = calloc(1, sizeof(*r));
	const char *all = exchange_query(x, "all");
	int rc = r ? -EINVAL : -ENOMEM;

	if (r && exchange_query_is(x, known) && (!all || strcmp(all, "1") == 0))
		rc = skills_show(&b->skills, &r->call, &question_events, "", all != NULL);
	wait_for_answer(x, r, rc, "the query takes all=1");
}

void api_skill_show(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { NULL };
	struct question *r = calloc(1, sizeof(*r));
	int rc = r ? -EINVAL : -ENOMEM;

	if (r && exchange_query_is(x, known))
		rc = skills_show(&b->skills, &r->call, &question_events, x->param[0], false);
	wait_for_answer(x, r, rc, "there is no query");
}

void api_skill_read(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { "path", NULL };
	struct question *r = calloc(1, sizeof(*r));
	const char *path = exchange_query(x, "path");
	int rc = r ? -EINVAL : -ENOMEM;

	if (r && path && exchange_query_is(x, known))
		rc = skills_read(&b->skills, &r->call, &question_events, x->param[0], path);
	wait_for_answer(x, r, rc, "the query takes path=PATH");
}
