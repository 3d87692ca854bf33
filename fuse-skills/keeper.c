/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: one poll over broker, cordond, server, stager and opener. It
 * never touches the mount itself (opener.c does), so that a server that hangs
 * never hangs it. The watch is its own: a server that does not answer a ping,
 * or holds a request for too long, is replaced with this whole program; its
 * death, which the end of the life line brings even when it is stopped, frees
 * the requests it had taken.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scope.h"
#include "config/places.h"
#include "config/start.h"
#include "json/json.h"
#include "opener.h"
#include "policy/reason.h"
#include "privileges.h"
#include "proto/skills.h"
#include "roles.h"
#include "show.h"
#include "views.h"
#include "wire/msg.h"

enum {
	PING_MS = 250,
	PONG_MS = 1500,	 /* a server that says nothing for so long is stopped */
	BUSY_MS = 8000,	 /* a request in hand for so long hangs */
	WARM = 64,	 /* closed views whose names the kernel may keep: they hold its page cache */
	ASKED_MAX = 256, /* views on their way */
};

struct asked {
	uint64_t req, view;
	struct k_view answer;
};

struct keeper {
	struct start start;
	char store[PLACES_PATH_MAX + 16];
	int broker_fd, root_fd, server_fd, stager_fd;
	int life_fd; /* the children's life line */
	bool is_stopping;
	struct views views;
	struct opener opener;
	struct asked *asked[ASKED_MAX];
	uint64_t ping_ms; /* when the ping without an answer was sent; 0: none */
	uint64_t next_ping_ms;
	uint64_t closed[WARM];
	unsigned nclosed;
	struct msg msg;
};

/* --- Answers to the broker; one that is gone hears nothing */

static void answer(struct keeper *k, enum skills_msg type, const void *body, size_t len, int fd)
{
	struct err e;

	if (k->broker_fd >= 0 &&
	    msg_send(k->broker_fd, (uint16_t)type, body, len, &fd, fd >= 0, &e) < 0)
		log_error("broker", "%s", e.msg);
}

static void refuse(struct keeper *k, uint64_t req, enum reason why, const char *text)
{
	struct k_refused r = { .req = req, .reason = why };

	snprintf(r.text, sizeof(r.text), "%s", text);
	answer(k, K_REFUSED, &r, sizeof(r), -1);
}

/* --- Views */

static int on_root(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	struct k_root in;

	(void)e;
	memcpy(&in, m->body, sizeof(in));
	if (k->root_fd >= 0)
		close(k->root_fd);
	k->root_fd = msg_take_fd(m, 0);
	if (in.broker != k->views.state->broker)
		views_drop_all(&k->views);
	k->views.state->broker = in.broker;
	return 0;
}

static struct asked **free_place(struct keeper *k)
{
	for (size_t i = 0; i < ASKED_MAX; i++)
		if (!k->asked[i])
			return &k->asked[i];
	return NULL;
}

static int on_view_open(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	struct k_view_open *in = (void *)m->body; /* aligned, and the buffer is longer */
	struct asked **place = free_place(k), *a = calloc(1, sizeof(*a));
	struct err why = { 0 };

	(void)e;
	if (!place || !a || k->root_fd < 0) {
		refuse(k, in->req, REASON_WORKER_UNAVAILABLE,
		       k->root_fd < 0 ? "the skills are not mounted" : "too many views are on their way");
		free(a);
		return 0;
	}
	a->req = a->answer.req = in->req;
	int rc = fault_step("skills.view", &why) < 0 ?
			 -why.code :
			 views_add(&k->views, in, m->len, &a->answer, &why);
	a->view = a->answer.view;
	if (rc == 0 && (rc = opener_ask(&k->opener, k->root_fd, a->view, &why)) < 0)
		views_drop(&k->views, a->view);
	if (rc < 0) {
		refuse(k, in->req, rc == -EINVAL ? REASON_INVALID_REQUEST : REASON_STAGING_FAILED,
		       why.msg);
		free(a);
		return 0;
	}
	*place = a;
	return 0;
}

