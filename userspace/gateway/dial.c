/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a target to an upstream socket (E9): the name is resolved once, what is
 * protected is dropped, and the connection goes to an address of that answer
 * and to nothing else. Addresses of the first answer come first; AAAA is asked
 * only where A left nothing that may be dialled.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "gateway/conn.h"

enum { DIALS_MAX = 4 };

static void on_upstream(struct watch *w, uint32_t events)
{
	struct conn *c = CONTAINER_OF(CONTAINER_OF(w, struct end, w), struct conn, upstream);
	struct end *x = &c->upstream;

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		x->is_readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		x->has_ended = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		x->is_writable = true;
	if (c->state == CONN_DIALLING)
		dial_on_upstream(c);
	else
		conn_step(c);
}

void dial_stop(struct conn *c)
{
	if (!c->dial)
		return;
	lookup_cancel(c->dial->lookup);
	free(c->dial);
	c->dial = NULL;
}

static void fail(struct conn *c, enum egress_verdict v)
{
	struct target target = c->dial->target;

	conn_refuse(c, v, &target);
}

static socklen_t fill(const struct address *a, uint16_t port, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (a->family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)ret;
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->bytes, 4);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, a->bytes, 16);
	return sizeof(*in6);
}

/* Starts to connect to @a. 0, or -errno with nothing left open. */
static int dial(struct conn *c, const struct address *a, uint16_t port)
{
	struct sockaddr_storage to;
	socklen_t len = fill(a, port, &to);
	struct err ignored;
	int code = fault_hit("gateway.dial");

	if (code)
		return -code;
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS) {
		code = errno;
		close(fd);
		return -code;
	}
	memset(&c->upstream, 0, sizeof(c->upstream));
	if (loop_watch(&c->g->loop, &c->upstream.w, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
		       on_upstream, &ignored) < 0) {
		close(fd);
		c->upstream.w.fd = -1;
		return -ignored.code;
	}
	return 0;
}

static void on_dial_deadline(struct deadline *d)
{
	dial_next(CONTAINER_OF(d, struct conn, deadline));
}

static void arm(struct conn *c)
{
	loop_arm(&c->g->loop, &c->deadline, DEADLINE_DIAL, on_dial_deadline);
}

void dial_next(struct conn *c)
{
	struct dialling *d = c->dial;

	if (c->upstream.w.fd >= 0)
		loop_unwatch_close(&c->g->loop, &c->upstream.w);
	if (c->state == CONN_RESOLVING) {
		fail(c, EGRESS_DESTINATION_BLOCKED); /* the name did not resolve in time */
		return;
	}
	while (d->at < d->n && d->at < DIALS_MAX) {
		if (dial(c, &d->list[d->at++], d->target.port) == 0) {
			arm(c);
			return;
		}
	}
	fail(c, EGRESS_UPSTREAM_FAILED);
}

void dial_on_upstream(struct conn *c)
{
	socklen_t len = sizeof(int);
	int code = 0;

	if (!c->upstream.is_writable)
		return;
	/* Writable and nothing else said: connected. Only an end may have an error behind it. */
	if (c->upstream.has_ended &&
	    (getsockopt(c->upstream.w.fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0 || code))
		dial_next(c);
	else
		conn_connected(c);
}

/* Judges the first @n of the list, here and nowhere else: what is not kept is never dialled. */
static bool judge(struct conn *c, size_t n)
{
	struct dialling *d = c->dial;

	d->n = fault_hit("gateway.judge") ? (uint32_t)n /* what the second ring is for */
					  : (uint32_t)egress_keep_dialable(d->list, n, &c->g->rules);
	d->at = 0;
	return d->n > 0;
}

static void go(struct conn *c)
{
	c->state = CONN_DIALLING;
	dial_next(c);
}

static void on_answer(void *ctx, int count, struct address *list);

static void ask(struct conn *c, enum dns_type type)
{
	struct lookup *k;

	c->dial->asked = type;
	k = resolver_ask(c->g->resolver, c->dial->target.host.name, type, on_answer, c);
	/* NULL: it has been answered, and the connection may be gone. */
	if (k)
		c->dial->lookup = k;
}

static void on_answer(void *ctx, int count, struct address *list)
{
	struct conn *c = ctx;
	struct dialling *d = c->dial;

	d->lookup = NULL;
	if (count > 0) {
		memcpy(d->list, list, (size_t)count * sizeof(d->list[0]));
		if (judge(c, (size_t)count)) {
			go(c);
			return;
		}
	}
	if (count < 0 || d->asked == DNS_AAAA)
		fail(c, EGRESS_DESTINATION_BLOCKED);
	else
		ask(c, DNS_AAAA);
}

void dial_start(struct conn *c, const struct target *target)
{
	c->dial = calloc(1, sizeof(*c->dial));
	if (!c->dial) {
		conn_close(c, true);
		return;
	}
	c->dial->target = *target;
	c->state = CONN_RESOLVING;
	arm(c);
	if (target->host.name[0]) {
		ask(c, DNS_A);
		return;
	}
	c->dial->list[0] = target->host.address;
	if (judge(c, 1))
		go(c);
	else
		fail(c, EGRESS_DESTINATION_BLOCKED);
}
