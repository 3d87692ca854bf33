/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop. What comes in: daemons' messages, daemons' deaths, signals, the
 * control socket, time. What goes out: starts, stops, restarts. It knows
 * nothing of what the daemons do.
 */
#include "supervisor/life.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scope.h"
#include "supervisor/sweep.h"

enum {
	BOOT_MS = 120000,  /* a cold handshake over a big image */
	STOP_MS = 10000,   /* beyond the drain, per step, before a daemon is killed */
	RETRY_MIN_MS = 50, /* doubling up to RETRY_MAX_MS: a bounded rate of restarts */
	RETRY_MAX_MS = 5000,
	HEALTHY_MS = 30000, /* having lived this long a death counts as the first */
	STEPS = 3,
	POLL_MAX = 2 + CLIENTS_MAX + 2 * D_COUNT,
};

static const char *name_of(enum daemon_id id)
{
	return daemon_rows[id].name;
}

/* --- The boot's outcome */

static void report(struct life *l, const struct err *failed)
{
	struct s_result r = { .code = failed ? failed->code : 0 };

	if (failed)
		snprintf(r.text, sizeof(r.text), "%s", failed->msg);
	if (l->report_fd >= 0 && write(l->report_fd, &r, sizeof(r)) != sizeof(r))
		log_error("report", "nobody waits for the start");
	if (l->report_fd >= 0)
		close(take_fd(&l->report_fd));
}

static void boot_failed(struct life *l, const struct err *why)
{
	if (l->phase != LIFE_BOOTING)
		return;
	l->failed = *why;
	log_error("boot", "%s", why->msg);
	life_stop(l, 0);
}

static void check_boot(struct life *l)
{
	for (int i = 0; i < D_COUNT; i++)
		if (l->daemons.of[i].state != DAEMON_ABSENT &&
		    l->daemons.of[i].state != DAEMON_READY)
			return;
	fault_hit("cordond.up");
	l->phase = LIFE_SERVING;
	log_info("up", "instance=%s", l->plane->instance);
	report(l, NULL);
}

/* --- Starting and losing a daemon */

static void plan_restart(struct life *l, enum daemon_id id, uint64_t now)
{
	struct daemon *d = &l->daemons.of[id];
	unsigned shift = d->failures < 8 ? d->failures : 8;
	uint64_t wait = (uint64_t)RETRY_MIN_MS << shift;

	d->failures++;
	d->retry_ms = now + (wait < RETRY_MAX_MS ? wait : RETRY_MAX_MS);
}

static void start(struct life *l, enum daemon_id id, uint64_t now)
{
	struct err e;

	/* Nothing of a dead worker's sandboxes may be alive when the next one starts. */
	if (id == D_WORKER && l->phase == LIFE_SERVING && sweep_kill_jobs(l->plane, &e) < 0)
		log_error("sweep", "%s", e.msg);
	fault_hit("cordond.start");
	if (daemons_start(&l->daemons, l->plane, id, now, &e) == 0)
		return;
	err_wrap(&e, name_of(id));
	if (l->daemons.of[id].pid > 0)
		kill(l->daemons.of[id].pid, SIGKILL); /* its pidfd will tell */
	else
		plan_restart(l, id, now);
	if (l->phase == LIFE_BOOTING)
		boot_failed(l, &e);
	else
		log_error("start", "%s", e.msg);
}

static void describe_end(int status, char *ret, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(ret, size, "killed by signal %d", WTERMSIG(status));
	else
		snprintf(ret, size, "exited with status %d", WEXITSTATUS(status));
}

