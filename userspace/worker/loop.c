/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: events in, slot steps out. Each slot owes the broker exactly one
 * answer per request; every path here ends in finish(), which gives it.
 */
#include "worker/loop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "config/start.h"
#include "policy/reason.h"
#include "proto/launcher.h"
#include "proto/supervisor.h"
#include "wire/msg.h"
#include "worker/pool.h"

enum {
	START_LIMIT_MS = 10000, /* for a launcher to answer at all */
	FINISH_STEP_MS = 1,
	POOL_RETRY_MS = 1000,
	EVENTS = 32,
};

/* What an epoll event is about: kind in the low bits, the slot's index above. */
enum source { FROM_BROKER, FROM_SUPERVISOR, FROM_EGRESS, FROM_LAUNCHER, FROM_PIDFD, SOURCE_BITS = 4 };

/* A slot's descriptors are edge-triggered: an end that is not reaped yet must not spin the loop. */
static int watch(struct loop *l, int fd, enum source kind, unsigned index, struct err *e)
{
	struct epoll_event ev = {
		.events = EPOLLIN | (kind >= FROM_LAUNCHER ? EPOLLET : 0),
		.data.u64 = (uint64_t)index << SOURCE_BITS | kind,
	};

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_set(e, errno, "epoll: %s", strerror(errno));
	return 0;
}

static void send_broker(struct loop *l, uint16_t type, const void *body, size_t len, const int *fds,
			unsigned nfds)
{
	struct err e;

	/* A broker that cannot be told is gone; its hang-up ends the loop. */
	if (msg_send(l->broker_fd, type, body, len, fds, nfds, &e) < 0)
		log_error("broker_send", "type=%u error=\"%s\"", type, e.msg);
}

static void send_fail(struct loop *l, uint64_t req, enum reason r, const char *text)
{
	struct w_fail f = { .req = req, .reason = r };

	snprintf(f.text, sizeof(f.text), "%s", text);
	send_broker(l, W_FAIL, &f, sizeof(f), NULL, 0);
}

static unsigned index_of(const struct loop *l, const struct slot *s)
{
	return (unsigned)(s - l->slots);
}

/* --- building ----------------------------------------------------------- */

static bool id_in_use(const struct loop *l, uint32_t id)
{
	for (unsigned i = 0; i < l->used; i++)
		if (l->slots[i].state != SLOT_FREE && l->slots[i].host_uid == id)
			return true;
	return false;
}

/* The next id of the block that no live slot has (B3). */
static uint32_t take_id(struct loop *l)
{
	for (uint32_t tries = 0; tries < l->host_ids.count; tries++) {
		uint32_t id = l->host_ids.base + l->next_id;
		l->next_id = (l->next_id + 1) % l->host_ids.count;
		if (!id_in_use(l, id))
			return id;
	}
	return 0;
}

/* A new slot in BUILDING. NULL: none, with *e set. */
static struct slot *build(struct loop *l, const struct slot_shape *shape, struct err *e)
{
	struct slot *s = NULL;
	uint32_t id = take_id(l);

	for (unsigned i = 0; i < SLOTS_MAX && !s; i++)
		if (l->slots[i].state == SLOT_FREE)
			s = &l->slots[i];
	if (s && index_of(l, s) >= l->used)
		l->used = index_of(l, s) + 1;
	if (!s || !id) {
		err_set(e, EAGAIN, "no place for another slot");
		return NULL;
	}
	if (slot_build(&l->maker, ++l->next_slot, shape, id, s, e) < 0)
		return NULL;
	s->shape.image->slots++;
	s->deadline_ns = clock_monotonic_ns() + START_LIMIT_MS * 1000000ull;
	if (watch(l, s->sock, FROM_LAUNCHER, index_of(l, s), e) < 0 ||
	    watch(l, s->pidfd, FROM_PIDFD, index_of(l, s), e) < 0) {
		slot_kill(s);
		return NULL;
	}
	return s;
}

static bool same_shape(const struct slot *s, const struct slot_shape *shape)
{
	return s->shape.image == shape->image && s->shape.net == shape->net;
}

static bool can_give_gateway_slots(const struct loop *l)
{
	return l->maker.egress && egress_has_gateway(l->maker.egress);
}

