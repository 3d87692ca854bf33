/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: requests of the broker into batches, outcomes into answers, words
 * of cordond. While answers cannot leave, nothing more is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "config/start.h"
#include "json/json.h"
#include "ledger/batch.h"
#include "wire/msg.h"

enum { OUTBOX_MAX = BATCH_MAX + 8 };

struct answer {
	uint16_t type;
	size_t len;
	uint8_t *body; /* head and JSON */
};

struct server {
	struct ledger *l;
	int broker; /* -1: none now */
	bool is_ended;
	struct answer out[OUTBOX_MAX];
	size_t out_first, out_end;
	struct batch batch;
	struct msg msg; /* of cordond */
	struct msg inbox[MSG_MANY];
};

static void drop_broker(struct server *s, const char *why)
{
	if (s->broker < 0)
		return;
	log_info("broker_gone", "%s", why);
	close(s->broker);
	s->broker = -1;
	s->l->is_hello_said = false;
	for (; s->out_first < s->out_end; s->out_first++)
		free(s->out[s->out_first].body);
	s->out_first = s->out_end = 0;
	verify_abandon(s->l);
}

/* What is in the outbox, as long as the socket takes it. */
static void flush(struct server *s)
{
	struct err e;

	while (s->broker >= 0 && s->out_first < s->out_end) {
		struct answer *a = &s->out[s->out_first];
		int rc = msg_send(s->broker, a->type, a->body, a->len, NULL, 0, &e);
		if (rc == -EAGAIN)
			return;
		if (rc < 0) {
			drop_broker(s, e.msg);
			return;
		}
		free(a->body);
		s->out_first++;
	}
	s->out_first = s->out_end = 0;
}

/* Queues an answer; takes @json (NULL: the head alone). */
static void answer(struct server *s, uint16_t type, uint64_t req, json_t *json)
{
	struct ledger_head h = { .req = req };
	size_t len = 0;
	auto_json json_t *owned = json;
	autofree char *text = json ? json_dump_compact(json, &len) : NULL;

	if (s->broker < 0)
		return;
	if (s->out_end == OUTBOX_MAX || (json && !text) || len > LEDGER_JSON_MAX) {
		drop_broker(s, "an answer could not be made");
		return;
	}
	uint8_t *body = malloc(sizeof(h) + len);
	if (!body) {
		drop_broker(s, "out of memory");
		return;
	}
	memcpy(body, &h, sizeof(h));
	if (len)
		memcpy(body + sizeof(h), text, len);
	s->out[s->out_end++] = (struct answer){ type, sizeof(h) + len, body };
}

static const char *error_word(int code)
{
	return code == -EINVAL			       ? "invalid" :
	       code == -EEXIST || code == -EBADMSG ? "conflict" :
							 "unavailable";
}

static void answer_request(struct server *s, struct request *r)
{
	if (r->req == 0 || r->is_deferred)
		return;
	if (r->code < 0)
		answer(s, L_ERROR, r->req,
		       json_pack("{s:s, s:s}", "error", error_word(r->code), "text", r->why.msg));
	else if (r->result)
		answer(s, L_RESULT, r->req, json_incref(r->result));
	else
		answer(s, L_OK, r->req, NULL);
}

static void run_batch(struct server *s)
{
	if (s->batch.n == 0)
		return;
	batch_run(s->l, &s->batch);
	for (size_t i = 0; i < s->batch.n; i++)
		answer_request(s, &s->batch.r[i]);
	batch_clear(&s->batch);
	flush(s);
}

static int on_request(void *ctx, struct msg *m, struct err *e)
{
	struct server *s = ctx;

	(void)e;
	batch_add(s->l, &s->batch, m->type, m->body, m->len);
	return 0;
}

#define REQUEST(type) { type, 1, sizeof(struct ledger_head), MSG_BODY_MAX, 0, 0, on_request }
static const struct msg_permit requests[] = {
	REQUEST(L_HELLO),   REQUEST(L_ROW),	  REQUEST(L_INTENT),   REQUEST(L_QUERY),
	REQUEST(L_RECEIPT), REQUEST(L_VERIFY),	  REQUEST(L_COMMAND_ID), REQUEST(L_EXPORT),
	REQUEST(L_ACK),	    REQUEST(L_EXPORT_DROP), REQUEST(L_HEALTH), REQUEST(L_NONCE),
	REQUEST(L_RUN_SET), REQUEST(L_RUN_GET),	  REQUEST(L_RUN_LIST), REQUEST(L_RUN_DROP),
	REQUEST(L_KEEP),    REQUEST(L_KEPT),	  REQUEST(L_RETAIN),
};

/* What came together into the batch. NULL, or why the broker is not to be spoken to again. */
static const char *take_in(struct server *s, int n, struct err *e)
{
	const char *gone = NULL;

	for (int i = 0; i < n; i++)
		if (gone)
			msg_close_fds(&s->inbox[i]);
		else if (msg_dispatch(requests, ARRAY_SIZE(requests), 1, s, &s->inbox[i], e) < 0)
			gone = e->msg;
	return gone;
}

