/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of daemons and of who speaks to whom, and the one way a daemon is
 * started: fork, exec with an empty environment, S_START.
 */
#include "supervisor/daemons.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "supervisor/sweep.h"
#include "wire/msg.h"

enum { LAUNCHER_MAX = 16 << 20 };

const struct daemon_row daemon_rows[D_COUNT] = {
	/*	       name	  reader       as_peer	    optional wants stop */
	[D_LEDGER] = { "ledger", FOR_LEDGER, SFD_LEDGER, false, 0, 2 },
	[D_WORKER] = { "worker", FOR_WORKER, SFD_WORKER, false,
		       WANTS_LAUNCHER | WANTS_SKILLS_MOUNT, 1 },
	[D_GATEWAY] = { "gateway", FOR_GATEWAY, SFD_GATEWAY, true, 0, 1 },
	[D_SKILLS] = { "skills", FOR_SKILLS, SFD_SKILLS, true, WANTS_FUSE, 1 },
	[D_BROKER] = { "broker", FOR_BROKER, SFD_BROKER, false, WANTS_LISTEN, 0 },
};

/* Who has a socket pair with whom. */
static const struct {
	enum daemon_id a, b;
} edges[] = {
	{ D_BROKER, D_WORKER },
	{ D_BROKER, D_LEDGER },
	{ D_BROKER, D_GATEWAY },
	{ D_BROKER, D_SKILLS },
	{ D_WORKER, D_GATEWAY },
};

static int program_path(enum daemon_id id, char *ret, size_t size, struct err *e)
{
	char name[32];

	snprintf(name, sizeof(name), "cordon-%s", daemon_rows[id].name);
	return places_program(name, ret, size, e);
}

/* An optional daemon is there when its program is, and what it lives on. */
static int find_program(const struct plane *p, struct daemons *d, enum daemon_id id, struct err *e)
{
	char path[4096];
	int rc = program_path(id, path, sizeof(path), e);

	if (rc == 0 && id == D_GATEWAY && !p->config.gateway)
		rc = -ENOENT;
	if (rc == 0 && (daemon_rows[id].wants & WANTS_FUSE))
		rc = fuse_open(p, &d->fuse, e);
	return rc;
}

int daemons_init(struct daemons *d, const struct plane *p, int listen_fd, int log_fd,
		 struct err *e)
{
	memset(d, 0, sizeof(*d));
	memset(d->pending, 0xff, sizeof(d->pending)); /* -1 */
	d->listen_fd = listen_fd;
	d->log_fd = log_fd;
	d->fuse.device_fd = d->fuse.state_fd = -1;
	for (int i = 0; i < D_COUNT; i++) {
		d->of[i] = (struct daemon){ .state = DAEMON_DOWN, .pidfd = -1, .fd = -1 };
		if (find_program(p, d, (enum daemon_id)i, e) == 0)
			continue;
		if (!daemon_rows[i].is_optional)
			return -e->code;
		d->of[i].state = DAEMON_ABSENT;
	}
	return 0;
}

/* --- S_START */

struct parcel {
	struct s_start s;
	int fds[8]; /* owned */
};

static void parcel_close(struct parcel *c)
{
	for (unsigned i = 0; i < c->s.nfds; i++)
		if (c->fds[i] >= 0)
			close(c->fds[i]);
}

#define autoparcel __attribute__((cleanup(parcel_close))) struct parcel

static struct parcel parcel_new(const struct plane *p, enum daemon_id id)
{
	struct parcel c = { 0 };

	snprintf(c.s.root, sizeof(c.s.root), "%s", p->places.root);
	snprintf(c.s.instance, sizeof(c.s.instance), "%s", p->instance);
	plane_daemon_id(p, daemon_rows[id].reader, &c.s.uid, &c.s.gid);
	return c;
}

/* Takes @fd. */
static void parcel_add(struct parcel *c, enum supervisor_fd kind, int fd)
{
	c->s.kinds[c->s.nfds] = kind;
	c->fds[c->s.nfds++] = fd;
}

static int parcel_send(const struct parcel *c, int to, enum supervisor_msg type, struct err *e)
{
	return msg_send(to, (uint16_t)type, &c->s, sizeof(c->s), c->fds, c->s.nfds, e);
}

