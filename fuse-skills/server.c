/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's frame: opens what it needs as root, gives everything up, starts
 * the threads and then only answers the keeper. Knows no view and no skill;
 * those are serve.c's.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/scope.h"
#include "config/places.h"
#include "device.h"
#include "names.h"
#include "privileges.h"
#include "proto/supervisor.h"
#include "roles.h"
#include "wire/msg.h"

struct server {
	struct serve serve;
	struct device *device;
	int life_line;
	struct r_start start;
	char store[PLACES_PATH_MAX + 16];
};

static int open_all(struct server *s, struct msg *m, struct err *e)
{
	struct places p;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = cpus < 2 ? 4 : cpus > 8 ? 16 : (unsigned)cpus * 2;
	int rc;

	memcpy(&s->start, m->body, sizeof(s->start));
	s->start.root[sizeof(s->start.root) - 1] = s->start.fault[sizeof(s->start.fault) - 1] = '\0';
	autoclose int state = msg_take_fd(m, 1), fuse = msg_take_fd(m, 2);
	s->life_line = msg_take_fd(m, 0);
	rc = places_init(s->start.root, &p, e);
	if (rc < 0)
		return rc;
	snprintf(s->store, sizeof(s->store), "%s/%s", p.state, SKILL_STORE_NAME);
	rc = state_open(state, &s->serve.state, e);
	if (rc == 0)
		rc = skill_store_open(AT_FDCWD, s->store, &s->serve.store, e);
	if (rc == 0)
		rc = device_open(fuse, threads, &s->device, e);
	return rc;
}

static int start(struct server *s, struct err *e)
{
	const struct confine_as as = {
		.uid = s->start.uid,
		.gid = s->start.gid,
		.args = { [ARG_STORE] = s->store },
	};
	uint32_t missing;
	int rc = confine_final(&server_privileges, &as, &missing, e);

	if (rc < 0)
		return rc;
	rc = role_tie(s->life_line, e);
	if (rc < 0)
		return rc;
	s->serve.cache = cache_new(&s->serve.store, s->serve.state);
	if (!s->serve.cache || pthread_key_create(&s->serve.desk, NULL) != 0)
		return err_set(e, ENOMEM, "server: out of memory");
	return device_start(s->device, &s->serve, e);
}

static int on_start(void *ctx, struct msg *m, struct err *e)
{
	struct server *s = ctx;
	int rc = open_all(s, m, e);

	if (rc == 0)
		rc = fault_arm(s->start.fault, e);
	return rc < 0 ? rc : start(s, e);
}

static int on_ping(void *ctx, struct msg *m, struct err *e)
{
	struct server *s = ctx;
	struct r_pong pong = { .busy_ms = device_busy_ms(s->device) };

	(void)m;
	return msg_send(SUPERVISOR_FD, R_PONG, &pong, sizeof(pong), NULL, 0, e);
}

static int on_forget(void *ctx, struct msg *m, struct err *e)
{
	struct server *s = ctx;
	struct r_forget f;
	char name[32];

	(void)e;
	memcpy(&f, m->body, sizeof(f));
	snprintf(name, sizeof(name), "v%llu", (unsigned long long)f.view);
	device_forget(s->device, NODE_ROOT, name);
	return 0;
}

enum { FRESH = 1 << 0, SERVING = 1 << 1 };

static const struct msg_permit permits[] = {
	{ R_START, FRESH, sizeof(struct r_start), sizeof(struct r_start), 3, 3, on_start },
	{ R_PING, SERVING, 0, 0, 0, 0, on_ping },
	{ R_FORGET, SERVING, sizeof(struct r_forget), sizeof(struct r_forget), 0, 0, on_forget },
};

static int receive(struct server *s, struct msg *m, uint32_t state, struct err *e)
{
	int rc = msg_recv(SUPERVISOR_FD, m, e);

	if (rc == 0)
		return err_set(e, EPIPE, "the keeper is gone");
	return rc < 0 ? rc : msg_dispatch(permits, ARRAY_SIZE(permits), state, s, m, e);
}

int server_main(void)
{
	static struct server server;
	static struct msg msg;
	struct err e;

	log_open("cordon-skills-server");
	int rc = confine_early(&server_privileges, &e);
	if (rc == 0)
		rc = receive(&server, &msg, FRESH, &e);
	if (rc == 0)
		rc = msg_send(SUPERVISOR_FD, R_READY, NULL, 0, NULL, 0, &e);
	while (rc == 0)
		rc = receive(&server, &msg, SERVING, &e);
	if (e.code != EPIPE)
		log_error("server", "%s", e.msg);
	_exit(1); /* the threads do not end */
}