/* Everything that is there now, at most a batch. False: nothing was there, or nobody is. */
static bool receive_batch(struct server *s)
{
	const char *gone = NULL;
	bool is_drained = false;
	struct err e;

	while (s->broker >= 0 && !gone && !is_drained && !batch_is_full(&s->batch)) {
		unsigned max = batch_room(&s->batch);
		int n = msg_recv_many(s->broker, s->inbox, max, &e);
		if (n == -EAGAIN)
			break;
		if (n > 0)
			gone = take_in(s, n, &e);
		else
			gone = n < 0 ? e.msg : "it closed";
		is_drained = n < (int)max;
	}
	bool any = s->batch.n > 0;
	run_batch(s);
	if (gone)
		drop_broker(s, gone);
	return any;
}

static int set_nonblocking(int fd, struct err *e)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_set(e, errno, "broker's socket: %s", strerror(errno));
	return 0;
}

/* Takes @fd. */
static int attach_broker(struct server *s, int fd, struct err *e)
{
	drop_broker(s, "it is replaced");
	if (fd < 0)
		return 0;
	if (set_nonblocking(fd, e) < 0) {
		close(fd);
		return -e->code;
	}
	s->broker = fd;
	answer(s, L_READY, 0,
	       json_pack("{s:s, s:I}", "mode", s->l->is_required ? "required" : "default",
			 "lastSequence", (json_int_t)s->l->store.head.sequence));
	flush(s);
	return 0;
}

static int on_peer(void *ctx, struct msg *m, struct err *e)
{
	struct server *s = ctx;
	enum supervisor_fd kind;
	int fd = start_peer(m, &kind, e);

	if (fd < 0)
		return fd;
	if (kind != SFD_BROKER) {
		close(fd);
		return err_set(e, EPROTO, "a peer that the ledger does not have");
	}
	while (receive_batch(s))
		; /* what the old one had said */
	return attach_broker(s, fd, e);
}

/* Keys and mode, both or neither. */
static int reload(struct ledger *l, struct msg *m, struct err *e)
{
	struct config c;

	if (start_reload(m, &c, e) < 0 || ledger_load_keys(l, e) < 0)
		return -e->code;
	bool is_required = c.audit == AUDIT_REQUIRED;
	if (l->store.db && store_set_required(&l->store, is_required, e) < 0)
		return -e->code;
	l->is_required = is_required;
	l->retention_ms = c.audit_retention_ms;
	l->retain_at_ms = 0;
	return 0;
}

static int on_reload(void *ctx, struct msg *m, struct err *e)
{
	struct server *s = ctx;
	struct err why;
	bool failed = reload(s->l, m, &why) < 0;

	if (failed)
		log_error("reload", "%s", why.msg);
	return start_reloaded(failed ? &why : NULL, e);
}

static int on_stop(void *ctx, struct msg *m, struct err *e)
{
	struct server *s = ctx;

	(void)m;
	(void)e;
	s->is_ended = true;
	return 0;
}

static const struct msg_permit orders[] = {
	{ S_PEER, 1, sizeof(struct s_start), sizeof(struct s_start), 1, 1, on_peer },
	{ S_RELOAD, 1, sizeof(struct s_start), sizeof(struct s_start), 1, 1, on_reload },
	{ S_STOP, 1, 0, sizeof(struct s_stop), 0, 0, on_stop },
};

static int obey(struct server *s, struct err *e)
{
	int rc = msg_recv(SUPERVISOR_FD, &s->msg, e);

	if (rc == 0) {
		log_info("supervisor_gone", "ending");
		s->is_ended = true;
		return 0;
	}
	if (rc > 0)
		rc = msg_dispatch(orders, ARRAY_SIZE(orders), 1, s, &s->msg, e);
	return rc < 0 ? rc : 0;
}

static int wait_ms(uint64_t at_ms, uint64_t now_ms, bool is_busy)
{
	if (is_busy)
		return 0;
	if (!at_ms)
		return -1;
	return at_ms <= now_ms ? 0 : (int)(at_ms - now_ms);
}

static void verify_some(struct server *s)
{
	json_t *result;
	uint64_t req;

	verify_turn(s->l, &req, &result);
	if (result)
		answer(s, L_RESULT, req, result);
	flush(s);
}

static int turn(struct server *s, struct err *e)
{
	bool is_stuck = s->out_first < s->out_end;
	struct pollfd p[] = {
		{ .fd = SUPERVISOR_FD, .events = POLLIN },
		{ .fd = s->broker, .events = is_stuck ? POLLOUT : POLLIN },
	};
	uint64_t now = clock_monotonic_ms();
	uint64_t next = due_run(s->l, now);
	bool is_busy = s->l->verify_waiting > 0 && !is_stuck;

	if (poll(p, 2, wait_ms(next, now, is_busy)) < 0 && errno != EINTR)
		return err_set(e, errno, "poll: %s", strerror(errno));
	if (p[1].revents) {
		flush(s);
		if (s->out_first == s->out_end)
			receive_batch(s);
	}
	if (is_busy)
		verify_some(s);
	return p[0].revents ? obey(s, e) : 0;
}

int serve(struct ledger *l, int broker_fd, struct err *e)
{
	autofree struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(e, ENOMEM, "serve: out of memory");
	s->l = l;
	s->broker = -1;
	int rc = attach_broker(s, broker_fd, e);
	while (rc == 0 && !s->is_ended)
		rc = turn(s, e);
	while (receive_batch(s))
		; /* nothing that was said is lost by an orderly end */
	drop_broker(s, "the ledger ends");
	return rc;
}
