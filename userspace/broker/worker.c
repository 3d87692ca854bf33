/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to the worker. A packet that the table does not allow, or a full
 * socket, ends the link: a worker that is not understood is not spoken to.
 */
#include "broker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/scope.h"

enum { STATE_NEW = 1u << 0, STATE_READY = 1u << 1 };

void worker_init(struct worker_link *w, struct loop *l, struct msg *buf)
{
	memset(w, 0, sizeof(*w));
	w->loop = l;
	w->buf = buf;
	w->fd = -1;
}

bool worker_is_up(const struct worker_link *w)
{
	return w->fd >= 0 && w->is_ready && !w->is_broken;
}

static void lose(struct worker_link *w)
{
	if (w->fd < 0)
		return;
	loop_unwatch(w->loop, &w->watch);
	close(w->fd);
	w->fd = -1;
	w->is_ready = false;
	while (w->calls) {
		struct worker_call *c = w->calls;
		w->calls = c->next;
		c->req = 0;
		c->next = NULL;
		c->events->lost(c);
	}
	if (w->on_lost)
		w->on_lost(w);
}

/* --- Calls */

static struct worker_call *call_find(struct worker_link *w, uint64_t req)
{
	for (struct worker_call *c = w->calls; c; c = c->next)
		if (c->req == req)
			return c;
	return NULL;
}

