/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in, answers out. A peer that breaks the protocol is hung up on: the
 * worker's rooms and the broker's registrations end with their channel, and
 * cordond makes a new one when it restarts the peer.
 */
#include "gateway/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/scope.h"
#include "gateway/door.h"
#include "proto/gateway.h"
#include "wire/msg.h"

/* --- Rooms, from the worker */

static int add_room(struct gateway *g, uint64_t slot, struct msg *m, struct err *e)
{
	struct room *room;
	int fds[G_LISTENERS_MAX], rc;
	unsigned n = m->nfds;

	if (fault_step("gateway.room", e) < 0 || rooms_add(&g->rooms, slot, &room, e) < 0)
		return -e->code;
	for (unsigned i = 0; i < n; i++)
		fds[i] = msg_take_fd(m, i);
	rc = door_open(g, room, fds, n, e);
	if (rc < 0) {
		door_shut(g, room);
		rooms_remove(&g->rooms, room);
	}
	return rc;
}

/* Want of memory or descriptors costs the one slot its room: registering it will be refused. */
static int on_room(void *ctx, struct msg *m, struct err *e)
{
	struct g_room msg;

	memcpy(&msg, m->body, sizeof(msg));
	if (add_room(ctx, msg.slot, m, e) == 0)
		return 0;
	if (e->code == EEXIST)
		return -EEXIST; /* the worker breaks the protocol */
	log_error("room", "slot=%llu error=\"%s\"", (unsigned long long)msg.slot, e->msg);
	return 0;
}

static void end_room(struct gateway *g, struct room *room)
{
	room_unregister(room);
	door_shut(g, room);
	rooms_remove(&g->rooms, room);
}

static int on_room_gone(void *ctx, struct msg *m, struct err *e)
{
	struct gateway *g = ctx;
	struct g_room msg;
	struct room *room;

	(void)e;
	memcpy(&msg, m->body, sizeof(msg));
	room = rooms_find(&g->rooms, msg.slot);
	if (!room)
		return 0; /* the broker's G_UNREGISTER was here first */
	if (!room->policy) {
		end_room(g, room);
		return 0;
	}
	/* Its counts are the broker's to fetch. */
	room_unregister(room);
	door_shut(g, room);
	return 0;
}

static void end_all_rooms(struct gateway *g)
{
	for (int i = 0; i < ROOM_BUCKETS; i++)
		while (g->rooms.buckets[i])
			end_room(g, g->rooms.buckets[i]);
}

/* --- Registrations, from the broker */

/* A broker that does not read for so long is not there any more. */
enum { ANSWER_MS = 500 };

static int answer(struct gateway *g, enum gateway_msg type, const void *body, size_t len,
		  struct err *e)
{
	struct pollfd p = { .fd = g->broker.fd, .events = POLLOUT };
	int rc;

	while ((rc = msg_send(g->broker.fd, (uint16_t)type, body, len, NULL, 0, e)) == -EAGAIN)
		if (poll(&p, 1, ANSWER_MS) <= 0)
			return rc;
	return rc;
}

static void read_worker(struct gateway *g);

static int on_register(void *ctx, struct msg *m, struct err *e)
{
	struct gateway *g = ctx;
	struct g_registered reply = { 0 };
	struct g_register msg;
	struct err why = { 0 };
	struct room *room;

	memcpy(&msg, m->body, sizeof(msg));
	reply.req = msg.req;
	/* The worker told of the room before the broker could know the slot. */
	read_worker(g);
	room = rooms_find(&g->rooms, msg.slot);
	if (!room)
		err_set(&why, ENOENT, "the slot has no room here");
	else if (fault_step("gateway.register", &why) == 0)
		room_register(&g->rooms, room, &msg, (const char *)m->body + sizeof(msg),
			      m->len - sizeof(msg), &why);
	explicit_bzero(msg.token, sizeof(msg.token));
	explicit_bzero(m->body, sizeof(msg));
	reply.code = why.code;
	snprintf(reply.text, sizeof(reply.text), "%.*s", (int)sizeof(reply.text) - 1, why.msg);
	return answer(g, G_REGISTERED, &reply, sizeof(reply), e);
}

