/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions on their way to the operator's liveness probe: who is connected,
 * who waits for a turn, and until when. Knows no command and judges nothing;
 * whatever goes wrong with a question is its own end and no other's.
 */
#include "broker/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"

enum { RETRY_MS = 20 };

struct probe_question {
	struct broker *broker;
	struct probe_question *prev, *next;
	struct org *org;
	probe_fn fn;
	void *ctx;
	int fd; /* -1: waits for its turn */
	struct watch watch;
	struct timer limit;
	const char *failed; /* why, where it failed before anybody could be told */
	char *text;	    /* the question */
	size_t len, sent, came;
	char id[PROBE_ID_LEN + 1];
	char answer[PROBE_ANSWER_MAX];
};

/* --- The list */

static void hang_up(struct probe_question *q)
{
	if (q->fd < 0)
		return;
	loop_unwatch(&q->broker->loop, &q->watch);
	scope_close(&q->fd);
	q->fd = -1;
	q->broker->probe.nactive--;
	if (q->org)
		q->org->nasked--;
}

static void append(struct probe *p, struct probe_question *q)
{
	q->prev = p->last;
	*(p->last ? &p->last->next : &p->first) = q;
	p->last = q;
	p->nquestions++;
}

static void take_out(struct probe *p, struct probe_question *q)
{
	*(q->prev ? &q->prev->next : &p->first) = q->next;
	*(q->next ? &q->next->prev : &p->last) = q->prev;
	p->nquestions--;
}

static void pump(struct broker *b);

static void on_turn(struct timer *t)
{
	pump(CONTAINER_OF(t, struct broker, probe.retry));
}

/* Others may have their turn now; never out of a caller's call. */
static void turn(struct broker *b, uint64_t in_ms)
{
	struct probe *p = &b->probe;

	if (p->nquestions > p->nactive && !p->retry.is_set)
		loop_timer_set(&b->loop, &p->retry, in_ms, on_turn);
}

void probe_forget(struct probe_question *q)
{
	if (!q)
		return;
	struct broker *b = q->broker;
	hang_up(q);
	take_out(&b->probe, q);
	loop_timer_clear(&b->loop, &q->limit);
	free(q->text);
	free(q);
	turn(b, 0);
}

/* One line when it begins to fail, and one when it is over. */
static void count(struct broker *b, const char *trouble)
{
	struct probe *p = &b->probe;

	if (trouble)
		p->failed++;
	else
		p->answered++;
	if (!trouble == !p->trouble) {
		p->trouble = trouble;
		return;
	}
	p->trouble = trouble;
	b->health.at_ms = 0; /* what health knows of it is old */
	if (trouble)
		log_error("run_probe", "error=\"%s\"", trouble);
	else
		log_info("run_probe", "answers");
}

static void end(struct probe_question *q, const struct liveness_record *r, const char *trouble)
{
	probe_fn fn = q->fn;
	void *ctx = q->ctx;

	count(q->broker, trouble);
	probe_forget(q);
	fn(ctx, r, trouble);
}

/* --- One connection */

static int send_some(struct probe_question *q)
{
	ssize_t n = send(q->fd, q->text + q->sent, q->len - q->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	q->sent += (size_t)n;
	if (q->sent == q->len)
		loop_change(&q->broker->loop, &q->watch, EPOLLIN);
	return 0;
}

static void read_some(struct probe_question *q)
{
	struct liveness_record r;
	struct err e = { 0 };
	auto_json json_t *v = NULL;
	ssize_t n = recv(q->fd, q->answer + q->came, sizeof(q->answer) - q->came, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end(q, NULL, "the liveness probe hung up");
		return;
	}
	q->came += (size_t)n;
	int rc = probe_line_read(q->answer, q->came, q->id, &v, &r, &e);
	if (rc == 0)
		return;
	/* Not before it had read the question. */
	if (rc < 0 || q->sent < q->len)
		end(q, NULL, "the liveness probe's answer is none");
	else
		end(q, &r, NULL);
}

static void on_event(struct watch *w, uint32_t events)
{
	struct probe_question *q = CONTAINER_OF(w, struct probe_question, watch);

	if ((events & EPOLLOUT) && send_some(q) < 0) {
		end(q, NULL, "the liveness probe hung up");
		return;
	}
	if (events & ~(uint32_t)EPOLLOUT)
		read_some(q);
}

/* 0, or why not; -EAGAIN: there is a queue at the door. */
static int dial(struct probe_question *q)
{
	struct broker *b = q->broker;
	struct err e;

	autoclose int fd = fd_dial(b->config.run_probe, SOCK_STREAM | SOCK_NONBLOCK, &e);
	if (fd < 0)
		return fd;
	if (loop_watch(&b->loop, &q->watch, fd, EPOLLIN | EPOLLOUT, on_event, &e) < 0)
		return -e.code;
	q->fd = take_fd(&fd);
	b->probe.nactive++;
	if (q->org)
		q->org->nasked++;
	return 0;
}

static void on_limit(struct timer *t)
{
	struct probe_question *q = CONTAINER_OF(t, struct probe_question, limit);

	end(q, NULL, q->failed ? q->failed : "the liveness probe does not answer in time");
}

static void pump(struct broker *b)
{
	struct probe *p = &b->probe;

	for (struct probe_question *q = p->first; q && p->nactive < PROBE_AT_ONCE; q = q->next) {
		if (q->fd >= 0 || q->failed || (q->org && q->org->nasked >= PROBE_AT_ONCE_PER_ORG))
			continue;
		int rc = dial(q);
		if (rc == -EAGAIN) {
			turn(b, RETRY_MS);
			return;
		}
		if (rc < 0) { /* told by the loop, not out of a caller's call */
			q->failed = "there is no liveness probe";
			loop_timer_set(&b->loop, &q->limit, 0, on_limit);
		}
	}
}

struct probe_question *probe_ask(struct broker *b, const struct probe_subject *s, struct org *org,
				 probe_fn fn, void *ctx)
{
	struct probe_question *q = calloc(1, sizeof(*q));
	uint8_t random[PROBE_ID_LEN / 2];

	if (!q || digest_random(random, sizeof(random)) < 0) {
		free(q);
		return NULL;
	}
	digest_hex(random, sizeof(random), q->id);
	q->text = probe_line_ask(q->id, s, &q->len);
	if (!q->text) {
		free(q);
		return NULL;
	}
	q->broker = b;
	q->org = org;
	q->fn = fn;
	q->ctx = ctx;
	q->fd = -1;
	append(&b->probe, q);
	loop_timer_set(&b->loop, &q->limit, b->config.run_probe_ms, on_limit);
	pump(b);
	return q;
}

json_t *probe_health(const struct broker *b)
{
	const struct probe *p = &b->probe;

	if (!b->config.run_probe[0])
		return json_null();
	return json_pack("{s:I, s:I, s:i}", "answered", (json_int_t)p->answered, "failed",
			 (json_int_t)p->failed, "waiting", (int)p->nquestions);
}