/* The opener is through: the view goes to the broker, or away. */
static void on_opened(struct keeper *k, const struct opener_answer *o)
{
	for (size_t i = 0; i < ASKED_MAX; i++) {
		struct asked *a = k->asked[i];
		if (!a || a->view != o->view)
			continue;
		if (o->fd >= 0) {
			size_t len = offsetof(struct k_view, skills) +
				     a->answer.count * sizeof(a->answer.skills[0]);
			answer(k, K_VIEW, &a->answer, len, o->fd);
		} else {
			views_drop(&k->views, a->view);
			refuse(k, a->req, REASON_STAGING_FAILED, strerror(o->error));
		}
		free(a);
		k->asked[i] = NULL;
	}
	if (o->fd >= 0)
		close(o->fd);
}

static int on_bind(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	struct k_view_bind in;

	(void)e;
	memcpy(&in, m->body, sizeof(in));
	state_bind(k->views.state, in.uid, in.view);
	return 0;
}

static void answer_counts(struct keeper *k, const struct k_view_ref *in)
{
	struct k_counts out = { .req = in->req };

	if (views_count(&k->views, in->view, &out))
		answer(k, K_COUNTS, &out, sizeof(out), -1);
	else
		refuse(k, in->req, REASON_INVALID_REQUEST, "no such view");
}

static int on_count(void *ctx, struct msg *m, struct err *e)
{
	struct k_view_ref in;

	(void)e;
	memcpy(&in, m->body, sizeof(in));
	answer_counts(ctx, &in);
	return 0;
}

/* The kernel keeps the names of the last few closed views, and by them cached contents. */
static int forget_later(struct keeper *k, uint64_t view, struct err *e)
{
	uint64_t *place = &k->closed[k->nclosed++ % WARM];
	struct r_forget f = { .view = *place };

	*place = view;
	return f.view == 0 ? 0 : msg_send(k->server_fd, R_FORGET, &f, sizeof(f), NULL, 0, e);
}

static int on_close(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	struct k_view_ref in;

	memcpy(&in, m->body, sizeof(in));
	fault_hit("skills.close");
	bool is_there = state_view(k->views.state, in.view) != NULL;
	answer_counts(k, &in);
	views_drop(&k->views, in.view);
	return is_there ? forget_later(k, in.view, e) : 0;
}

/* --- Looking at the catalog */

/* Takes @fd. */
static void answer_text(struct keeper *k, uint64_t req, int fd, uint64_t len, const struct err *why)
{
	struct k_text out = { .req = req, .len = len };

	if (fd >= 0)
		answer(k, K_TEXT, &out, sizeof(out), fd);
	else
		refuse(k, req, why->code == EINVAL || why->code == ENOENT ? REASON_INVALID_REQUEST :
									    REASON_STAGING_FAILED,
		       why->msg);
	if (fd >= 0)
		close(fd);
}

static int on_show(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	struct k_show in;
	struct err why = { 0 };
	uint64_t len = 0;

	(void)e;
	memcpy(&in, m->body, sizeof(in));
	in.slug[K_SLUG_MAX] = '\0';
	int fd = show_catalog(&k->views, &in, &len, &why);
	answer_text(k, in.req, fd, len, &why);
	return 0;
}

static int on_read(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	static struct k_read in; /* only of one message at a time */
	struct err why = { 0 };
	uint64_t len = 0;

	(void)e;
	memcpy(&in, m->body, sizeof(in));
	in.slug[K_SLUG_MAX] = in.path[sizeof(in.path) - 1] = '\0';
	int fd = show_file(&k->views, &in, &len, &why);
	answer_text(k, in.req, fd, len, &why);
	return 0;
}

/* --- Staging is passed on as it comes, and so is what the stager says */

static int on_stage_order(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	struct err why;
	uint64_t req;

	(void)e;
	memcpy(&req, m->body, sizeof(req));
	if (msg_send(k->stager_fd, m->type, m->body, m->len, m->fds, m->nfds, &why) < 0)
		refuse(k, req, REASON_STAGING_FAILED, "too many skills are being staged");
	return 0;
}