/* Slots of a kind that nobody has asked for yet. */
static unsigned spare(const struct loop *l, enum net_kind net)
{
	unsigned have = 0;

	for (unsigned i = 0; i < l->used; i++)
		have += l->slots[i].shape.net == net &&
			(l->slots[i].state == SLOT_WARM ||
			 (l->slots[i].state == SLOT_BUILDING && !l->wanted_req[i]));
	return have;
}

/* A command is between its slot and its exec: whoever asked for it waits for this thread. */
static bool is_launching(const struct loop *l)
{
	for (unsigned i = 0; i < l->used; i++)
		if (l->slots[i].state == SLOT_TAKEN || l->slots[i].state == SLOT_STARTING)
			return true;
	return false;
}

static uint64_t refill_ns(const struct loop *l, enum net_kind net)
{
	const struct pool_state p = {
		.size = l->pool,
		.spare = spare(l, net),
		.is_launching = is_launching(l),
		.event_ns = l->event_ns,
		.retry_ns = l->pool_retry_ns,
	};

	return pool_refill_ns(&p);
}

/* The kind of slot the pool is to get next, and when. */
static uint64_t pool_lacks(const struct loop *l, enum net_kind *ret)
{
	uint64_t none, gateway;

	*ret = NET_NONE;
	if (l->is_stopping)
		return POOL_NOT_NOW;
	/* In this order: gateway slots that cannot be made must not starve the others. */
	none = refill_ns(l, NET_NONE);
	gateway = can_give_gateway_slots(l) ? refill_ns(l, NET_GATEWAY) : POOL_NOT_NOW;
	if (gateway < none)
		*ret = NET_GATEWAY;
	return gateway < none ? gateway : none;
}

/* One slot a turn, when nothing else is to be done. */
static void fill_pool(struct loop *l, enum net_kind net)
{
	struct err e;
	struct image *im = images_get(&l->images, "", &e);
	struct slot_shape shape = { .image = im, .net = net };
	if (im && build(l, &shape, &e))
		return;
	l->pool_retry_ns = clock_monotonic_ns() + POOL_RETRY_MS * 1000000ull;
	log_error("pool", "error=\"%s\"", e.msg);
}

static void give(struct loop *l, struct slot *s, uint64_t req)
{
	struct w_slot w = {
		.req = req,
		.slot = s->id,
		.cgroup_id = s->cg.id,
		.host_uid = s->host_uid,
	};

	memcpy(w.image_digest, s->shape.image->digest, sizeof(w.image_digest));
	fault_hit("slot.give");
	s->state = SLOT_TAKEN;
	s->deadline_ns = 0;
	s->req = req;
	send_broker(l, W_SLOT, &w, sizeof(w), s->broker_fds, 3);
	for (int i = 0; i < 3; i++) {
		scope_close(&s->broker_fds[i]);
		s->broker_fds[i] = -1;
	}
}

/* --- what the broker asks ------------------------------------------------ */

static int on_slot_get(void *ctx, struct msg *m, struct err *e)
{
	struct loop *l = ctx;
	const struct w_slot_get *g = (const void *)m->body;
	char ref[PROTO_IMAGE_MAX];
	struct slot_shape shape = { .net = g->net };

	memcpy(ref, g->image, sizeof(ref));
	ref[sizeof(ref) - 1] = '\0';
	if (g->net != NET_NONE && (g->net != NET_GATEWAY || !can_give_gateway_slots(l))) {
		send_fail(l, g->req, REASON_EGRESS_UNAVAILABLE,
			  l->maker.egress ? "the gateway is not running"
					  : "the egress programs are not loaded");
		return 0;
	}
	shape.image = images_get(&l->images, ref, e);
	if (!shape.image) {
		send_fail(l, g->req, (enum reason)e->code, e->msg);
		return 0;
	}
	for (unsigned i = 0; i < l->used; i++) {
		struct slot *s = &l->slots[i];
		if (s->state == SLOT_WARM && same_shape(s, &shape) && slot_is_alive(s)) {
			give(l, s, g->req);
			return 0;
		}
	}
	/* One that is being built for the pool will be warm soonest. */
	for (unsigned i = 0; i < l->used; i++) {
		struct slot *s = &l->slots[i];
		if (s->state == SLOT_BUILDING && !l->wanted_req[i] && same_shape(s, &shape)) {
			l->wanted_req[i] = g->req;
			return 0;
		}
	}
	struct slot *s = build(l, &shape, e);
	if (!s)
		send_fail(l, g->req, REASON_WORKER_ERROR, e->msg);
	else
		l->wanted_req[index_of(l, s)] = g->req;
	return 0;
}

