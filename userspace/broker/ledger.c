/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to the ledger: one list of letters in order, sent as far as the
 * socket takes them, taken off when answered. Knows no row's meaning.
 */
#include "broker/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "digest/digest.h"
#include "json/json.h"

enum { STATE_NEW = 1u << 0, STATE_READY = 1u << 1 };

struct letter {
	struct letter *prev, *next;
	ledger_answer fn;
	void *ctx;
	uint16_t type;
	bool is_kept, is_sent, is_failed;
	uint32_t len;
	struct ledger_head head; /* the body of the message begins here */
	char json[];
};

int ledger_init(struct ledger_link *l, struct loop *loop, struct msg *buf, struct err *e)
{
	uint8_t id[16];

	memset(l, 0, sizeof(*l));
	l->loop = loop;
	l->buf = buf;
	l->fd = -1;
	if (digest_random(id, sizeof(id)) < 0)
		return err_set(e, EIO, "no random bytes");
	digest_hex(id, sizeof(id), l->broker_id);
	return 0;
}

bool ledger_is_up(const struct ledger_link *l)
{
	return l->fd >= 0 && l->is_ready && !l->is_broken && !l->is_silent;
}

bool ledger_is_idle(const struct ledger_link *l)
{
	return l->nwaiting == 0;
}

/* --- The list */

static void append(struct ledger_link *l, struct letter *t)
{
	t->prev = l->tail;
	t->next = NULL;
	*(l->tail ? &l->tail->next : &l->head) = t;
	l->tail = t;
	if (!l->unsent)
		l->unsent = t;
	l->nwaiting++;
	l->nawaited += t->fn != NULL;
}

static void take_out(struct ledger_link *l, struct letter *t)
{
	if (l->unsent == t)
		l->unsent = t->next;
	*(t->prev ? &t->prev->next : &l->head) = t->next;
	*(t->next ? &t->next->prev : &l->tail) = t->prev;
	l->nwaiting--;
	l->nawaited -= t->fn != NULL;
	l->nsent -= t->is_sent;
}

static void end(struct ledger_link *l, struct letter *t, enum ledger_msg how, const json_t *result)
{
	take_out(l, t);
	if (how == L_ERROR)
		l->failures++;
	if (t->fn)
		t->fn(t->ctx, how, result);
	free(t);
}

/* Tells those who wait for the marked ones; what is kept stays. Any callback may change the list. */
static void fail_marked(struct ledger_link *l)
{
	for (struct letter *t = l->head; t;) {
		if (!t->is_failed) {
			t = t->next;
			continue;
		}
		ledger_answer fn = t->fn;
		void *ctx = t->ctx;
		t->is_failed = false;
		l->nawaited -= fn != NULL;
		t->fn = NULL;
		if (!t->is_kept) {
			take_out(l, t);
			free(t);
			l->failures++;
		}
		if (fn)
			fn(ctx, L_ERROR, NULL);
		t = l->head;
	}
}

/* Letters nobody keeps end with the ledger they were sent to. */
static void end_unkept(struct ledger_link *l)
{
	for (struct letter *t = l->head; t; t = t->next) {
		t->is_sent = false;
		t->is_failed = !t->is_kept;
	}
	l->nsent = 0;
	l->unsent = l->head;
	fail_marked(l);
}

static void collect(struct ledger_link *l);

static void lose(struct ledger_link *l)
{
	if (l->fd < 0)
		return;
	loop_unwatch(l->loop, &l->watch);
	loop_timer_clear(l->loop, &l->collect);
	close(l->fd);
	l->fd = -1;
	l->is_ready = l->is_silent = false;
	l->heard_ms = clock_monotonic_ms(); /* the next one has its time */
	end_unkept(l);
}

/* --- Sending */

static void on_collect_time(struct timer *t)
{
	struct ledger_link *l = CONTAINER_OF(t, struct ledger_link, collect);

	collect(l);
}

/*
 * That a row is written, which nobody waits for (A6), need not be known at once: one look in a
 * while takes in what came. A ledger that dies is heard of all the same.
 */
static void watch_for(struct ledger_link *l)
{
	bool is_awaited = l->nawaited || l->is_hurried || l->is_silent ||
			  l->nsent > LEDGER_SENT_MAX / 2;
	bool has_more = ledger_is_up(l) && l->unsent && l->nsent < LEDGER_SENT_MAX;

	loop_change(l->loop, &l->watch,
		    (is_awaited || !l->is_ready ? EPOLLIN : 0) | (has_more ? EPOLLOUT : 0));
	if (!is_awaited && l->nsent && !l->collect.is_set)
		loop_timer_set(l->loop, &l->collect, LEDGER_COLLECT_MS, on_collect_time);
}