static void fill_host(const struct target *t, char out[256])
{
	memset(out, 0, 256);
	if (t->port)
		host_format(&t->host, out);
}

struct counts {
	struct g_counts head;
	struct g_denied denied[G_DENIED_MAX];
};

static void list_denied(const struct room *room, struct counts *c)
{
	for (uint32_t i = 0; i < room->ndestinations; i++) {
		const struct destination *d = room->destinations[i];
		struct g_denied *x = &c->denied[c->head.ndenied];

		if (d->verdict == EGRESS_ALLOW || !d->count)
			continue;
		if (c->head.ndenied == G_DENIED_MAX || !d->target.port) {
			c->head.denied_unlisted += d->count;
			continue;
		}
		fill_host(&d->target, x->host);
		x->port = d->target.port;
		x->verdict = d->verdict;
		x->count = d->count;
		c->head.ndenied++;
	}
}

static int on_unregister(void *ctx, struct msg *m, struct err *e)
{
	struct gateway *g = ctx;
	struct g_unregister msg;
	struct counts c = { 0 };
	struct room *room;

	memcpy(&msg, m->body, sizeof(msg));
	fault_hit("gateway.unregister");
	c.head.req = msg.req;
	c.head.slot = msg.slot;
	room = rooms_find(&g->rooms, msg.slot);
	if (!room || !room->policy) {
		c.head.code = ENOENT;
		return answer(g, G_COUNTS, &c, sizeof(c.head), e);
	}
	room_unregister(room);
	door_shut(g, room);
	c.head.used_bytes = room->used_bytes;
	c.head.out_bytes = room->out_bytes;
	c.head.in_bytes = room->in_bytes;
	c.head.wire_bytes = room->wire_bytes;
	c.head.wire_slack = room->wire_slack;
	c.head.allowed = room->allowed;
	c.head.denied = room->denied;
	list_denied(room, &c);
	rooms_remove(&g->rooms, room);
	return answer(g, G_COUNTS, &c,
		      sizeof(c.head) + c.head.ndenied * sizeof(c.denied[0]), e);
}

/* --- Live counts */

static int tell_destinations(struct gateway *g, const struct room *room, uint64_t req,
			     struct err *e)
{
	for (uint32_t i = 0; i < room->ndestinations; i++) {
		const struct destination *d = room->destinations[i];
		struct g_destination x = { .req = req, .slot = room->slot, .port = d->target.port,
					   .open = d->open, .out_bytes = d->out_bytes,
					   .in_bytes = d->in_bytes };

		if (!d->count)
			continue;
		fill_host(&d->target, x.host);
		if (d->verdict == EGRESS_ALLOW)
			x.allowed = d->count;
		else
			x.denied = d->count;
		if (answer(g, G_DESTINATION, &x, sizeof(x), e) < 0)
			return -e->code;
	}
	return 0;
}

static int on_live(void *ctx, struct msg *m, struct err *e)
{
	struct gateway *g = ctx;
	struct g_unregister msg;
	struct g_end end;

	memcpy(&msg, m->body, sizeof(msg));
	for (int i = 0; i < ROOM_BUCKETS; i++)
		for (const struct room *r = g->rooms.buckets[i]; r; r = r->next)
			if ((!msg.slot || r->slot == msg.slot) &&
			    tell_destinations(g, r, msg.req, e) < 0)
				return -e->code;
	end.req = msg.req;
	return answer(g, G_END, &end, sizeof(end), e);
}

/* --- What would happen (cordon egress check): decided and resolved, never dialled */

struct check {
	struct gateway *g;
	struct target target;
	uint64_t req;
	enum dns_type asked;
};

static void tell_check(struct check *k, enum egress_verdict v, const struct address *a)
{
	struct g_checked reply = { .req = k->req, .verdict = v };
	struct err ignored; /* a broker that is gone needs no answer */

	if (a)
		address_format(a, reply.address);
	if (k->g->broker.fd >= 0)
		answer(k->g, G_CHECKED, &reply, sizeof(reply), &ignored);
	free(k);
}

