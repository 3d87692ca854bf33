/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to the gateway. A packet the table does not allow, a full socket, or
 * an answer that does not come ends the link: cordond finds the gateway dead or
 * the next one comes; until then nothing is registered.
 */
#include "broker/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"

enum { STATE_NEW = 1u << 0, STATE_READY = 1u << 1, PATIENCE_MS = 5000 };

void gateway_init(struct gateway_link *g, struct loop *l, struct msg *buf)
{
	memset(g, 0, sizeof(*g));
	g->loop = l;
	g->buf = buf;
	g->fd = -1;
}

bool gateway_is_up(const struct gateway_link *g)
{
	return g->fd >= 0 && g->is_ready && !g->is_broken;
}

static void lose(struct gateway_link *g)
{
	if (g->fd < 0)
		return;
	loop_unwatch(g->loop, &g->watch);
	loop_timer_clear(g->loop, &g->patience);
	close(g->fd);
	g->fd = -1;
	g->is_ready = false;
	while (g->calls) {
		struct gateway_call *c = g->calls;
		g->calls = c->next;
		c->req = 0;
		c->next = NULL;
		c->events->lost(c);
	}
	if (g->on_lost)
		g->on_lost(g);
}

/* --- Calls */

static void on_patience(struct timer *t)
{
	struct gateway_link *g = CONTAINER_OF(t, struct gateway_link, patience);
	uint64_t now = clock_monotonic_ms();

	for (struct gateway_call *c = g->calls; c; c = c->next)
		if (c->due_ms <= now) {
			log_error("gateway_lost", "error=\"it does not answer\"");
			lose(g);
			return;
		}
	if (g->calls)
		loop_timer_set(g->loop, t, PATIENCE_MS / 5, on_patience);
}

static struct gateway_call *call_find(struct gateway_link *g, uint64_t req)
{
	for (struct gateway_call *c = g->calls; c; c = c->next)
		if (c->req == req)
			return c;
	return NULL;
}