void worker_forget(struct worker_link *w, struct worker_call *c)
{
	for (struct worker_call **p = &w->calls; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	c->req = 0;
	c->next = NULL;
}

static uint64_t call_begin(struct worker_link *w, struct worker_call *c,
			   const struct worker_events *events)
{
	c->req = ++w->last_req;
	c->events = events;
	c->next = w->calls;
	w->calls = c;
	return c->req;
}

/* A call that could not be sent is not in the list any more, and is told nothing. */
static int send_call(struct worker_link *w, struct worker_call *c, uint16_t type, const void *body,
		     size_t len, const int *fds, unsigned nfds)
{
	struct err e = { 0 };
	int rc = worker_is_up(w) ? msg_send(w->fd, type, body, len, fds, nfds, &e) : -ENOTCONN;

	if (rc == 0)
		return 0;
	if (c)
		worker_forget(w, c);
	if (rc != -ENOTCONN) {
		log_error("worker_send", "message=%u error=\"%s\"", type, e.msg);
		/* The loop finds the end and tells the others: never out of a caller's call. */
		w->is_broken = true;
		shutdown(w->fd, SHUT_RDWR);
	}
	return rc;
}

int worker_slot_get(struct worker_link *w, struct worker_call *c,
		    const struct worker_events *events, const char *image, enum net_kind net)
{
	struct w_slot_get m = { .net = net };

	m.req = call_begin(w, c, events);
	memcpy(m.image, image, strnlen(image, sizeof(m.image) - 1));
	return send_call(w, c, W_SLOT_GET, &m, sizeof(m), NULL, 0);
}

int worker_run(struct worker_link *w, struct worker_call *c, struct w_run *r, const int *fds,
	       unsigned nfds)
{
	r->req = c->req;
	return send_call(w, c, W_RUN, r, sizeof(*r), fds, nfds);
}

int worker_kill(struct worker_link *w, struct worker_call *c, uint32_t reason,
		uint32_t termination)
{
	struct w_kill m = { .req = c->req, .reason = reason, .termination = termination };

	return send_call(w, NULL, W_KILL, &m, sizeof(m), NULL, 0);
}

int worker_drop(struct worker_link *w, uint64_t req, uint64_t slot)
{
	struct w_drop m = { .req = req, .slot = slot };

	return send_call(w, NULL, W_DROP, &m, sizeof(m), NULL, 0);
}

int worker_workspace_remove(struct worker_link *w, struct worker_call *c,
			    const struct worker_events *events, const uint8_t key[32])
{
	struct w_workspace_remove m = { .req = call_begin(w, c, events) };

	memcpy(m.key, key, sizeof(m.key));
	return send_call(w, c, W_WORKSPACE_REMOVE, &m, sizeof(m), NULL, 0);
}

int worker_workspace_list(struct worker_link *w, struct worker_call *c,
			  const struct worker_events *events)
{
	struct w_reply m = { .req = call_begin(w, c, events) };

	return send_call(w, c, W_WORKSPACE_LIST, &m, sizeof(m), NULL, 0);
}

/* --- Answers */

static int on_ready(void *ctx, struct msg *m, struct err *e)
{
	struct worker_link *w = ctx;

	(void)e;
	memcpy(&w->ready, m->body, sizeof(w->ready));
	w->is_ready = true;
	w->skills_fd = msg_take_fd(m, 0);
	if (w->on_ready)
		w->on_ready(w);
	if (w->skills_fd >= 0)
		close(take_fd(&w->skills_fd));
	return 0;
}

static int on_slot(void *ctx, struct msg *m, struct err *e)
{
	struct worker_link *w = ctx;
	struct w_slot s;

	(void)e;
	memcpy(&s, m->body, sizeof(s));
	struct worker_call *c = call_find(w, s.req);
	if (!c) { /* its caller gave up meanwhile */
		worker_drop(w, s.req, s.slot);
		return 0;
	}
	int fds[3] = { msg_take_fd(m, 0), msg_take_fd(m, 1), msg_take_fd(m, 2) };
	c->events->slot(c, &s, fds);
	return 0;
}

static int on_started(void *ctx, struct msg *m, struct err *e)
{
	struct w_started s;

	(void)e;
	memcpy(&s, m->body, sizeof(s));
	struct worker_call *c = call_find(ctx, s.req);
	if (c)
		c->events->started(c, &s);
	return 0;
}

static int on_done(void *ctx, struct msg *m, struct err *e)
{
	struct w_done d;

	(void)e;
	memcpy(&d, m->body, sizeof(d));
	struct worker_call *c = call_find(ctx, d.req);
	if (c) {
		worker_forget(ctx, c);
		c->events->done(c, &d);
	}
	return 0;
}

static int on_fail(void *ctx, struct msg *m, struct err *e)
{
	struct w_fail f;

	(void)e;
	memcpy(&f, m->body, sizeof(f));
	f.text[sizeof(f.text) - 1] = '\0';
	struct worker_call *c = call_find(ctx, f.req);
	if (c) {
		worker_forget(ctx, c);
		c->events->fail(c, &f);
	}
	return 0;
}

static int on_entry(void *ctx, struct msg *m, struct err *e)
{
	struct w_workspace_entry entry;

	(void)e;
	memcpy(&entry, m->body, sizeof(entry));
	entry.label[sizeof(entry.label) - 1] = '\0';
	struct worker_call *c = call_find(ctx, entry.req);
	if (c && c->events->entry)
		c->events->entry(c, &entry);
	return 0;
}

static int on_reply(void *ctx, struct msg *m, struct err *e)
{
	struct w_reply r;

	(void)e;
	memcpy(&r, m->body, sizeof(r));
	struct worker_call *c = call_find(ctx, r.req);
	if (c) {
		worker_forget(ctx, c);
		c->events->reply(c, &r);
	}
	return 0;
}

#define EXACT(type) sizeof(type), sizeof(type)

static const struct msg_permit permits[] = {
	/* type, states, length, descriptors, handler */
	{ W_READY, STATE_NEW, EXACT(struct w_ready), 0, 1, on_ready },
	{ W_SLOT, STATE_READY, EXACT(struct w_slot), 3, 3, on_slot },
	{ W_STARTED, STATE_READY, EXACT(struct w_started), 0, 0, on_started },
	{ W_DONE, STATE_READY, EXACT(struct w_done), 0, 0, on_done },
	{ W_FAIL, STATE_READY, EXACT(struct w_fail), 0, 0, on_fail },
	{ W_WORKSPACE_ENTRY, STATE_READY, EXACT(struct w_workspace_entry), 0, 0, on_entry },
	{ W_WORKSPACE_END, STATE_READY, EXACT(struct w_reply), 0, 0, on_reply },
	{ W_WORKSPACE_REMOVED, STATE_READY, EXACT(struct w_reply), 0, 0, on_reply },
};

static void on_readable(struct watch *watch, uint32_t events)
{
	struct worker_link *w = CONTAINER_OF(watch, struct worker_link, watch);

	struct err e = { 0 };
	int rc = msg_recv(w->fd, w->buf, &e);

	(void)events;
	if (rc == -EAGAIN)
		return;
	if (rc > 0 && msg_dispatch(permits, ARRAY_SIZE(permits),
				   w->is_ready ? STATE_READY : STATE_NEW, w, w->buf, &e) < 0)
		rc = -EPROTO;
	if (rc <= 0) {
		log_error("worker_lost", "error=\"%s\"", rc ? e.msg : "it is gone");
		lose(w);
	}
}

int worker_connect(struct worker_link *w, int fd, struct err *e)
{
	lose(w);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		close(fd);
		return err_set(e, errno, "worker: %s", strerror(errno));
	}
	if (loop_watch(w->loop, &w->watch, fd, EPOLLIN, on_readable, e) < 0) {
		close(fd);
		return -e->code;
	}
	w->fd = fd;
	w->is_ready = w->is_broken = false;
	return 0;
}