static int on_stager_answer(void *ctx, struct msg *m, struct err *e)
{
	(void)e;
	answer(ctx, (enum skills_msg)m->type, m->body, m->len, -1);
	return 0;
}

/* --- The watch */

static int on_pong(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	struct r_pong pong;

	memcpy(&pong, m->body, sizeof(pong));
	k->ping_ms = 0;
	return pong.busy_ms < BUSY_MS ? 0 :
					err_set(e, ETIMEDOUT, "a request is in hand for %llu ms",
						(unsigned long long)pong.busy_ms);
}

/* Pings while anybody may be waiting. */
static int watch(struct keeper *k, uint64_t now, struct err *e)
{
	if (k->ping_ms != 0)
		return now - k->ping_ms < PONG_MS ? 0 :
						    err_set(e, ETIMEDOUT, "the server does not answer");
	if (k->views.open == 0 || now < k->next_ping_ms)
		return 0;
	k->ping_ms = now;
	k->next_ping_ms = now + PING_MS;
	return msg_send(k->server_fd, R_PING, NULL, 0, NULL, 0, e);
}

static int wait_ms(const struct keeper *k, uint64_t now)
{
	if (k->ping_ms != 0)
		return (int)(k->ping_ms + PONG_MS > now ? k->ping_ms + PONG_MS - now : 0);
	if (k->views.open == 0)
		return -1;
	return (int)(k->next_ping_ms > now ? k->next_ping_ms - now : 0);
}

/* --- cordond */

static int on_peer(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	enum supervisor_fd kind;
	int fd = start_peer(m, &kind, e);

	if (fd < 0)
		return fd;
	if (kind != SFD_BROKER) {
		close(fd);
		return err_set(e, EPROTO, "a peer of kind %d", (int)kind);
	}
	if (k->broker_fd >= 0)
		close(k->broker_fd);
	k->broker_fd = fd;
	answer(k, K_READY, NULL, 0, -1);
	return 0;
}

static int on_reload(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;
	struct err why;
	int rc = start_reload(m, &k->start.config, &why);

	return start_reloaded(rc < 0 ? &why : NULL, e);
}

static int on_stop(void *ctx, struct msg *m, struct err *e)
{
	struct keeper *k = ctx;

	(void)m;
	(void)e;
	k->is_stopping = true;
	return 0;
}

/* --- The loop */

enum { SERVING = 1 };
#define EXACTLY(type) sizeof(type), sizeof(type)

static const struct msg_permit from_broker[] = {
	{ K_ROOT, SERVING, EXACTLY(struct k_root), 1, 1, on_root },
	{ K_VIEW_OPEN, SERVING, offsetof(struct k_view_open, slugs), sizeof(struct k_view_open), 0, 0,
	  on_view_open },
	{ K_VIEW_BIND, SERVING, EXACTLY(struct k_view_bind), 0, 0, on_bind },
	{ K_VIEW_COUNT, SERVING, EXACTLY(struct k_view_ref), 0, 0, on_count },
	{ K_VIEW_CLOSE, SERVING, EXACTLY(struct k_view_ref), 0, 0, on_close },
	{ K_STAGE, SERVING, EXACTLY(struct k_stage), 1, 1, on_stage_order },
	{ K_REMOVE, SERVING, EXACTLY(struct k_remove), 0, 0, on_stage_order },
	{ K_SHOW, SERVING, EXACTLY(struct k_show), 0, 0, on_show },
	{ K_READ, SERVING, EXACTLY(struct k_read), 0, 0, on_read },
};

static const struct msg_permit from_cordond[] = {
	{ S_PEER, SERVING, EXACTLY(struct s_start), 1, 1, on_peer },
	{ S_RELOAD, SERVING, EXACTLY(struct s_start), 1, 1, on_reload },
	{ S_STOP, SERVING, EXACTLY(struct s_stop), 0, 0, on_stop },
};

static const struct msg_permit from_server[] = {
	{ R_PONG, SERVING, EXACTLY(struct r_pong), 0, 0, on_pong },
};

