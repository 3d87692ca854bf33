/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker among its peers: what cordond says, workers and ledgers that come
 * and go, the reload (all or nothing) and the orderly end. Knows no request.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"

enum {
	READY_LIMIT_MS = 3000, /* then it serves without worker or ledger, and says so */
	OVER_TICK_MS = 10,
	OVER_LIMIT_MS = 3000, /* for rows to be acknowledged and answers to be read */
};

/* --- Peers */

/* Opens the door; before that nobody is told that there is no such job, or no worker. */
static void serve(struct broker *b)
{
	struct err e = { 0 };

	b->is_ready = true;
	loop_timer_clear(&b->loop, &b->ready_limit);
	if (http_listen(&b->http, &e) < 0 || start_ready(&e) < 0)
		log_error("ready", "error=\"%s\"", e.msg);
}

void life_check_ready(struct broker *b)
{
	if (!b->is_ready && worker_is_up(&b->worker) && b->is_restored)
		serve(b);
}

static void on_ready_limit(struct timer *t)
{
	struct broker *b = CONTAINER_OF(t, struct broker, ready_limit);

	log_error("ready", "worker=%d ledger=%d", worker_is_up(&b->worker),
		  ledger_is_up(&b->ledger));
	serve(b);
}

static void on_worker_ready(struct worker_link *w)
{
	struct broker *b = CONTAINER_OF(w, struct broker, worker);

	log_info("worker", "up pool=%u", w->ready.pool);
	skills_set_root(&b->skills, take_fd(&w->skills_fd));
	reap_on_worker(b);
	life_check_ready(b);
	health_changed(b);
}

static void on_worker_lost(struct worker_link *w)
{
	health_changed(CONTAINER_OF(w, struct broker, worker));
}

static void on_ledger_ready(struct ledger_link *l, const json_t *ready)
{
	struct broker *b = CONTAINER_OF(l, struct broker, ledger);

	(void)ready;
	log_info("ledger", "up waiting=%zu", l->nwaiting);
	jobs_restore(b);
}

static void on_skills_pinged(struct skills_link *k)
{
	health_skills_pinged(CONTAINER_OF(k, struct broker, skills));
}

static void on_ledger_heard(struct ledger_link *l)
{
	struct broker *b = CONTAINER_OF(l, struct broker, ledger);

	jobs_restore(b);
	health_changed(b);
}

static int connect_peer(struct broker *b, enum supervisor_fd kind, int fd, struct err *e)
{
	if (kind == SFD_WORKER)
		return worker_connect(&b->worker, fd, e);
	if (kind == SFD_LEDGER)
		return ledger_connect(&b->ledger, fd, e);
	if (kind == SFD_SKILLS)
		return skills_connect(&b->skills, fd, e);
	if (kind == SFD_GATEWAY)
		return gateway_connect(&b->gateway, fd, e);
	close(fd);
	return 0; /* a room that is not built yet */
}

/* --- Reload */

static int apply(struct broker *b, const struct config *c, struct err *e)
{
	autofree struct egress_policy *most = malloc(sizeof(*most));
	struct broker_keys keys;
	struct peer_rules peers;
	struct voucher_rules vouchers;

	if (keys_load(b->secrets_fd, getuid(), &keys, e) < 0)
		return -e->code;
	if (voucher_rules_load(c, b->voucher_path, &vouchers, e) < 0 ||
	    peer_rules_parse(c->peers, c->group, &peers, e) < 0) {
		keys_done(&keys);
		return -e->code;
	}
	if (!most || egress_maximum(c, most, e) < 0) {
		keys_done(&keys);
		peer_rules_done(&peers);
		return most ? -e->code : err_set(e, ENOMEM, "reload: out of memory");
	}
	b->egress_maximum = *most;
	b->vouchers = vouchers;
	keys_done(&b->keys);
	b->keys = keys;
	peer_rules_done(&b->peers);
	b->peers = peers;
	b->config = *c;
	b->admission.ceilings = broker_ceilings(c);
	return 0;
}

struct admission_ceilings broker_ceilings(const struct config *c)
{
	struct admission_ceilings a = ADMISSION_DEFAULT;

	a.running = c->running;
	a.running_per_org = c->running_per_org;
	a.waiting = c->queued;
	a.waiting_per_org = c->queued_per_org;
	a.jobs_per_org = c->open_jobs_per_org;
	return a;
}

static void on_reload(struct broker *b, struct msg *m)
{
	autofree struct config *c = malloc(sizeof(*c));
	struct err why = { 0 }, e = { 0 };
	int rc = c ? start_reload(m, c, &why) : err_set(&why, ENOMEM, "reload: out of memory");

	if (rc == 0)
		rc = apply(b, c, &why);
	if (rc < 0)
		log_error("reload", "error=\"%s\"", why.msg);
	if (start_reloaded(rc < 0 ? &why : NULL, &e) < 0)
		log_error("reload", "error=\"%s\"", e.msg);
	if (rc == 0) {
		admit_more(b);
		health_changed(b);
	}
}

/* --- The end */

static bool is_over(const struct broker *b)
{
	if (b->ninflight || b->retain.first)
		return false;
	if (ledger_is_up(&b->ledger) && !ledger_is_idle(&b->ledger))
		return false;
	for (const struct client *c = b->http.clients; c; c = c->next)
		if (c->exchange)
			return false;
	return true;
}