static struct slot *find(struct loop *l, uint64_t id)
{
	for (unsigned i = 0; i < l->used; i++)
		if (l->slots[i].state != SLOT_FREE && l->slots[i].id == id)
			return &l->slots[i];
	return NULL;
}

static struct slot *find_req(struct loop *l, uint64_t req)
{
	for (unsigned i = 0; i < l->used; i++)
		if (l->slots[i].state != SLOT_FREE && l->slots[i].req == req)
			return &l->slots[i];
	return NULL;
}

/* The size of a sealed argv; 0 when it is not one. */
static uint32_t argv_size(int fd)
{
	struct stat st;

	if (fd < 0 || !fd_is_sealed(fd) || fstat(fd, &st) < 0 || st.st_size <= 0 ||
	    st.st_size > ARGV_BYTES_MAX)
		return 0;
	return (uint32_t)st.st_size;
}

static int start_command(struct loop *l, struct msg *m, struct err *e)
{
	const struct w_run *run = (const void *)m->body;
	struct slot *s = find(l, run->slot);
	bool has_view = run->flags & RUN_HAS_SKILLS;
	uint32_t size = argv_size(m->nfds ? m->fds[0] : -1);
	struct err why;

	if (!s || s->state != SLOT_TAKEN || m->nfds != (has_view ? 2u : 1u)) {
		send_fail(l, run->req, REASON_WORKER_ERROR, "no such slot");
		return 0;
	}
	s->req = run->req;
	s->done.req = run->req;
	s->done.guards = l->guards;
	s->done.guards_missing = l->guards_missing;
	s->owes_done = true;
	s->deadline_ns = clock_monotonic_ns() + START_LIMIT_MS * 1000000ull;
	autoclose int view = has_view ? skills_clone(&l->skills, m->fds[1], &why) : -1;
	if (has_view && view < 0)
		err_set(e, REASON_STAGING_FAILED, "%s", why.msg);
	else if (size && slot_run(s, &l->workspaces, run, m->fds[0], size, view, e) == 0)
		return 0;
	if (!size)
		err_set(e, REASON_WORKER_ERROR, "argv is not a sealed memory file");
	s->fail = (struct w_fail){ .req = run->req, .reason = (uint32_t)e->code };
	snprintf(s->fail.text, sizeof(s->fail.text), "%s", e->msg);
	slot_kill(s);
	return 0;
}

static int on_run(void *ctx, struct msg *m, struct err *e)
{
	int rc = start_command(ctx, m, e);

	explicit_bzero(m->body, sizeof(struct w_run)); /* the proxy's URL holds the job's token */
	return rc;
}

static int on_kill(void *ctx, struct msg *m, struct err *e)
{
	struct loop *l = ctx;
	const struct w_kill *k = (const void *)m->body;
	struct slot *s = find_req(l, k->req);

	(void)e;
	/* The first cause stands; a command that has ended has its own. */
	if (s && s->owes_done && s->state != SLOT_ENDING) {
		s->kill_termination = k->termination;
		s->kill_reason = k->reason;
		slot_kill(s);
	}
	return 0;
}

static int on_drop(void *ctx, struct msg *m, struct err *e)
{
	struct loop *l = ctx;
	const struct w_drop *d = (const void *)m->body;
	struct slot *s = find(l, d->slot);

	(void)e;
	if (s && s->state == SLOT_TAKEN)
		slot_kill(s);
	return 0;
}

static int on_workspace_remove(void *ctx, struct msg *m, struct err *e)
{
	struct loop *l = ctx;
	const struct w_workspace_remove *r = (const void *)m->body;
	struct w_reply reply = { .req = r->req };

	if (workspace_remove(&l->workspaces, r->key, e) < 0)
		reply.reason = e->code == ENOENT ? REASON_WORKSPACE_LOST : REASON_WORKER_ERROR;
	send_broker(l, W_WORKSPACE_REMOVED, &reply, sizeof(reply), NULL, 0);
	return 0;
}

struct lister {
	struct loop *l;
	uint64_t req;
};