void ledger_hurry(struct ledger_link *l)
{
	l->is_hurried = true;
}

void ledger_flush(struct ledger_link *l)
{
	while (ledger_is_up(l) && l->unsent && l->nsent < LEDGER_SENT_MAX) {
		struct letter *t = l->unsent;
		struct err e = { 0 };
		int rc = msg_send(l->fd, t->type, &t->head, sizeof(t->head) + t->len, NULL, 0, &e);
		if (rc == -EAGAIN)
			break;
		if (rc < 0) {
			log_error("ledger_send", "error=\"%s\"", e.msg);
			/* The loop finds the end and tells the others: never out of a caller's call. */
			l->is_broken = true;
			shutdown(l->fd, SHUT_RDWR);
			return;
		}
		t->is_sent = true;
		l->nsent++;
		l->unsent = t->next;
	}
	if (l->fd >= 0)
		watch_for(l);
}

/* --- Patience */

/* A verification takes as long as it takes; meanwhile the ledger answers others. */
static bool waits_for_the_slow_alone(const struct ledger_link *l)
{
	for (const struct letter *t = l->head; t; t = t->next)
		if (t->type != L_VERIFY)
			return false;
	return true;
}

static void on_patience(struct timer *timer)
{
	struct ledger_link *l = CONTAINER_OF(timer, struct ledger_link, patience);
	uint64_t quiet_ms = clock_monotonic_ms() - l->heard_ms;

	if (l->nwaiting == 0)
		return;
	if (quiet_ms < LEDGER_PATIENCE_MS) {
		loop_timer_set(l->loop, timer, LEDGER_PATIENCE_MS - quiet_ms, on_patience);
		return;
	}
	if (ledger_is_up(l) && waits_for_the_slow_alone(l)) {
		auto_json json_t *ping = json_object();
		if (ping && ledger_send(l, L_HEALTH, ping, 0, NULL, NULL))
			return; /* which has armed this again */
	}
	if (l->fd >= 0 && !l->is_silent)
		log_error("ledger_silent", "waiting=%zu quiet_ms=%llu", l->nwaiting,
			  (unsigned long long)quiet_ms);
	l->is_silent = l->fd >= 0;
	for (struct letter *t = l->head; t; t = t->next)
		t->is_failed = t->fn || !t->is_kept;
	fail_marked(l);
}

static void heard(struct ledger_link *l)
{
	l->heard_ms = clock_monotonic_ms();
	if (!l->is_silent)
		return;
	l->is_silent = false;
	log_info("ledger", "heard again waiting=%zu", l->nwaiting);
	if (l->on_heard)
		l->on_heard(l);
}

/* Room for one more: the oldest row that nobody waits for makes way. */
static bool make_room(struct ledger_link *l)
{
	if (l->nwaiting < LEDGER_WAITING_MAX)
		return true;
	for (struct letter *t = l->head; t; t = t->next)
		if (!t->fn && !t->is_sent) {
			take_out(l, t);
			free(t);
			l->lost++;
			return true;
		}
	return false;
}

uint64_t ledger_send(struct ledger_link *l, enum ledger_msg type, const json_t *body,
		     unsigned flags, ledger_answer fn, void *ctx)
{
	bool is_kept = flags & LETTER_KEPT;
	size_t len;
	autofree char *text = json_dump_compact(body, &len);

	if (!text || len > LEDGER_JSON_MAX || (!is_kept && !ledger_is_up(l)) || !make_room(l)) {
		l->lost += is_kept;
		return 0;
	}
	struct letter *t = malloc(sizeof(*t) + len);
	if (!t) {
		l->lost += is_kept;
		return 0;
	}
	*t = (struct letter){ .fn = fn, .ctx = ctx, .type = (uint16_t)type, .is_kept = is_kept };
	t->len = (uint32_t)len;
	t->head.req = ++l->last_req;
	memcpy(t->json, text, len);
	uint64_t req = t->head.req;
	if (l->nwaiting == 0)
		l->heard_ms = clock_monotonic_ms();
	if (!l->patience.is_set)
		loop_timer_set(l->loop, &l->patience, LEDGER_PATIENCE_MS, on_patience);
	append(l, t); /* ledger_flush() sends it, after the answers that can leave */
	return req;
}

