/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of output on their way to the operator's redactor and sink. Owns the
 * copies, their bounds and the two connections; writes no file, no row and no
 * word of output into the log. A copy that meets any trouble is forgotten.
 */
#include "broker/retain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"
#include "broker/parcel.h"

enum { RETRY_MS = 20, SENDS_AT_ONCE = 4, LINE_MAX_BYTES = 64 };

struct retain_copy {
	struct broker *broker;
	struct retain_copy *next;
	struct parcel own, redacted;
	bool is_truncated[OUT_STREAMS];
	bool is_for_sink; /* @own is what may be kept */
	int fd;		  /* -1: waits for its turn */
	struct watch watch;
	struct timer limit;
	size_t at;   /* sent of @own */
	size_t came; /* of the answer */
	struct frames answer;
	char line[LINE_MAX_BYTES];
};

/* --- Copies */

static void hang_up(struct retain_copy *k)
{
	if (k->fd < 0)
		return;
	loop_unwatch(&k->broker->loop, &k->watch);
	scope_close(&k->fd);
	k->fd = -1;
	k->broker->retain.nactive--;
}

static void copy_free(struct retain_copy *k)
{
	hang_up(k);
	loop_timer_clear(&k->broker->loop, &k->limit);
	frames_done(&k->answer);
	parcel_done(&k->own);
	parcel_done(&k->redacted);
	free(k);
}

/* One line when it begins to fail, not one for every command. */
static void count(struct retain *r, const char *trouble)
{
	if (trouble && !r->is_failing)
		log_error("retain", "error=\"%s\"", trouble);
	r->is_failing = trouble != NULL;
	if (trouble)
		r->failed++;
	else
		r->kept++;
}

/* The end of @k, one way or the other. */
static void settle(struct retain_copy *k, const char *trouble)
{
	struct retain *r = &k->broker->retain;
	struct retain_copy **p = &r->first;

	while (*p != k)
		p = &(*p)->next;
	*p = k->next;
	r->nwaiting--;
	count(r, trouble);
	copy_free(k);
}

/* --- What they answer */

static bool says_true(const char *buf, size_t len, const char *key)
{
	struct err e;
	auto_json json_t *v = json_parse_strict(buf, len, 1, &e);

	return v && json_object_size(v) == 1 && json_is_true(json_object_get(v, key));
}

static int on_frame(void *ctx, enum frame_kind kind, const char *buf, size_t len, struct err *e)
{
	struct retain_copy *k = ctx;

	if (kind == FRAME_ACCEPTED)
		return 0;
	if (kind == FRAME_RESULT)
		return says_true(buf, len, "redacted") ? 0 : err_set(e, EPROTO, "not redacted");
	return parcel_put(&k->redacted, kind, (const uint8_t *)buf, len) ?
		       0 :
		       err_set(e, ENOMEM, "too much");
}

/* 1: it is answered as it should be. 0: not yet. < 0: nothing may be kept. */
static int take_redacted(struct retain_copy *k, const char *buf, size_t len)
{
	struct err e;

	if (k->came > 2 * k->own.len + RETAIN_ANSWER_MORE ||
	    frames_feed(&k->answer, buf, len, &e) < 0)
		return -EPROTO;
	if (!k->answer.is_over)
		return 0;
	/* Not before it had read everything, and nothing behind the end. */
	return k->at == k->own.len && k->answer.head_len == 0 ? 1 : -EPROTO;
}

static int take_line(struct retain_copy *k, const char *buf, size_t len)
{
	if (k->came > sizeof(k->line))
		return -EPROTO;
	memcpy(k->line + k->came - len, buf, len);
	const char *end = memchr(k->line, '\n', k->came);
	if (!end)
		return 0;
	size_t n = (size_t)(end - k->line);
	return n + 1 == k->came && k->at == k->own.len && says_true(k->line, n, "retained") ?
		       1 :
		       -EPROTO;
}

/* --- Connections */

