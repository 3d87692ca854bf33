/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordond's own socket: down, reload, status. Root only, one request per
 * connection, a handful of connections.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/scope.h"
#include "supervisor/life.h"

static void let_go(struct client *c)
{
	if (c->fd >= 0)
		close(take_fd(&c->fd));
}

static void answer(struct client *c, const struct err *failed)
{
	struct s_result r = { .code = failed ? failed->code : 0 };
	struct err ignored;

	if (failed)
		snprintf(r.text, sizeof(r.text), "%s", failed->msg);
	msg_send(c->fd, C_RESULT, &r, sizeof(r), NULL, 0, &ignored);
	let_go(c);
}

void control_answer(struct life *l, enum client_wait wait, const struct err *failed)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (l->clients[i].fd >= 0 && l->clients[i].wait == wait)
			answer(&l->clients[i], failed);
}

void control_accept(struct life *l)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	autoclose int fd = accept4(l->control_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return;
	if (peer.uid != 0) {
		log_error("control", "refused uid=%u", peer.uid);
		return;
	}
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (l->clients[i].fd < 0) {
			l->clients[i] = (struct client){ take_fd(&fd), CLIENT_ASKS };
			return;
		}
}

struct from_client {
	struct life *life;
	struct client *client;
};

static int on_down(void *ctx, struct msg *m, struct err *e)
{
	struct from_client *f = ctx;
	struct c_down d;

	(void)e;
	memcpy(&d, m->body, sizeof(d));
	f->client->wait = CLIENT_DOWN;
	life_stop(f->life, d.drain_ms);
	return 0;
}

static int on_reload(void *ctx, struct msg *m, struct err *e)
{
	struct from_client *f = ctx;

	(void)m;
	if (f->life->new_text)
		return err_set(e, EBUSY, "a reload is under way");
	f->client->wait = CLIENT_RELOAD;
	life_reload(f->life);
	return 0;
}

static int on_status(void *ctx, struct msg *m, struct err *e)
{
	struct from_client *f = ctx;

	(void)m;
	for (int i = 0; i < D_COUNT; i++) {
		const struct daemon *d = &f->life->daemons.of[i];
		struct c_daemon row = { .pid = d->pid,
					.is_ready = d->state == DAEMON_READY,
					.restarts = d->restarts };
		if (d->state == DAEMON_ABSENT)
			continue;
		snprintf(row.name, sizeof(row.name), "%s", daemon_rows[i].name);
		if (msg_send(f->client->fd, C_DAEMON, &row, sizeof(row), NULL, 0, e) < 0)
			return -e->code;
	}
	answer(f->client, NULL);
	return 0;
}

static const struct msg_permit permits[] = {
	{ C_DOWN, ~0u, sizeof(struct c_down), sizeof(struct c_down), 0, 0, on_down },
	{ C_RELOAD, 1u << LIFE_SERVING, 0, 0, 0, 0, on_reload },
	{ C_STATUS, ~0u, 0, 0, 0, 0, on_status },
};

void control_on_client(struct life *l, struct client *c)
{
	struct from_client from = { l, c };
	struct err e;
	int rc = msg_recv(c->fd, &l->msg, &e);

	if (rc == -EAGAIN)
		return;
	/* A second request, a hang-up or nonsense: the order given stands, the client goes. */
	if (rc <= 0 || c->wait != CLIENT_ASKS) {
		if (rc > 0)
			msg_close_fds(&l->msg);
		let_go(c);
		return;
	}
	if (msg_dispatch(permits, ARRAY_SIZE(permits), 1u << l->phase, &from, &l->msg, &e) < 0)
		answer(c, &e);
}