void ledger_forget(struct ledger_link *l, uint64_t req)
{
	for (struct letter *t = l->head; t && req; t = t->next)
		if (t->head.req == req) {
			l->nawaited -= t->fn != NULL;
			t->fn = NULL;
			return;
		}
}

/* --- Receiving */

static int read_body(struct msg *m, struct ledger_head *head, json_t **ret, struct err *e)
{
	memcpy(head, m->body, sizeof(*head));
	*ret = NULL;
	if (m->len == sizeof(*head))
		return 0;
	*ret = json_parse_strict((const char *)m->body + sizeof(*head), m->len - sizeof(*head), 16,
				 e);
	return *ret ? 0 : -EPROTO;
}

static int on_ready(void *ctx, struct msg *m, struct err *e)
{
	struct ledger_link *l = ctx;
	struct ledger_head head;
	auto_json json_t *body = NULL;

	if (read_body(m, &head, &body, e) < 0)
		return -EPROTO;
	struct ledger_head hello = { .req = ++l->last_req };
	char text[128];
	memcpy(text, &hello, sizeof(hello));
	int n = snprintf(text + sizeof(hello), sizeof(text) - sizeof(hello),
			 "{\"broker\":\"%s\"}", l->broker_id);
	if (msg_send(l->fd, L_HELLO, text, sizeof(hello) + (size_t)n, NULL, 0, e) < 0)
		return -EPROTO;
	l->is_ready = true;
	if (l->on_ready)
		l->on_ready(l, body);
	return 0;
}

static int on_answer(void *ctx, struct msg *m, struct err *e)
{
	struct ledger_link *l = ctx;
	struct ledger_head head;
	auto_json json_t *body = NULL;
	uint16_t type = m->type;

	if (read_body(m, &head, &body, e) < 0)
		return -EPROTO;
	if (type == L_ERROR)
		log_error("ledger_error", "req=%llu error=%s text=\"%.120s\"",
			  (unsigned long long)head.req,
			  json_string_value(json_object_get(body, "error")) ?: "-",
			  json_string_value(json_object_get(body, "text")) ?: "-");
	for (struct letter *t = l->head; t; t = t->next)
		if (t->head.req == head.req && t->is_sent) {
			end(l, t, type, body);
			break;
		}
	return 0;
}

enum { HEAD = sizeof(struct ledger_head), BODY_MAX = MSG_BODY_MAX };

static const struct msg_permit permits[] = {
	/* type, states, length, descriptors, handler */
	{ L_READY, STATE_NEW, HEAD, BODY_MAX, 0, 0, on_ready },
	{ L_OK, STATE_READY, HEAD, HEAD, 0, 0, on_answer },
	{ L_RESULT, STATE_READY, HEAD, BODY_MAX, 0, 0, on_answer },
	{ L_ERROR, STATE_READY, HEAD, BODY_MAX, 0, 0, on_answer },
};

/* One message. False: there is none, or no ledger any more. */
static bool take_one(struct ledger_link *l)
{
	struct err e = { 0 };
	int rc = msg_recv(l->fd, l->buf, &e);

	if (rc == -EAGAIN)
		return false;
	if (rc > 0)
		heard(l);
	if (rc > 0 && msg_dispatch(permits, ARRAY_SIZE(permits),
				   l->is_ready ? STATE_READY : STATE_NEW, l, l->buf, &e) < 0)
		rc = -EPROTO;
	if (rc <= 0) {
		log_error("ledger_lost", "error=\"%s\"", rc ? e.msg : "it is gone");
		lose(l);
	}
	return rc > 0;
}

/* What has been answered: no more than was asked. */
static void collect(struct ledger_link *l)
{
	for (size_t n = l->nsent; n > 0 && l->fd >= 0 && l->nsent > 0; n--)
		if (!take_one(l))
			return;
}

static void on_event(struct watch *watch, uint32_t events)
{
	if (events != EPOLLOUT) /* that: there is room, and the loop flushes */
		take_one(CONTAINER_OF(watch, struct ledger_link, watch));
}

int ledger_connect(struct ledger_link *l, int fd, struct err *e)
{
	lose(l);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		close(fd);
		return err_set(e, errno, "ledger: %s", strerror(errno));
	}
	if (loop_watch(l->loop, &l->watch, fd, EPOLLIN, on_event, e) < 0) {
		close(fd);
		return -e->code;
	}
	l->fd = fd;
	l->is_ready = l->is_broken = l->is_silent = false;
	return 0;
}