static const struct msg_permit from_stager[] = {
	{ K_STAGED, SERVING, EXACTLY(struct k_staged), 0, 0, on_stager_answer },
	{ K_REMOVED, SERVING, EXACTLY(struct k_removed), 0, 0, on_stager_answer },
	{ K_REFUSED, SERVING, EXACTLY(struct k_refused), 0, 0, on_stager_answer },
};

static int receive(struct keeper *k, int fd, const struct msg_permit *permits, size_t n,
		   const char *whose, struct err *e)
{
	int rc = msg_recv(fd, &k->msg, e);

	if (rc == 0)
		return err_set(e, EPIPE, "%s is gone", whose);
	if (rc > 0)
		rc = msg_dispatch(permits, n, SERVING, k, &k->msg, e);
	return rc < 0 ? err_wrap(e, whose) : 0;
}

/* A broker that is gone or breaks the contract is not spoken to again; cordond brings the next. */
static void receive_broker(struct keeper *k)
{
	struct err e;

	if (receive(k, k->broker_fd, from_broker, ARRAY_SIZE(from_broker), "the broker", &e) == 0)
		return;
	if (e.code != EPIPE)
		log_error("protocol", "%s", e.msg);
	close(take_fd(&k->broker_fd));
}

static int loop(struct keeper *k, struct err *e)
{
	struct opener_answer opened;
	int rc = 0;

	while (rc == 0 && !k->is_stopping) {
		struct pollfd p[] = {
			{ .fd = SUPERVISOR_FD, .events = POLLIN },
			{ .fd = k->server_fd, .events = POLLIN },
			{ .fd = k->stager_fd, .events = POLLIN },
			{ .fd = k->opener.fd, .events = POLLIN },
			{ .fd = k->broker_fd, .events = POLLIN },
		};
		if (poll(p, ARRAY_SIZE(p), wait_ms(k, clock_monotonic_ms())) < 0 && errno != EINTR)
			return err_set(e, errno, "poll: %s", strerror(errno));
		if (p[0].revents)
			rc = receive(k, SUPERVISOR_FD, from_cordond, ARRAY_SIZE(from_cordond),
				     "cordond", e);
		if (rc == 0 && p[1].revents)
			rc = receive(k, k->server_fd, from_server, ARRAY_SIZE(from_server),
				     "the server", e);
		if (rc == 0 && p[2].revents)
			rc = receive(k, k->stager_fd, from_stager, ARRAY_SIZE(from_stager),
				     "the stager", e);
		while (rc == 0 && p[3].revents &&
		       (rc = opener_answer(&k->opener, &k->msg, &opened, e)) > 0) {
			on_opened(k, &opened);
			rc = 0;
		}
		if (rc == 0 && p[4].revents && k->broker_fd == p[4].fd)
			receive_broker(k);
		if (rc == 0)
			rc = watch(k, clock_monotonic_ms(), e);
	}
	return rc;
}

/* --- Start */