static void send_entry(void *ctx, const struct w_workspace_entry *entry)
{
	struct lister *li = ctx;
	struct w_workspace_entry out = *entry;

	out.req = li->req;
	send_broker(li->l, W_WORKSPACE_ENTRY, &out, sizeof(out), NULL, 0);
}

static int on_workspace_list(void *ctx, struct msg *m, struct err *e)
{
	struct loop *l = ctx;
	struct w_reply reply = { .req = ((const struct w_reply *)(const void *)m->body)->req };
	struct lister li = { .l = l, .req = reply.req };

	if (workspaces_list(&l->workspaces, send_entry, &li, e) < 0)
		reply.reason = REASON_WORKER_ERROR;
	send_broker(l, W_WORKSPACE_END, &reply, sizeof(reply), NULL, 0);
	return 0;
}

#define EXACT(type) sizeof(type), sizeof(type)

static const struct msg_permit broker_permits[] = {
	/* type, states, length, descriptors, handler */
	{ W_SLOT_GET, ~0u, EXACT(struct w_slot_get), 0, 0, on_slot_get },
	{ W_RUN, ~0u, EXACT(struct w_run), 1, 2, on_run },
	{ W_KILL, ~0u, EXACT(struct w_kill), 0, 0, on_kill },
	{ W_DROP, ~0u, EXACT(struct w_drop), 0, 0, on_drop },
	{ W_WORKSPACE_REMOVE, ~0u, EXACT(struct w_workspace_remove), 0, 0, on_workspace_remove },
	{ W_WORKSPACE_LIST, ~0u, EXACT(struct w_reply), 0, 0, on_workspace_list },
};

/* --- what launchers say --------------------------------------------------- */

static void on_built(struct loop *l, struct slot *s)
{
	uint64_t *wanted = &l->wanted_req[index_of(l, s)];

	struct err e;

	if (s->state != SLOT_BUILDING)
		return slot_kill(s);
	if (s->egress && egress_room_open(s->egress, s->id, s->pidfd, &e) < 0) {
		s->fail.reason = (uint32_t)e.code;
		snprintf(s->fail.text, sizeof(s->fail.text), "%s", e.msg);
		return slot_kill(s);
	}
	s->state = SLOT_WARM;
	s->deadline_ns = 0;
	if (*wanted) {
		give(l, s, *wanted);
		*wanted = 0;
	}
}

static void tell_started(struct loop *l, const struct slot *s)
{
	struct w_started started = {
		.req = s->req,
		.realtime_ns = clock_realtime_ns(),
		.workspace_bytes = s->ws.quota_bytes,
	};

	send_broker(l, W_STARTED, &started, sizeof(started), NULL, 0);
}

static void on_execed(struct loop *l, struct slot *s, const struct launch_reply *r)
{
	if (s->state != SLOT_STARTING)
		return slot_kill(s);
	s->exec_ns = clock_monotonic_ns();
	s->deadline_ns = s->exec_ns + s->limits.timeout_ms * 1000000ull;
	s->state = SLOT_RUNNING;
	fault_hit("started.before");
	tell_started(l, s);
	if (r->code) {
		/* What a shell answers: 127 not found, 126 not executable (SPEC 16). */
		s->done.exit_code = r->code == ENOENT ? 127 : 126;
		s->has_ended = true;
		slot_kill(s);
	}
}

static void on_exited(struct slot *s, const struct launch_reply *r)
{
	if (s->state != SLOT_RUNNING)
		return slot_kill(s);
	s->has_ended = true;
	s->done.wall_ns = clock_monotonic_ns() - s->exec_ns;
	s->done.exit_code = r->signaled ? -1 : r->code;
	s->done.signal = r->signaled ? r->code : 0;
	slot_kill(s);
}

static void on_failed(struct slot *s, const struct launch_reply *r)
{
	s->fail.reason = r->bad_request ? REASON_INVALID_REQUEST : REASON_WORKER_ERROR;
	snprintf(s->fail.text, sizeof(s->fail.text), "sandbox: %.63s: %s", r->step,
		 strerror(r->code));
	slot_kill(s);
}