static void on_check_answer(void *ctx, int count, struct address *list)
{
	struct check *k = ctx;

	if (count > 0 && egress_keep_dialable(list, (size_t)count, &k->g->rules)) {
		tell_check(k, EGRESS_ALLOW, &list[0]);
	} else if (count >= 0 && k->asked == DNS_A) {
		k->asked = DNS_AAAA;
		resolver_ask(k->g->resolver, k->target.host.name, DNS_AAAA, on_check_answer, k);
	} else {
		tell_check(k, EGRESS_DESTINATION_BLOCKED, NULL);
	}
}

static void check_address(struct check *k)
{
	struct address a = k->target.host.address;

	if (egress_keep_dialable(&a, 1, &k->g->rules))
		tell_check(k, EGRESS_ALLOW, &a);
	else
		tell_check(k, EGRESS_DESTINATION_BLOCKED, NULL);
}

static int on_check(void *ctx, struct msg *m, struct err *e)
{
	struct gateway *g = ctx;
	struct g_register msg;
	struct check *k = calloc(1, sizeof(*k));
	enum egress_verdict v;

	memcpy(&msg, m->body, sizeof(msg));
	struct egress_policy *p = room_read_policy(&msg, (const char *)m->body + sizeof(msg),
						   m->len - sizeof(msg), e);
	if (!k || !p) {
		free(k);
		free(p);
		return -e->code;
	}
	*k = (struct check){ .g = g, .req = msg.req, .asked = DNS_A };
	k->target.port = msg.port <= 65535 ? (uint16_t)msg.port : 0;
	bool is_sound = host_parse(msg.host, strnlen(msg.host, sizeof(msg.host)), &k->target.host);
	struct egress_flow f = { .target = is_sound ? &k->target : NULL,
				 .has_credential = true,
				 .policy = p,
				 .used_bytes = msg.used_bytes };
	v = egress_decide(&f);
	free(p);
	if (v != EGRESS_ALLOW)
		tell_check(k, v, NULL);
	else if (k->target.host.name[0])
		resolver_ask(g->resolver, k->target.host.name, DNS_A, on_check_answer, k);
	else
		check_address(k);
	return 0;
}

/* --- Channels */

#define ALWAYS 1u
#define REGISTER_MAX (sizeof(struct g_register) + G_HOSTS_TEXT_MAX)

static const struct msg_permit worker_permits[] = {
	{ G_ROOM, ALWAYS, sizeof(struct g_room), sizeof(struct g_room), 1, G_LISTENERS_MAX, on_room },
	{ G_ROOM_GONE, ALWAYS, sizeof(struct g_room), sizeof(struct g_room), 0, 0, on_room_gone },
};

static const struct msg_permit broker_permits[] = {
	{ G_REGISTER, ALWAYS, sizeof(struct g_register), REGISTER_MAX, 0, 0, on_register },
	{ G_UNREGISTER, ALWAYS, sizeof(struct g_unregister), sizeof(struct g_unregister), 0, 0,
	  on_unregister },
	{ G_LIVE, ALWAYS, sizeof(struct g_unregister), sizeof(struct g_unregister), 0, 0, on_live },
	{ G_CHECK, ALWAYS, sizeof(struct g_register), REGISTER_MAX, 0, 0, on_check },
};

/* Handles what has come. False: the peer is gone or not to be spoken to again. */
static bool read_channel(struct gateway *g, struct watch *w, struct msg *m,
			 const struct msg_permit *permits, size_t n, const char *peer)
{
	struct err e = { 0 };
	int rc = 1;

	while (rc > 0 && w->fd >= 0) {
		rc = msg_recv(w->fd, m, &e);
		if (rc > 0 && (rc = msg_dispatch(permits, n, ALWAYS, g, m, &e)) == 0)
			rc = 1;
	}
	if (rc == -EAGAIN)
		return true;
	if (rc < 0)
		log_error("channel", "peer=%s error=\"%s\"", peer, e.msg);
	return false;
}

static void read_worker(struct gateway *g)
{
	if (g->worker.fd < 0 || read_channel(g, &g->worker, g->worker_msg, worker_permits,
					     ARRAY_SIZE(worker_permits), "worker"))
		return;
	/* A worker's end is the end of its slots. */
	loop_unwatch_close(&g->loop, &g->worker);
	end_all_rooms(g);
}

static void on_worker(struct watch *w, uint32_t events)
{
	(void)events;
	read_worker(CONTAINER_OF(w, struct gateway, worker));
}