void gateway_forget(struct gateway_link *g, struct gateway_call *c)
{
	for (struct gateway_call **p = &g->calls; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	c->req = 0;
	c->next = NULL;
}

static uint64_t call_begin(struct gateway_link *g, struct gateway_call *c,
			   const struct gateway_events *events)
{
	c->req = ++g->last_req;
	c->due_ms = clock_monotonic_ms() + PATIENCE_MS;
	c->events = events;
	c->next = g->calls;
	g->calls = c;
	if (!g->patience.is_set && g->fd >= 0)
		loop_timer_set(g->loop, &g->patience, PATIENCE_MS / 5, on_patience);
	return c->req;
}

static int send_call(struct gateway_link *g, struct gateway_call *c, uint16_t type,
		     const void *body, size_t len)
{
	struct err e = { 0 };
	int rc = gateway_is_up(g) ? msg_send(g->fd, type, body, len, NULL, 0, &e) : -ENOTCONN;

	if (rc == 0)
		return 0;
	if (c)
		gateway_forget(g, c);
	if (rc != -ENOTCONN) {
		log_error("gateway_send", "message=%u error=\"%s\"", type, e.msg);
		/* The loop finds the end and tells the others: never out of a caller's call. */
		g->is_broken = true;
		shutdown(g->fd, SHUT_RDWR);
	}
	return rc;
}

/* A message of struct g_register and the policy's entries as text. */
static int send_policy(struct gateway_link *g, struct gateway_call *c, uint16_t type,
		       struct g_register *m, const struct egress_policy *p)
{
	size_t cap = sizeof(*m) + p->nhosts * HOST_TEXT_MAX, len = sizeof(*m);
	autofree char *buf = malloc(cap);

	if (!buf) {
		gateway_forget(g, c);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < p->nhosts; i++)
		len += host_entry_format(&p->hosts[i], buf + len) + 1;
	m->req = c->req;
	m->tier = p->tier;
	m->max_bytes = p->max_bytes;
	m->nhosts = p->nhosts;
	m->hosts_len = (uint32_t)(len - sizeof(*m));
	memcpy(buf, m, sizeof(*m));
	int rc = send_call(g, c, type, buf, len);
	explicit_bzero(buf, sizeof(*m)); /* the token */
	return rc;
}

int gateway_register(struct gateway_link *g, struct gateway_call *c,
		     const struct gateway_events *events, uint64_t slot, const char *token,
		     const struct egress_policy *p, uint64_t used_bytes)
{
	struct g_register m = { .slot = slot, .used_bytes = used_bytes };

	memcpy(m.token, token, strnlen(token, sizeof(m.token) - 1));
	call_begin(g, c, events);
	int rc = send_policy(g, c, G_REGISTER, &m, p);
	explicit_bzero(&m, sizeof(m));
	return rc;
}

int gateway_check(struct gateway_link *g, struct gateway_call *c,
		  const struct gateway_events *events, const struct egress_policy *p,
		  const struct target *target)
{
	struct g_register m = { .port = target->port };

	host_format(&target->host, m.host);
	call_begin(g, c, events);
	return send_policy(g, c, G_CHECK, &m, p);
}

int gateway_unregister(struct gateway_link *g, struct gateway_call *c,
		       const struct gateway_events *events, uint64_t slot)
{
	struct g_unregister m = { .slot = slot };

	m.req = call_begin(g, c, events);
	return send_call(g, c, G_UNREGISTER, &m, sizeof(m));
}

int gateway_live(struct gateway_link *g, struct gateway_call *c,
		 const struct gateway_events *events)
{
	struct g_unregister m = { 0 };

	m.req = call_begin(g, c, events);
	return send_call(g, c, G_LIVE, &m, sizeof(m));
}

void gateway_drop(struct gateway_link *g, uint64_t slot)
{
	struct g_unregister m = { .slot = slot, .req = ++g->last_req };

	send_call(g, NULL, G_UNREGISTER, &m, sizeof(m));
}

/* --- Answers */

static int on_ready(void *ctx, struct msg *m, struct err *e)
{
	struct gateway_link *g = ctx;

	(void)m;
	(void)e;
	g->is_ready = true;
	if (g->on_ready)
		g->on_ready(g);
	return 0;
}

static int on_registered(void *ctx, struct msg *m, struct err *e)
{
	struct g_registered r;

	(void)e;
	memcpy(&r, m->body, sizeof(r));
	r.text[sizeof(r.text) - 1] = '\0';
	struct gateway_call *c = call_find(ctx, r.req);
	if (c && c->events->registered) {
		gateway_forget(ctx, c);
		c->events->registered(c, &r);
	}
	return 0;
}

static int on_counts(void *ctx, struct msg *m, struct err *e)
{
	struct g_denied denied[G_DENIED_MAX];
	struct g_counts n;

	memcpy(&n, m->body, sizeof(n));
	if (n.ndenied > G_DENIED_MAX || m->len != sizeof(n) + n.ndenied * sizeof(denied[0]))
		return err_set(e, EPROTO, "counts with %u denials in %u bytes", n.ndenied, m->len);
	memcpy(denied, m->body + sizeof(n), n.ndenied * sizeof(denied[0]));
	for (uint32_t i = 0; i < n.ndenied; i++)
		denied[i].host[sizeof(denied[i].host) - 1] = '\0';
	struct gateway_call *c = call_find(ctx, n.req);
	if (c && c->events->counts) {
		gateway_forget(ctx, c);
		c->events->counts(c, &n, denied);
	}
	return 0;
}

static int on_destination(void *ctx, struct msg *m, struct err *e)
{
	struct g_destination d;

	(void)e;
	memcpy(&d, m->body, sizeof(d));
	d.host[sizeof(d.host) - 1] = '\0';
	struct gateway_call *c = call_find(ctx, d.req);
	if (c && c->events->destination)
		c->events->destination(c, &d);
	return 0;
}

static int on_end(void *ctx, struct msg *m, struct err *e)
{
	struct g_end end;

	(void)e;
	memcpy(&end, m->body, sizeof(end));
	struct gateway_call *c = call_find(ctx, end.req);
	if (c && c->events->end) {
		gateway_forget(ctx, c);
		c->events->end(c);
	}
	return 0;
}

static int on_checked(void *ctx, struct msg *m, struct err *e)
{
	struct g_checked k;

	(void)e;
	memcpy(&k, m->body, sizeof(k));
	k.address[sizeof(k.address) - 1] = '\0';
	struct gateway_call *c = call_find(ctx, k.req);
	if (c && c->events->checked) {
		gateway_forget(ctx, c);
		c->events->checked(c, &k);
	}
	return 0;
}

#define EXACT(type) sizeof(type), sizeof(type)
#define COUNTS_MAX (sizeof(struct g_counts) + G_DENIED_MAX * sizeof(struct g_denied))

static const struct msg_permit permits[] = {
	/* type, states, length, descriptors, handler */
	{ G_READY, STATE_NEW, 0, 0, 0, 0, on_ready },
	{ G_REGISTERED, STATE_READY, EXACT(struct g_registered), 0, 0, on_registered },
	{ G_COUNTS, STATE_READY, sizeof(struct g_counts), COUNTS_MAX, 0, 0, on_counts },
	{ G_DESTINATION, STATE_READY, EXACT(struct g_destination), 0, 0, on_destination },
	{ G_END, STATE_READY, EXACT(struct g_end), 0, 0, on_end },
	{ G_CHECKED, STATE_READY, EXACT(struct g_checked), 0, 0, on_checked },
};

static void on_readable(struct watch *watch, uint32_t events)
{
	struct gateway_link *g = CONTAINER_OF(watch, struct gateway_link, watch);

	(void)events;
	while (g->fd >= 0) {
		struct err e = { 0 };
		int rc = msg_recv(g->fd, g->buf, &e);
		if (rc == -EAGAIN)
			return;
		if (rc > 0)
			rc = msg_dispatch(permits, ARRAY_SIZE(permits),
					  g->is_ready ? STATE_READY : STATE_NEW, g, g->buf, &e) < 0 ?
				     -EPROTO :
				     1;
		if (rc <= 0) {
			log_error("gateway_lost", "error=\"%s\"", rc ? e.msg : "it is gone");
			lose(g);
		}
	}
}

int gateway_connect(struct gateway_link *g, int fd, struct err *e)
{
	lose(g);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		close(fd);
		return err_set(e, errno, "gateway: %s", strerror(errno));
	}
	if (loop_watch(g->loop, &g->watch, fd, EPOLLIN, on_readable, e) < 0) {
		close(fd);
		return -e->code;
	}
	g->fd = fd;
	g->is_ready = g->is_broken = false;
	return 0;
}