static void on_death(struct life *l, enum daemon_id id)
{
	struct daemon *d = &l->daemons.of[id];
	char how[64];
	int status;
	struct err e;
	uint64_t now = clock_monotonic_ms();

	if (waitpid(d->pid, &status, WNOHANG) != d->pid)
		return;
	describe_end(status, how, sizeof(how));
	bool asked = d->state == DAEMON_STOPPING;
	struct err last = d->last;
	if (asked && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		log_info("stopped", "daemon=%s", name_of(id));
	else
		log_error("died", "daemon=%s pid=%d %s%s%s", name_of(id), (int)d->pid, how,
			  last.code ? ": " : "", last.code ? last.msg : "");
	if (now - d->started_ms >= HEALTHY_MS)
		d->failures = 0;
	reload_forget(l, id);
	daemons_forget(&l->daemons, id);
	if (id == D_WORKER && sweep_kill_jobs(l->plane, &e) < 0)
		log_error("sweep", "%s", e.msg);
	if (l->phase == LIFE_BOOTING) {
		err_set(&e, last.code ? last.code : ECHILD, "%s: %s", name_of(id),
			last.code ? last.msg : how);
		boot_failed(l, &e);
	} else if (l->phase == LIFE_SERVING) {
		d->restarts++;
		plan_restart(l, id, now);
	}
}

/* --- Messages of the daemons */

struct from {
	struct life *life;
	enum daemon_id id;
};

static int on_ready(void *ctx, struct msg *m, struct err *e)
{
	struct from *f = ctx;
	struct daemon *d = &f->life->daemons.of[f->id];

	(void)m;
	(void)e;
	d->state = DAEMON_READY;
	log_info("ready", "daemon=%s pid=%d ms=%llu", name_of(f->id), (int)d->pid,
		 (unsigned long long)(clock_monotonic_ms() - d->started_ms));
	if (f->life->phase == LIFE_BOOTING)
		check_boot(f->life);
	return 0;
}

static int on_fatal(void *ctx, struct msg *m, struct err *e)
{
	struct from *f = ctx;
	struct s_result r;

	(void)e;
	memcpy(&r, m->body, sizeof(r));
	r.text[sizeof(r.text) - 1] = '\0';
	err_set(&f->life->daemons.of[f->id].last, r.code, "%s", r.text);
	return 0;
}

static int on_reloaded(void *ctx, struct msg *m, struct err *e)
{
	struct from *f = ctx;

	return reload_on_answer(f->life, f->id, m, e);
}

enum { ALIVE = DAEMON_STARTING | DAEMON_READY | DAEMON_STOPPING };

static const struct msg_permit permits[] = {
	{ S_READY, DAEMON_STARTING, 0, 0, 0, 0, on_ready },
	{ S_FATAL, ALIVE, sizeof(struct s_result), sizeof(struct s_result), 0, 0, on_fatal },
	{ S_RELOADED, DAEMON_READY, sizeof(struct s_result), sizeof(struct s_result), 0, 0,
	  on_reloaded },
};

/* A daemon that closes its end or breaks the contract is killed; its pidfd does the rest. */
static void on_daemon(struct life *l, enum daemon_id id)
{
	struct daemon *d = &l->daemons.of[id];
	struct from from = { l, id };
	struct err e;
	int rc = msg_recv(d->fd, &l->msg, &e);
	bool is_gone = rc == 0;

	if (rc == -EAGAIN)
		return;
	if (rc > 0)
		rc = msg_dispatch(permits, ARRAY_SIZE(permits), d->state, &from, &l->msg, &e);
	else if (rc == 0)
		rc = d->state == DAEMON_STOPPING ? 0 : err_set(&e, EPIPE, "closed descriptor 3");
	if (rc < 0) {
		log_error("protocol", "daemon=%s %s", name_of(id), e.msg);
		kill(d->pid, SIGKILL);
	}
	/* A closed end stays readable for ever: its death would never be looked at. */
	if (rc < 0 || is_gone)
		close(take_fd(&d->fd));
}

/* --- Stopping: step by step, the broker first, the ledger last */

static bool step_is_over(const struct life *l)
{
	for (int i = 0; i < D_COUNT; i++)
		if (daemon_rows[i].stop_step == l->stop_step && l->daemons.of[i].pid > 0)
			return false;
	return true;
}

static void begin_step(struct life *l)
{
	struct s_stop s = { .drain_ms = l->stop_step == 0 ? l->drain_ms : 0 };
	struct err ignored;

	l->stop_deadline_ms = clock_monotonic_ms() + s.drain_ms + STOP_MS;
	for (int i = 0; i < D_COUNT; i++) {
		struct daemon *d = &l->daemons.of[i];
		if (daemon_rows[i].stop_step != l->stop_step || d->pid <= 0)
			continue;
		/* One that cannot be asked is killed at once: nothing will make it listen. */
		if (msg_send(d->fd, S_STOP, &s, sizeof(s), NULL, 0, &ignored) < 0)
			kill(d->pid, SIGKILL);
		d->state = DAEMON_STOPPING;
	}
}

static void check_stop(struct life *l, uint64_t now)
{
	while (l->stop_step < STEPS && step_is_over(l)) {
		l->stop_step++;
		begin_step(l);
	}
	if (l->stop_step == STEPS) {
		l->phase = LIFE_OVER;
		return;
	}
	if (now < l->stop_deadline_ms)
		return;
	for (int i = 0; i < D_COUNT; i++)
		if (daemon_rows[i].stop_step == l->stop_step && l->daemons.of[i].pid > 0) {
			log_error("stop", "daemon=%s does not end, killed", name_of(i));
			kill(l->daemons.of[i].pid, SIGKILL);
		}
	l->stop_deadline_ms = now + STOP_MS;
}

void life_stop(struct life *l, uint32_t drain_ms)
{
	if (l->phase >= LIFE_STOPPING)
		return;
	log_info("down", "drain_ms=%u", drain_ms);
	fault_hit("cordond.down");
	l->phase = LIFE_STOPPING;
	l->drain_ms = drain_ms;
	l->stop_step = 0;
	for (int i = 0; i < D_COUNT; i++)
		l->daemons.of[i].retry_ms = 0;
	begin_step(l);
}

/* --- Signals and time */

static void on_signal(struct life *l)
{
	struct signalfd_siginfo s;

	if (read(l->signal_fd, &s, sizeof(s)) != sizeof(s))
		return;
	if (s.ssi_signo == SIGHUP)
		life_reload(l);
	else
		life_stop(l, 0);
}

static void on_time(struct life *l, uint64_t now)
{
	struct err e;

	for (int i = 0; i < D_COUNT; i++) {
		struct daemon *d = &l->daemons.of[i];
		if (d->retry_ms && now >= d->retry_ms && l->phase == LIFE_SERVING) {
			d->retry_ms = 0;
			start(l, (enum daemon_id)i, now);
		}
	}
	reload_check(l, now);
	if (l->phase == LIFE_STOPPING)
		check_stop(l, now);
	if (l->phase == LIFE_BOOTING && now >= l->boot_deadline_ms) {
		err_set(&e, ETIMEDOUT, "not ready within %d seconds", BOOT_MS / 1000);
		boot_failed(l, &e);
	}
}

static void earlier(uint64_t *at, uint64_t when)
{
	if (when && when < *at)
		*at = when;
}

static int wait_ms(const struct life *l, uint64_t now)
{
	uint64_t at = now + 60000;

	for (int i = 0; i < D_COUNT; i++)
		earlier(&at, l->daemons.of[i].retry_ms);
	earlier(&at, l->reload_deadline_ms);
	if (l->phase == LIFE_BOOTING)
		earlier(&at, l->boot_deadline_ms);
	if (l->phase == LIFE_STOPPING)
		earlier(&at, l->stop_deadline_ms);
	return at > now ? (int)(at - now) : 0;
}

/* --- The loop */

static int poll_set(const struct life *l, struct pollfd *set)
{
	int n = 0;

	set[n++] = (struct pollfd){ .fd = l->signal_fd, .events = POLLIN };
	set[n++] = (struct pollfd){ .fd = l->control_fd, .events = POLLIN };
	for (int i = 0; i < CLIENTS_MAX; i++)
		set[n++] = (struct pollfd){ .fd = l->clients[i].fd, .events = POLLIN };
	for (int i = 0; i < D_COUNT; i++) {
		set[n++] = (struct pollfd){ .fd = l->daemons.of[i].fd, .events = POLLIN };
		set[n++] = (struct pollfd){ .fd = l->daemons.of[i].pidfd, .events = POLLIN };
	}
	return n;
}

static void dispatch(struct life *l, const struct pollfd *set)
{
	if (set[0].revents)
		on_signal(l);
	if (set[1].revents)
		control_accept(l);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (set[2 + i].revents && l->clients[i].fd == set[2 + i].fd)
			control_on_client(l, &l->clients[i]);
	for (int i = 0; i < D_COUNT; i++) {
		const struct pollfd *fd = &set[2 + CLIENTS_MAX + 2 * i], *pidfd = fd + 1;
		/* Its last words before its death. */
		if (fd->revents & POLLIN)
			on_daemon(l, (enum daemon_id)i);
		else if (pidfd->revents)
			on_death(l, (enum daemon_id)i);
		else if (fd->revents)
			on_daemon(l, (enum daemon_id)i);
	}
}

static int open_signals(struct life *l, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return l->signal_fd < 0 ? err_set(e, errno, "signalfd: %s", strerror(errno)) : 0;
}

int life_run(struct life *l, struct err *e)
{
	struct pollfd set[POLL_MAX];
	uint64_t now = clock_monotonic_ms();

	for (int i = 0; i < CLIENTS_MAX; i++)
		l->clients[i].fd = -1;
	if (open_signals(l, e) < 0)
		return -e->code;
	l->phase = LIFE_BOOTING;
	l->boot_deadline_ms = now + BOOT_MS;
	for (int i = 0; i < D_COUNT && l->phase == LIFE_BOOTING; i++)
		if (l->daemons.of[i].state != DAEMON_ABSENT)
			start(l, (enum daemon_id)i, now);
	while (l->phase != LIFE_OVER) {
		now = clock_monotonic_ms();
		int n = poll_set(l, set);
		if (poll(set, (nfds_t)n, wait_ms(l, now)) < 0 && errno != EINTR)
			return err_set(e, errno, "poll: %s", strerror(errno));
		dispatch(l, set);
		on_time(l, clock_monotonic_ms());
	}
	if (l->failed.code)
		*e = l->failed;
	return -l->failed.code;
}