static int add_config(struct parcel *c, const struct plane *p, enum daemon_id id, const char *text,
		      size_t len, struct err *e)
{
	autofree char *slice = NULL;

	if (config_slice(text, len, daemon_rows[id].reader, p->instance, &slice, e) < 0)
		return -e->code;
	int fd = fd_sealed("config", slice, strlen(slice), e);
	if (fd < 0)
		return fd;
	parcel_add(c, SFD_CONFIG, fd);
	return 0;
}

static int add_launcher(struct parcel *c, struct err *e)
{
	char path[4096];
	autofree char *image = NULL;
	size_t len;

	if (places_program("cordon-launcher", path, sizeof(path), e) < 0 ||
	    fd_read_file(AT_FDCWD, path, LAUNCHER_MAX, &image, &len, e) < 0)
		return -e->code;
	int fd = fd_sealed("cordon-launcher", image, len, e);
	if (fd < 0)
		return fd;
	parcel_add(c, SFD_LAUNCHER, fd);
	return 0;
}

static int add_copy(struct parcel *c, enum supervisor_fd kind, int fd, struct err *e)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return err_set(e, errno, "dup: %s", strerror(errno));
	parcel_add(c, kind, copy);
	return 0;
}

static int add_skills_mount(struct daemons *d, struct parcel *c, struct err *e)
{
	int fd = fuse_clone(&d->fuse, e);

	if (fd >= 0)
		parcel_add(c, SFD_SKILLS_MOUNT, fd);
	return fd < 0 ? fd : 0;
}

static int add_wants(struct daemons *d, struct parcel *c, unsigned wants, struct err *e)
{
	bool has_fuse = d->fuse.device_fd >= 0;
	int rc = 0;

	if (wants & WANTS_LAUNCHER)
		rc = add_launcher(c, e);
	if (rc == 0 && (wants & WANTS_LISTEN))
		rc = add_copy(c, SFD_LISTEN, d->listen_fd, e);
	if (rc == 0 && (wants & WANTS_FUSE))
		rc = add_copy(c, SFD_FUSE, d->fuse.device_fd, e);
	if (rc == 0 && (wants & WANTS_FUSE))
		rc = add_copy(c, SFD_SKILLS_STATE, d->fuse.state_fd, e);
	if (rc == 0 && (wants & WANTS_SKILLS_MOUNT) && has_fuse)
		rc = add_skills_mount(d, c, e);
	return rc;
}

/* Tells @to, which runs, about its new end of the pair with @from. Takes @fd. */
static int tell_peer(struct daemons *d, const struct plane *p, enum daemon_id to,
		     enum daemon_id from, int fd, struct err *e)
{
	autoparcel c = parcel_new(p, to);

	parcel_add(&c, daemon_rows[from].as_peer, fd);
	return parcel_send(&c, d->of[to].fd, S_PEER, e);
}

static bool is_running(const struct daemon *d)
{
	return d->state == DAEMON_STARTING || d->state == DAEMON_READY;
}

/*
 * @id's end of its pair with @peer goes into @c. An end that was put by when the
 * peer started is used; else a new pair is made and the peer is told or, when it
 * does not run, its end is put by.
 */
static int add_peer(struct daemons *d, const struct plane *p, struct parcel *c, enum daemon_id id,
		    enum daemon_id peer, struct err *e)
{
	int pair[2];

	if (d->of[peer].state == DAEMON_ABSENT)
		return 0;
	if (d->pending[id][peer] >= 0) {
		parcel_add(c, daemon_rows[peer].as_peer, take_fd(&d->pending[id][peer]));
		return 0;
	}
	if (msg_pair(pair, e) < 0)
		return -e->code;
	parcel_add(c, daemon_rows[peer].as_peer, pair[0]);
	if (is_running(&d->of[peer])) {
		struct err ignored; /* a peer that is just dying gets its end when it is restarted */
		tell_peer(d, p, peer, id, pair[1], &ignored);
		return 0;
	}
	if (d->pending[peer][id] >= 0)
		close(d->pending[peer][id]);
	d->pending[peer][id] = pair[1];
	return 0;
}

static int add_peers(struct daemons *d, const struct plane *p, struct parcel *c, enum daemon_id id,
		     struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(edges); i++) {
		if (edges[i].a != id && edges[i].b != id)
			continue;
		enum daemon_id peer = edges[i].a == id ? edges[i].b : edges[i].a;
		if (add_peer(d, p, c, id, peer, e) < 0)
			return -e->code;
	}
	return 0;
}