static void on_over_tick(struct timer *t)
{
	struct broker *b = CONTAINER_OF(t, struct broker, drain);
	bool is_late = clock_monotonic_ms() > b->over_at_ms;

	if (is_over(b) || is_late) {
		log_info("down", "inflight=%u rows_waiting=%zu", b->ninflight, b->ledger.nwaiting);
		loop_end(&b->loop);
		return;
	}
	loop_timer_set(&b->loop, &b->drain, OVER_TICK_MS, on_over_tick);
}

/* Stops every command, or those that only wait. Stopping one may end others. */
static void stop_commands(struct broker *b, bool waiting_only)
{
	for (struct job *j = b->jobs.oldest; j; j = j->newer)
		for (struct command *c = j->commands; c; c = c->next)
			c->is_to_stop = !waiting_only || c->item.state == ADMISSION_WAITING;
	for (struct job *j = b->jobs.oldest; j;) {
		struct command *c = j->commands;
		while (c && !c->is_to_stop)
			c = c->next;
		if (!c) {
			j = j->newer;
			continue;
		}
		c->is_to_stop = false;
		command_stop(c, REASON_SHUTDOWN);
		j = b->jobs.oldest;
	}
}

static void on_drained(struct timer *t)
{
	struct broker *b = CONTAINER_OF(t, struct broker, drain);

	stop_commands(b, false);
	b->over_at_ms = clock_monotonic_ms() + OVER_LIMIT_MS;
	loop_timer_set(&b->loop, &b->drain, 0, on_over_tick);
}

static void on_drain_tick(struct timer *t)
{
	struct broker *b = CONTAINER_OF(t, struct broker, drain);

	if (b->ninflight == 0 || clock_monotonic_ms() >= b->over_at_ms)
		on_drained(t);
	else
		loop_timer_set(&b->loop, &b->drain, OVER_TICK_MS, on_drain_tick);
}

static void on_stop(struct broker *b, const struct msg *m)
{
	struct s_stop s = { 0 };

	memcpy(&s, m->body, m->len < sizeof(s) ? m->len : sizeof(s));
	if (b->is_stopping)
		return;
	b->is_stopping = true;
	ledger_hurry(&b->ledger);
	http_stop_listening(&b->http);
	stop_commands(b, true);
	b->over_at_ms = clock_monotonic_ms() + s.drain_ms;
	loop_timer_set(&b->loop, &b->drain, 0, on_drain_tick);
}

/* --- cordond */

static void on_supervisor(struct watch *w, uint32_t events)
{
	struct broker *b = CONTAINER_OF(w, struct broker, supervisor_watch);
	enum supervisor_fd kind;
	struct err e = { 0 };
	int rc = msg_recv(SUPERVISOR_FD, b->buf, &e), fd;

	(void)events;
	if (rc == -EAGAIN)
		return;
	if (rc <= 0) {
		log_error("cordond_lost", "the plane is gone");
		loop_end(&b->loop);
		return;
	}
	switch (b->buf->type) {
	case S_PEER:
		fd = start_peer(b->buf, &kind, &e);
		if (fd < 0 || connect_peer(b, kind, fd, &e) < 0)
			log_error("peer", "error=\"%s\"", e.msg);
		break;
	case S_RELOAD:
		on_reload(b, b->buf);
		break;
	case S_STOP:
		on_stop(b, b->buf);
		break;
	default:
		log_error("cordond", "error=\"message %u\"", b->buf->type);
	}
	msg_close_fds(b->buf);
}

/* Answers leave first; rows follow, so that nobody's answer waits for the ledger to be woken. */
static int before_wait(void *ctx)
{
	struct broker *b = ctx;
	int ms = http_before_wait(&b->http);

	if (b->unrecorded) {
		record_flush(b);
		ms = http_before_wait(&b->http); /* those that waited for an end */
	}
	ledger_flush(&b->ledger);
	return b->unrecorded ? 0 : ms;
}

int life_open(struct broker *b, struct err *e)
{
	int worker = start_take_fd(&b->start, SFD_WORKER);
	int ledger = start_take_fd(&b->start, SFD_LEDGER);
	int skills = start_take_fd(&b->start, SFD_SKILLS);
	int gateway = start_take_fd(&b->start, SFD_GATEWAY);

	worker_init(&b->worker, &b->loop, b->buf);
	gateway_init(&b->gateway, &b->loop, b->buf);
	b->worker.on_ready = on_worker_ready;
	b->worker.on_lost = on_worker_lost;
	if (ledger_init(&b->ledger, &b->loop, b->buf, e) < 0 ||
	    skills_init(&b->skills, &b->loop, b->buf, e) < 0)
		return -e->code;
	b->ledger.on_ready = on_ledger_ready;
	b->ledger.on_heard = on_ledger_heard;
	b->skills.on_pinged = on_skills_pinged;
	if (ledger >= 0 && ledger_connect(&b->ledger, ledger, e) < 0)
		return -e->code;
	if (skills >= 0 && skills_connect(&b->skills, skills, e) < 0)
		return -e->code;
	if (egress_maximum(&b->config, &b->egress_maximum, e) < 0)
		return -e->code;
	if (gateway >= 0 && gateway_connect(&b->gateway, gateway, e) < 0)
		return -e->code;
	if (worker >= 0 && worker_connect(&b->worker, worker, e) < 0)
		return -e->code;
	loop_timer_set(&b->loop, &b->ready_limit, READY_LIMIT_MS, on_ready_limit);
	b->loop.before_wait = before_wait;
	b->loop.before_wait_ctx = b;
	return loop_watch(&b->loop, &b->supervisor_watch, SUPERVISOR_FD, EPOLLIN, on_supervisor, e);
}