/* A process of this binary in @role, its end of a pair as descriptor 3. */
static int spawn(const char *role, int *ret_fd, struct err *e)
{
	char *argv[] = { (char *)(uintptr_t)"cordon-skills", (char *)(uintptr_t)role, NULL };
	char *const no_environment[] = { NULL };
	int pair[2];

	if (msg_pair(pair, e) < 0)
		return -e->code;
	autoclose int ours = pair[0], theirs = pair[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_set(e, errno, "fork: %s", strerror(errno));
	if (pid == 0) {
		if (dup2(theirs, SUPERVISOR_FD) < 0 || syscall(SYS_close_range, 4u, ~0u, 0) < 0)
			_exit(126);
		execve("/proc/self/exe", argv, no_environment);
		_exit(127);
	}
	*ret_fd = take_fd(&ours);
	return 0;
}

static int start_role(struct keeper *k, const char *role, const int *fds, unsigned nfds, int *ret_fd,
		      struct err *e)
{
	struct r_start start = { .uid = k->start.s.uid, .gid = k->start.s.gid };
	int rc = spawn(role, ret_fd, e);

	memcpy(start.root, k->start.s.root, sizeof(start.root));
	memcpy(start.fault, k->start.config.fault, sizeof(start.fault));
	if (rc == 0)
		rc = msg_send(*ret_fd, R_START, &start, sizeof(start), fds, nfds, e);
	if (rc == 0)
		rc = msg_recv(*ret_fd, &k->msg, e);
	if (rc == 0)
		return err_set(e, ECHILD, "the %s did not start", role);
	if (rc > 0 && k->msg.type != R_READY)
		return err_set(e, EPROTO, "the %s says %u", role, k->msg.type);
	return rc < 0 ? err_wrap(e, role) : 0;
}

/* Before the children: the server opens the store, which the stager makes. */
static int open_store(struct keeper *k, struct err *e)
{
	struct places p;

	if (places_init(k->start.s.root, &p, e) < 0)
		return -e->code;
	snprintf(k->store, sizeof(k->store), "%s/%s", p.state, SKILL_STORE_NAME);
	if (mkdir(k->store, 0750) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", k->store, strerror(errno));
	/* Root's, read by the group of keeper and server; what is made inside inherits it. */
	if (chown(k->store, 0, k->start.s.gid) < 0 || chmod(k->store, 02750) < 0)
		return err_set(e, errno, "'%s': %s", k->store, strerror(errno));
	return 0;
}

static int open_all(struct keeper *k, struct err *e)
{
	const struct confine_as as = {
		.uid = k->start.s.uid,
		.gid = k->start.s.gid,
		.args = { [ARG_STORE] = k->store },
	};
	int life[2] = { -1, -1 };
	autoclose int state_fd = start_take_fd(&k->start, SFD_SKILLS_STATE);
	autoclose int fuse_fd = start_take_fd(&k->start, SFD_FUSE);
	struct state *state = NULL;
	uint32_t missing;
	int rc;

	k->broker_fd = start_take_fd(&k->start, SFD_BROKER);
	if (state_fd < 0 || fuse_fd < 0)
		return err_set(e, EINVAL, "started without a mount");
	if (pipe2(life, O_CLOEXEC) < 0)
		return err_set(e, errno, "pipe: %s", strerror(errno));
	k->life_fd = life[1];
	autoclose int line = life[0];
	const int for_server[] = { line, state_fd, fuse_fd };
	rc = state_open(state_fd, &state, e);
	if (rc == 0)
		rc = open_store(k, e);
	if (rc == 0)
		rc = start_role(k, "stager", &line, 1, &k->stager_fd, e);
	if (rc == 0)
		rc = start_role(k, "server", for_server, ARRAY_SIZE(for_server), &k->server_fd, e);
	if (rc == 0) /* ROOT's own directories may be closed to everybody else */
		rc = views_open(&k->views, state, k->store, e);
	if (rc == 0) /* the children are root until they have confined themselves */
		rc = confine_early(&keeper_privileges, e);
	if (rc == 0)
		rc = confine_final(&keeper_privileges, &as, &missing, e);
	if (rc == 0)
		rc = opener_start(&k->opener, e);
	if (rc == 0 && fcntl(k->stager_fd, F_SETFL, O_NONBLOCK) < 0)
		rc = err_set(e, errno, "stager: %s", strerror(errno));
	return rc;
}

int keeper_main(void)
{
	static struct keeper k = { .broker_fd = -1, .root_fd = -1, .server_fd = -1, .stager_fd = -1 };
	struct err e = { 0 };

	log_open("cordon-skills");
	json_start();
	if (start_receive(&k.start, &e) < 0 || open_all(&k, &e) < 0 || start_ready(&e) < 0) {
		start_fatal(&e);
		log_error("start", "error=\"%s\"", e.msg);
		_exit(1);
	}
	answer(&k, K_READY, NULL, 0, -1);
	int rc = loop(&k, &e);
	if (rc < 0)
		log_error("end", "error=\"%s\"", e.msg);
	close(k.life_fd); /* the server first: the opener may hang in the mount until it is gone */
	_exit(rc < 0);
}