static void from_launcher(struct loop *l, struct slot *s)
{
	struct launch_reply r;

	while (s->state != SLOT_ENDING && s->state != SLOT_FREE) {
		ssize_t n = recv(s->sock, &r, sizeof(r), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		r.step[sizeof(r.step) - 1] = '\0';
		if (n != (ssize_t)sizeof(r))
			slot_kill(s); /* it is gone; what it owed is settled by slot_finish */
		else if (r.type == LAUNCH_BUILT)
			on_built(l, s);
		else if (r.type == LAUNCH_EXECED)
			on_execed(l, s, &r);
		else if (r.type == LAUNCH_EXITED)
			on_exited(s, &r);
		else
			on_failed(s, &r);
	}
}

/* --- ends ----------------------------------------------------------------- */

/* The answer a slot still owes, and its place free again. */
static void settle(struct loop *l, struct slot *s)
{
	uint64_t *wanted = &l->wanted_req[index_of(l, s)];

	fault_hit("done.before");
	const char *text = s->fail.text[0] ? s->fail.text : "the sandbox could not be made";

	if (s->owes_done && !s->fail.reason) {
		/* Without its exec told it was let run all the same, and may have (A3). */
		if (!s->exec_ns)
			tell_started(l, s);
		else if (!s->done.wall_ns)
			s->done.wall_ns = clock_monotonic_ns() - s->exec_ns;
		send_broker(l, W_DONE, &s->done, sizeof(s->done), NULL, 0);
	} else if (s->owes_done) {
		enum reason r = s->fail.reason ? s->fail.reason : REASON_WORKER_ERROR;
		send_fail(l, s->req, r, text);
	} else if (*wanted) {
		send_fail(l, *wanted, s->fail.reason ? s->fail.reason : REASON_WORKER_ERROR, text);
	}
	if (s->fail.reason)
		log_error("slot", "id=%llu error=\"%s\"", (unsigned long long)s->id, s->fail.text);
	if (!s->owes_done && s->fail.reason)
		l->pool_retry_ns = clock_monotonic_ns() + POOL_RETRY_MS * 1000000ull;
	*wanted = 0;
	s->shape.image->slots--;
	memset(s, 0, sizeof(*s));
	while (l->used && l->slots[l->used - 1].state == SLOT_FREE)
		l->used--;
}

static void on_deadline(struct slot *s)
{
	if (s->state == SLOT_RUNNING) {
		s->kill_termination = TERMINATION_TIMEOUT;
	} else if (s->state == SLOT_STARTING) {
		log_error("slot", "id=%llu error=\"the launcher does not say that it began\"",
			  (unsigned long long)s->id);
	} else {
		s->fail.reason = REASON_WORKER_ERROR;
		strcpy(s->fail.text, "sandbox: the launcher does not answer");
	}
	slot_kill(s);
}

/* As epoll_wait takes it: whole milliseconds, rounded up; -1: never. */
static int ms_until(uint64_t ns)
{
	uint64_t now = clock_monotonic_ns();

	if (ns == UINT64_MAX)
		return -1;
	return ns <= now ? 0 : (int)((ns - now + 999999) / 1000000);
}

static int sooner(int a_ms, int b_ms)
{
	return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* Deadlines passed, ends finished; gives the milliseconds until the next turn is due. */
static int turn(struct loop *l)
{
	uint64_t now = clock_monotonic_ns(), next = UINT64_MAX;

	for (unsigned i = 0; i < l->used; i++) {
		struct slot *s = &l->slots[i];
		if (s->state == SLOT_FREE)
			continue;
		if (s->deadline_ns && s->deadline_ns <= now)
			on_deadline(s);
		if (s->state == SLOT_ENDING) {
			if (slot_finish(s)) {
				settle(l, s);
				continue;
			}
			next = now + FINISH_STEP_MS * 1000000ull < next ?
				       now + FINISH_STEP_MS * 1000000ull :
				       next;
		} else if (s->deadline_ns && s->deadline_ns < next) {
			next = s->deadline_ns;
		}
	}
	return ms_until(next);
}

/* --- the loop ------------------------------------------------------------- */

static int from_broker(struct loop *l, struct msg *m, struct err *e)
{
	int rc = msg_recv(l->broker_fd, m, e);

	if (rc <= 0)
		return rc == 0 ? 1 : rc; /* gone: 1 */
	return msg_dispatch(broker_permits, ARRAY_SIZE(broker_permits), 1, l, m, e);
}

/* A (re)started gateway knows none of the rooms of before: slots that wait are of no use. */
static int on_peer(struct loop *l, struct msg *m, struct err *e)
{
	enum supervisor_fd kind;
	int fd = start_peer(m, &kind, e);

	if (fd < 0)
		return fd;
	if (kind != SFD_GATEWAY || !l->maker.egress) {
		close(fd);
		return 0;
	}
	egress_set_gateway(l->maker.egress, fd);
	for (unsigned i = 0; i < l->used; i++)
		if (l->slots[i].egress && l->slots[i].state <= SLOT_TAKEN &&
		    l->slots[i].state != SLOT_FREE)
			slot_kill(&l->slots[i]);
	return 0;
}

static int pidfd_of(void *ctx, uint64_t cgroup_id)
{
	struct loop *l = ctx;

	for (unsigned i = 0; i < l->used; i++)
		if (l->slots[i].state != SLOT_FREE && l->slots[i].cg.id == cgroup_id)
			return l->slots[i].pidfd;
	return -1;
}

/* cordond speaks of peers and reloads; anything else, or its own end, ends the worker. */
static int from_supervisor(struct loop *l, struct msg *m, struct err *e)
{
	int rc = msg_recv(l->supervisor_fd, m, e);

	if (rc > 0 && m->type == S_RELOAD) {
		struct config c; /* every key of ours is read at start alone, but one: start_reload */
		struct err why;
		rc = start_reload(m, &c, &why);
		msg_close_fds(m);
		return start_reloaded(rc < 0 ? &why : NULL, e);
	}
	if (rc > 0 && m->type == S_PEER)
		return on_peer(l, m, e);
	if (rc > 0)
		msg_close_fds(m);
	return 1;
}

static int handle(struct loop *l, uint64_t tag, struct msg *m, struct err *e)
{
	struct slot *s = &l->slots[tag >> SOURCE_BITS];

	switch (tag & ((1u << SOURCE_BITS) - 1)) {
	case FROM_BROKER:
		return from_broker(l, m, e);
	case FROM_SUPERVISOR:
		return from_supervisor(l, m, e);
	case FROM_EGRESS:
		egress_on_events(l->maker.egress, pidfd_of, l);
		return 0;
	case FROM_LAUNCHER:
		from_launcher(l, s);
		return 0;
	default:
		/* What it said before it died comes first. */
		from_launcher(l, s);
		if (s->state != SLOT_FREE && s->state != SLOT_ENDING)
			slot_kill(s);
		return 0;
	}
}

/* Everything dead and removed before the worker ends. */
static void end_all(struct loop *l)
{
	l->is_stopping = true;
	for (unsigned i = 0; i < l->used; i++)
		if (l->slots[i].state != SLOT_FREE && l->slots[i].state != SLOT_ENDING) {
			l->slots[i].kill_termination = TERMINATION_EXITED;
			l->slots[i].kill_reason = REASON_SHUTDOWN;
			slot_kill(&l->slots[i]);
		}
	for (int i = 0; i < 5000; i++) {
		bool busy = false;
		turn(l);
		for (unsigned s = 0; s < l->used; s++)
			busy |= l->slots[s].state != SLOT_FREE;
		if (!busy)
			return;
		usleep(1000);
	}
}

int loop_run(struct loop *l, struct err *e)
{
	static struct msg m;
	struct epoll_event events[EVENTS];
	int rc = 0;

	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0)
		return err_set(e, errno, "epoll: %s", strerror(errno));
	if (watch(l, l->broker_fd, FROM_BROKER, 0, e) < 0 ||
	    watch(l, l->supervisor_fd, FROM_SUPERVISOR, 0, e) < 0 ||
	    (l->maker.egress &&
	     watch(l, egress_events_fd(l->maker.egress), FROM_EGRESS, 0, e) < 0))
		return -e->code;
	while (rc == 0) {
		enum net_kind net;
		int timeout = sooner(turn(l), ms_until(pool_lacks(l, &net)));
		int n = epoll_wait(l->epoll_fd, events, EVENTS, timeout);
		if (n > 0)
			l->event_ns = clock_monotonic_ns();
		else if (n == 0 && ms_until(pool_lacks(l, &net)) == 0)
			fill_pool(l, net);
		if (n < 0 && errno != EINTR)
			rc = err_set(e, errno, "epoll: %s", strerror(errno));
		for (int i = 0; i < n && rc == 0; i++)
			rc = handle(l, events[i].data.u64, &m, e);
	}
	end_all(l);
	return rc < 0 ? rc : 0;
}
