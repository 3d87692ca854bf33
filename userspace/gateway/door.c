/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting connections of a room. What they want is conn.c's business. */
#include "gateway/door.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "gateway/conn.h"

enum { ACCEPTS = 16 }; /* of one door before others have their turn */

static void listen_on(struct room *room, bool is_on)
{
	room->is_paused = !is_on;
	for (int i = 0; i < G_LISTENERS_MAX; i++)
		if (room->doors[i].w.fd >= 0)
			loop_change(&room->g->loop, &room->doors[i].w, is_on ? EPOLLIN : 0);
}

static int accept_one(int fd)
{
	int conn;

	errno = fault_hit("gateway.accept"); /* what is out of descriptors leaves the queue alone */
	if (errno)
		return -1;
	do {
		conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (conn < 0 && (errno == EINTR || errno == ECONNABORTED));
	return conn;
}

static void on_retry(struct deadline *d)
{
	listen_on(CONTAINER_OF(d, struct room, retry), true);
}

/* Level triggered: what is left in the queue comes up again after the others. */
static void on_door(struct watch *w, uint32_t events)
{
	struct room *room = CONTAINER_OF(w, struct door, w)->room;
	struct gateway *g = room->g;

	(void)events;
	for (int i = 0; i < ACCEPTS; i++) {
		if (room->nconns >= g->conns_per_room) {
			listen_on(room, false);
			return;
		}
		int fd = accept_one(w->fd);
		if (fd < 0 && errno != EAGAIN) {
			/* Out of descriptors or memory: others may give some back. */
			listen_on(room, false);
			loop_arm(&g->loop, &room->retry, DEADLINE_SOON, on_retry);
		}
		if (fd < 0 || !conn_open(g, room, fd))
			return;
	}
}

int door_open(struct gateway *g, struct room *room, const int *fds, unsigned n, struct err *e)
{
	int rc = 0;

	room->g = g;
	for (unsigned i = 0; i < n; i++) {
		struct door *d = &room->doors[i];

		d->room = room;
		d->w.fd = -1;
		if (rc == 0)
			rc = loop_watch(&g->loop, &d->w, fds[i], EPOLLIN, on_door, e);
		else
			close(fds[i]);
	}
	return rc;
}

void door_resume(struct gateway *g, struct room *room)
{
	if (room->is_paused && !room->retry.next && room->nconns < g->conns_per_room)
		listen_on(room, true);
}

void door_shut(struct gateway *g, struct room *room)
{
	int fd;

	loop_disarm(&room->retry);
	for (int i = 0; i < G_LISTENERS_MAX; i++) {
		struct watch *w = &room->doors[i].w;

		while (w->fd >= 0 && (fd = accept_one(w->fd)) >= 0) {
			conn_count_wire(room, fd, true);
			close(fd);
		}
		loop_unwatch_close(&g->loop, w);
	}
	while (room->conns)
		conn_close(room->conns, true);
}