static void on_broker(struct watch *w, uint32_t events)
{
	struct gateway *g = CONTAINER_OF(w, struct gateway, broker);

	(void)events;
	if (read_channel(g, w, g->broker_msg, broker_permits, ARRAY_SIZE(broker_permits), "broker"))
		return;
	/* Without a broker nobody answers for what is registered. */
	loop_unwatch_close(&g->loop, w);
	end_all_rooms(g);
}

/* A peer's end of a pair, in place of the one before. Takes @fd. */
static int join(struct gateway *g, struct watch *w, int fd, void (*fn)(struct watch *, uint32_t),
		struct err *e)
{
	if (w->fd >= 0) {
		loop_unwatch_close(&g->loop, w);
		end_all_rooms(g);
	}
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || loop_watch(&g->loop, w, fd, EPOLLIN, fn, e) < 0) {
		close(fd);
		w->fd = -1;
		return err_set(e, errno ? errno : EIO, "join a peer: %s", strerror(errno));
	}
	return 0;
}

/* --- Orders of cordond */

static int on_peer(void *ctx, struct msg *m, struct err *e)
{
	struct gateway *g = ctx;
	enum supervisor_fd kind;
	int fd = start_peer(m, &kind, e);

	if (fd < 0)
		return fd;
	if (kind == SFD_WORKER)
		return join(g, &g->worker, fd, on_worker, e);
	if (kind != SFD_BROKER) {
		close(fd);
		return err_set(e, EPROTO, "a peer of kind %d", kind);
	}
	int rc = join(g, &g->broker, fd, on_broker, e);
	return rc < 0 ? rc : control_ready(g, e);
}

/* Every key of ours is read at start alone; that the new ones parse is all there is to say. */
static int on_reload(void *ctx, struct msg *m, struct err *e)
{
	struct config unused;
	struct err why = { 0 };
	int rc = start_reload(m, &unused, &why);

	(void)ctx;
	return start_reloaded(rc < 0 ? &why : NULL, e);
}

static int on_stop(void *ctx, struct msg *m, struct err *e)
{
	struct gateway *g = ctx;

	(void)m, (void)e;
	g->loop.is_ended = true;
	return 0;
}

static const struct msg_permit supervisor_permits[] = {
	{ S_PEER, ALWAYS, sizeof(struct s_start), sizeof(struct s_start), 1, 1, on_peer },
	{ S_RELOAD, ALWAYS, sizeof(struct s_start), sizeof(struct s_start), 1, 1, on_reload },
	{ S_STOP, ALWAYS, sizeof(struct s_stop), sizeof(struct s_stop), 0, 0, on_stop },
};

static void on_supervisor(struct watch *w, uint32_t events)
{
	struct gateway *g = CONTAINER_OF(w, struct gateway, supervisor);

	(void)events;
	if (!read_channel(g, w, g->broker_msg, supervisor_permits, ARRAY_SIZE(supervisor_permits),
			  "cordond"))
		g->loop.is_ended = true; /* the plane is gone */
}

int control_open(struct gateway *g, struct start *s, struct err *e)
{
	int worker = start_take_fd(s, SFD_WORKER), broker = start_take_fd(s, SFD_BROKER);

	g->worker.fd = g->broker.fd = g->supervisor.fd = -1;
	g->worker_msg = malloc(sizeof(*g->worker_msg));
	g->broker_msg = malloc(sizeof(*g->broker_msg));
	if (!g->worker_msg || !g->broker_msg)
		return err_set(e, ENOMEM, "out of memory");
	if (worker >= 0 && join(g, &g->worker, worker, on_worker, e) < 0)
		return -e->code;
	if (broker >= 0 && join(g, &g->broker, broker, on_broker, e) < 0)
		return -e->code;
	return join(g, &g->supervisor, SUPERVISOR_FD, on_supervisor, e);
}

int control_ready(struct gateway *g, struct err *e)
{
	return g->broker.fd < 0 ? 0 : answer(g, G_READY, NULL, 0, e);
}

void control_close(struct gateway *g)
{
	end_all_rooms(g);
	free(g->worker_msg);
	free(g->broker_msg);
}