/* --- The process */

static void become(const struct daemons *d, const char *path, const char *name, int sock,
		   const char *cwd) __attribute__((noreturn));

/* In the child: descriptors 0 to 3, a clean state, exec. Failure ends as status 127 in the log. */
static void become(const struct daemons *d, const char *path, const char *name, int sock,
		   const char *cwd)
{
	static char *const no_environment[] = { NULL };
	char *argv[] = { (char *)(uintptr_t)name, NULL };
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int s = 1; s < 32; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	/* Above the ones that get fixed numbers, then down. */
	int log = fcntl(d->log_fd, F_DUPFD, 10), own = fcntl(sock, F_DUPFD, 10);
	int null = open("/dev/null", O_RDWR);
	if (log < 0 || own < 0 || null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 ||
	    dup2(log, 2) < 0 || dup2(own, SUPERVISOR_FD) < 0 || chdir(cwd) < 0)
		_exit(126);
	if (syscall(SYS_close_range, 4u, ~0u, 0) < 0)
		_exit(126);
	execve(path, argv, no_environment);
	_exit(127);
}

static int spawn(struct daemons *d, const struct plane *p, enum daemon_id id, struct err *e)
{
	char path[4096], name[32];
	int pair[2];

	if (program_path(id, path, sizeof(path), e) < 0 || msg_pair(pair, e) < 0)
		return -e->code;
	autoclose int ours = pair[0], theirs = pair[1];
	snprintf(name, sizeof(name), "cordon-%s", daemon_rows[id].name);
	pid_t pid = fork();
	if (pid < 0)
		return err_set(e, errno, "fork: %s", strerror(errno));
	if (pid == 0) {
		/* Before it is anything: no instruction of the gateway runs outside its ring. */
		if (id == D_GATEWAY && sweep_enter_gateway(p) < 0)
			_exit(126);
		become(d, path, name, theirs, p->places.state);
	}
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0) {
		kill(pid, SIGKILL);
		return err_set(e, errno, "pidfd: %s", strerror(errno));
	}
	/* Control messages must never make cordond wait for a daemon that does not read. */
	fcntl(ours, F_SETFL, O_NONBLOCK);
	d->of[id].pid = pid;
	d->of[id].pidfd = pidfd;
	d->of[id].fd = take_fd(&ours);
	return 0;
}

int daemons_start(struct daemons *d, const struct plane *p, enum daemon_id id, uint64_t now_ms,
		  struct err *e)
{
	autoparcel c = parcel_new(p, id);

	if (add_config(&c, p, id, p->text, p->text_len, e) < 0)
		return -e->code;
	if (add_wants(d, &c, daemon_rows[id].wants, e) < 0)
		return -e->code;
	if (add_peers(d, p, &c, id, e) < 0 || spawn(d, p, id, e) < 0)
		return -e->code;
	d->of[id].state = DAEMON_STARTING;
	d->of[id].started_ms = now_ms;
	d->of[id].retry_ms = 0;
	d->of[id].last = (struct err){ 0 };
	/* A child that is already gone is found by its pidfd. */
	if (parcel_send(&c, d->of[id].fd, S_START, e) < 0 && e->code != EPIPE)
		return -e->code;
	return 0;
}

int daemons_send_config(struct daemons *d, const struct plane *p, enum daemon_id id,
			const char *text, size_t len, struct err *e)
{
	autoparcel c = parcel_new(p, id);

	if (add_config(&c, p, id, text, len, e) < 0)
		return -e->code;
	return parcel_send(&c, d->of[id].fd, S_RELOAD, e);
}

void daemons_forget(struct daemons *d, enum daemon_id id)
{
	struct daemon *x = &d->of[id];

	if (x->fd >= 0)
		close(x->fd);
	if (x->pidfd >= 0)
		close(x->pidfd);
	x->fd = x->pidfd = -1;
	x->pid = 0;
	x->answers_due = 0;
	x->state = DAEMON_DOWN;
	/* Ends put by for its peers lead to a dead process: the next life makes new ones. */
	for (int i = 0; i < D_COUNT; i++)
		if (d->pending[i][id] >= 0)
			close(take_fd(&d->pending[i][id]));
}