static int send_some(struct retain_copy *k)
{
	for (int i = 0; i < SENDS_AT_ONCE && k->at < k->own.len; i++) {
		ssize_t n = send(k->fd, k->own.buf + k->at, k->own.len - k->at,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		k->at += (size_t)n;
	}
	if (k->at == k->own.len)
		loop_change(&k->broker->loop, &k->watch, EPOLLIN);
	return 0;
}

static int read_some(struct retain_copy *k)
{
	char *buf = (char *)k->broker->scratch;
	ssize_t n = recv(k->fd, buf, BROKER_SCRATCH, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	k->came += (size_t)n;
	return k->is_for_sink ? take_line(k, buf, (size_t)n) : take_redacted(k, buf, (size_t)n);
}

/* What came back takes the place of what was sent. */
static bool turn_to_sink(struct retain_copy *k)
{
	hang_up(k);
	parcel_done(&k->own);
	k->own = k->redacted;
	memset(&k->redacted, 0, sizeof(k->redacted));
	k->at = k->came = 0;
	k->is_for_sink = true;
	return parcel_end(&k->own, k->is_truncated);
}

static void pump(struct broker *b);

static void on_event(struct watch *w, uint32_t events)
{
	struct retain_copy *k = CONTAINER_OF(w, struct retain_copy, watch);
	struct broker *b = k->broker;
	const char *what = k->is_for_sink ? "the sink did not take it" : "the redactor failed";
	int rc = events & EPOLLOUT ? send_some(k) : 0;

	if (rc == 0 && (events & ~(uint32_t)EPOLLOUT))
		rc = read_some(k);
	if (rc < 0)
		settle(k, what);
	else if (rc > 0 && k->is_for_sink)
		settle(k, NULL);
	else if (rc > 0 && !turn_to_sink(k))
		settle(k, "out of memory");
	pump(b);
}

/* 0, or why not; -EAGAIN: there is a queue at the door. */
static int dial(struct retain_copy *k, const char *path)
{
	struct broker *b = k->broker;
	struct err e;

	autoclose int fd = fd_dial(path, SOCK_STREAM | SOCK_NONBLOCK, &e);
	if (fd < 0)
		return fd;
	if (!k->is_for_sink && !k->redacted.buf &&
	    !parcel_begin(&k->redacted, &b->retain.bytes, (const char *)k->own.buf + FRAME_HEAD,
			  k->own.first))
		return -ENOMEM;
	if (loop_watch(&b->loop, &k->watch, fd, EPOLLIN | EPOLLOUT, on_event, &e) < 0)
		return -e.code;
	k->fd = take_fd(&fd);
	b->retain.nactive++;
	return 0;
}

static void on_retry(struct timer *t)
{
	pump(CONTAINER_OF(t, struct broker, retain.retry));
}

static void pump(struct broker *b)
{
	struct retain *r = &b->retain;

	for (struct retain_copy *k = r->first, *next; k && r->nactive < RETAIN_AT_ONCE; k = next) {
		next = k->next;
		if (k->fd >= 0)
			continue;
		int rc = dial(k, k->is_for_sink ? b->config.retain : b->config.redact);
		if (rc == -EAGAIN) {
			loop_timer_set(&b->loop, &r->retry, RETRY_MS, on_retry);
			return;
		}
		if (rc < 0)
			settle(k, k->is_for_sink ? "no sink" : "no redactor");
	}
}

static void on_limit(struct timer *t)
{
	struct retain_copy *k = CONTAINER_OF(t, struct retain_copy, limit);
	struct broker *b = k->broker;

	settle(k, k->is_for_sink ? "the sink is slow" : "the redactor is slow");
	pump(b);
}

/* --- The command's side */

void retain_drop(struct command *c)
{
	if (c->copy)
		copy_free(c->copy);
	c->copy = NULL;
}

static void lose(struct command *c, const char *why)
{
	retain_drop(c);
	count(&c->broker->retain, why);
}

static void on_output(struct output *o, const uint8_t *buf, size_t len)
{
	struct command *c = o->tap_ctx;
	enum frame_kind kind = o == &c->out[OUT_STDOUT] ? FRAME_STDOUT : FRAME_STDERR;

	if (c->copy && !parcel_put(&c->copy->own, kind, buf, len))
		lose(c, "too much output at once");
}

void retain_begin(struct command *c)
{
	struct broker *b = c->broker;
	size_t len = 0;

	if (!b->config.retain[0] || command_is_own(c))
		return;
	auto_json json_t *v = json_pack("{s:s, s:s, s:s}", "jobId", c->job_id, "commandId", c->id,
					"orgId", c->job->org_id);
	autofree char *text = v ? json_dump_compact(v, &len) : NULL;
	c->copy = calloc(1, sizeof(*c->copy));
	if (c->copy)
		*c->copy = (struct retain_copy){ .broker = b,
						 .fd = -1,
						 .is_for_sink = strcmp(b->config.redact, "none") == 0,
						 .answer = { .on_frame = on_frame,
							     .ctx = c->copy,
							     .json_max = 4096 } };
	if (!text || !c->copy || !parcel_begin(&c->copy->own, &b->retain.bytes, text, len)) {
		lose(c, "out of memory");
		return;
	}
	for (unsigned i = 0; i < OUT_STREAMS; i++) {
		c->out[i].tap = on_output;
		c->out[i].tap_ctx = c;
	}
}

void retain_end(struct command *c)
{
	struct broker *b = c->broker;
	struct retain *r = &b->retain;
	struct retain_copy *k = c->copy, **p = &r->first;

	if (!k || c->is_denied || !c->has_done)
		return; /* command_free() drops it */
	for (unsigned i = 0; i < OUT_STREAMS; i++)
		k->is_truncated[i] = c->out[i].is_truncated;
	if (r->nwaiting == RETAIN_WAITING_MAX) {
		lose(c, "too many wait");
		return;
	}
	if (!parcel_end(&k->own, k->is_truncated)) {
		lose(c, "out of memory");
		return;
	}
	c->copy = NULL;
	while (*p)
		p = &(*p)->next;
	*p = k;
	r->nwaiting++;
	loop_timer_set(&b->loop, &k->limit, RETAIN_LIMIT_MS, on_limit);
	pump(b);
}

json_t *retain_health(const struct broker *b)
{
	const struct retain *r = &b->retain;

	if (!b->config.retain[0])
		return json_null();
	return json_pack("{s:I, s:I, s:i}", "kept", (json_int_t)r->kept, "failed",
			 (json_int_t)r->failed, "waiting", (int)r->nwaiting);
}
