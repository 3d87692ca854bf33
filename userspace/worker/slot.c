/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building and running slots: the one place where a sandbox comes into being.
 * Decides nothing about who may have one; loop.c is told by the broker.
 */
#include "worker/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "policy/reason.h"
#include "proto/launcher.h"
#include "wire/msg.h"
#include "worker/mount.h"

enum { ID_COUNT = 65536 };

static void close_fds(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		scope_close(&fds[i]);
		fds[i] = -1;
	}
}

void slot_close_pipes(struct slot *s)
{
	close_fds(s->command_fds, 3);
	close_fds(s->broker_fds, 3);
}

/*
 * The command's streams. Its ends belong to its id, else opening /dev/stdout
 * by name fails; the broker's ends never block it.
 */
static int make_pipes(struct slot *s, struct err *e)
{
	for (int i = 0; i < 3; i++) {
		int p[2], mine = i == 0; /* stdin: the command reads */
		if (pipe2(p, O_CLOEXEC) < 0)
			return err_set(e, errno, "pipe: %s", strerror(errno));
		s->command_fds[i] = p[!mine];
		s->broker_fds[i] = p[mine];
		if (fchown(s->command_fds[i], s->host_uid, s->host_uid) < 0 ||
		    fcntl(s->broker_fds[i], F_SETFL, O_NONBLOCK) < 0)
			return err_set(e, errno, "pipe: %s", strerror(errno));
	}
	return 0;
}

/* The slot's ids: the sandbox's own one apart, all others the image owner's block. */
static int map_ids(const struct slot_maker *m, const struct slot *s, struct err *e)
{
	static const char *const files[] = { "uid_map", "gid_map" };
	char text[160], path[48];

	int n = snprintf(text, sizeof(text), "0 %u %u\n%u %u 1\n%u %u %u\n", m->image_ids,
			 SANDBOX_ID, SANDBOX_ID, s->host_uid, SANDBOX_ID + 1,
			 m->image_ids + SANDBOX_ID + 1, ID_COUNT - SANDBOX_ID - 1);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)s->pid, files[i]);
		autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, text, (size_t)n) != n)
			return err_set(e, errno, "%s: %s", files[i], strerror(errno));
	}
	return 0;
}

/*
 * Every capability of the new user namespace into the ambient set: they
 * survive the exec although no id is mapped yet. The launcher drops them all.
 */
static int keep_capabilities(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	d[0].inheritable = d[0].permitted;
	d[1].inheritable = d[1].permitted;
	if (syscall(SYS_capset, &h, d) < 0)
		return -1;
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if ((d[cap / 32].permitted & 1u << cap % 32) &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -1;
	return 0;
}

/*
 * The child's side of the clone: into the v1 directories, then a cgroup
 * namespace rooted there, then the launcher. It runs in the worker's memory:
 * system calls only, nothing kept. A failure shows as the launcher's death.
 */
__attribute__((noreturn)) static void child(const struct slot_maker *m, const struct cgroup *cg,
					    int sock)
{
	static const char *const argv[] = { "cordon-init", NULL };
	static const char *const envp[] = { NULL };

	for (int t = 0; t < CG_TREES_MAX; t++)
		if (cg->tasks_fds[t] >= 0 && write(cg->tasks_fds[t], "0", 1) != 1)
			_exit(120);
	if (unshare(CLONE_NEWCGROUP) < 0)
		_exit(121);
	if (keep_capabilities() < 0)
		_exit(122);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		_exit(124);
	/* First out of the way: either number may be 3 itself. */
	int prog = fcntl(m->launcher_fd, F_DUPFD_CLOEXEC, 10);
	int peer = fcntl(sock, F_DUPFD_CLOEXEC, 10);
	if (prog < 0 || peer < 0 || dup2(peer, LAUNCHER_FD) < 0)
		_exit(125);
	if (syscall(SYS_close_range, LAUNCHER_FD + 1, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		_exit(126);
	syscall(SYS_execveat, prog, "", argv, envp, AT_EMPTY_PATH);
	_exit(127);
}

/*
 * clone3 as vfork does it: the child borrows this memory and stack until its
 * exec, so no page table is copied and the worker takes no copy-on-write fault
 * afterwards. A function of its own, so that nothing of the caller's frame is
 * live in the child's path; the system call is made here and not by libc's
 * wrapper, whose frame the child would overwrite.
 */
__attribute__((noinline)) static long clone_slot(struct clone_args *args, const struct slot_maker *m,
						 const struct cgroup *cg, int sock)
{
	long ret;

#ifdef __x86_64__
	args->flags |= CLONE_VM | CLONE_VFORK;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args))
			 : "rcx", "r11", "memory");
	if (ret < 0) {
		errno = (int)-ret;
		ret = -1;
	}
#else
	ret = syscall(SYS_clone3, args, sizeof(*args));
#endif
	if (ret == 0)
		child(m, cg, sock);
	return ret;
}

static int spawn(const struct slot_maker *m, struct slot *s, int child_sock, struct err *e)
{
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
			 CLONE_NEWUTS | CLONE_PIDFD | CLONE_INTO_CGROUP,
		.pidfd = (uint64_t)(uintptr_t)&s->pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)s->cg.dir_fds[0],
	};
	long pid = clone_slot(&args, m, &s->cg, child_sock);

	if (pid < 0)
		return err_set(e, errno, "clone: %s", strerror(errno));
	s->pid = (pid_t)pid;
	return 0;
}

static int open_userns(struct slot *s, struct err *e)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)s->pid);
	s->userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	return s->userns_fd < 0 ? err_set(e, errno, "user namespace: %s", strerror(errno)) : 0;
}

/* One packet to the launcher, with descriptors. */
static int tell(int sock, const void *buf, size_t len, const int *fds, unsigned nfds, struct err *e)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * 6)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (nfds) {
		memset(&control, 0, sizeof(control));
		m.msg_control = control.buf;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
	}
	while (sendmsg(sock, &m, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "launcher: %s", strerror(errno));
	return 0;
}

static int send_build(const struct slot_maker *m, struct slot *s, struct err *e)
{
	struct launch_build b = {
		.type = LAUNCH_BUILD,
		.tmp_bytes = m->tmp_bytes,
		.shm_bytes = m->shm_bytes,
		.gateway_addr_be = s->egress ? egress_address_be(s->egress) : 0,
	};
	autoclose int image =
		mount_clone(s->shape.image->path, MOUNT_RO | MOUNT_NODEV, s->userns_fd, e);
	if (image < 0)
		return image;
	autoclose int dev = mount_clone(m->dev_path, MOUNT_RO | MOUNT_NOEXEC, -1, e);
	if (dev < 0)
		return dev;
	const int fds[] = { image, dev };
	return tell(s->sock, &b, sizeof(b), fds, 2, e);
}

int slot_build(const struct slot_maker *m, uint64_t id, const struct slot_shape *shape,
	       uint32_t host_uid, struct slot *ret, struct err *e)
{
	struct slot s = {
		.state = SLOT_BUILDING,
		.id = id,
		.shape = *shape,
		.host_uid = host_uid,
		.egress = shape->net == NET_GATEWAY ? m->egress : NULL,
		.guard = m->guard,
		.pidfd = -1,
		.sock = -1,
		.userns_fd = -1,
		.command_fds = { -1, -1, -1 },
		.broker_fds = { -1, -1, -1 },
		.ws = { .statfs_fd = -1 },
		.done = { .exit_code = -1 },
	};
	char name[32];
	int pair[2] = { -1, -1 };

	snprintf(name, sizeof(name), "slot-%llu", (unsigned long long)id);
	if (fault_step("slot.begin", e) < 0 || cgroup_make(m->cgroups, name, &s.cg, e) < 0)
		return -e->code;
	if (fault_step("slot.cgroup", e) < 0 || make_pipes(&s, e) < 0 || msg_pair(pair, e) < 0)
		goto undo;
	s.sock = pair[0];
	if (fault_step("slot.pipes", e) < 0 || spawn(m, &s, pair[1], e) < 0)
		goto undo;
	scope_close(&pair[1]);
	pair[1] = -1;
	if (fault_step("slot.cloned", e) < 0 || map_ids(m, &s, e) < 0 || open_userns(&s, e) < 0 ||
	    fault_step("slot.mapped", e) < 0 || tell(s.sock, "g", 1, NULL, 0, e) < 0 ||
	    send_build(m, &s, e) < 0 || fault_step("slot.sent", e) < 0)
		goto undo;
	if (fcntl(s.sock, F_SETFL, O_NONBLOCK) < 0) {
		err_set(e, errno, "launcher socket: %s", strerror(errno));
		goto undo;
	}
	*ret = s;
	return 0;
undo:
	scope_close(&pair[1]);
	slot_kill(&s);
	for (int i = 0; i < 2000 && slot_finish(&s) == 0; i++)
		usleep(1000);
	return -e->code;
}

int slot_run(struct slot *s, struct workspaces *w, const struct w_run *run, int argv_fd,
	     uint32_t argv_bytes, int view_fd, struct err *e)
{
	struct launch_run r = {
		.type = LAUNCH_RUN,
		.flags = (view_fd >= 0 ? LAUNCH_HAS_VIEW : 0) | (run->proxy[0] ? LAUNCH_HAS_GATEWAY : 0),
		.argc = run->argc,
		.argv_bytes = argv_bytes,
	};
	struct err why = { 0 };

	s->limits = run->limits;
	if (fault_step("run.begin", &why) < 0 || cgroup_limit(&s->cg, &s->limits, &why) < 0 ||
	    fault_step("run.limited", &why) < 0)
		return err_set(e, REASON_WORKER_ERROR, "%s", why.msg);
	if (s->egress && egress_begin(s->egress, s->cg.id, s->pidfd, run, e) < 0)
		return -e->code;
	s->egress_token = run->egress_token;
	autoclose int ws = workspace_get(w, run, s->userns_fd, s->host_uid, &s->ws, e);
	if (ws < 0)
		return ws;
	if (fault_step("run.workspace", &why) < 0)
		return err_set(e, REASON_WORKER_ERROR, "%s", why.msg);
	if (s->guard && guard_begin(s->guard, s->cg.id, &why) < 0)
		return err_set(e, REASON_ISOLATION_UNAVAILABLE, "%s", why.msg);
	r.fsize_bytes = s->ws.quota_bytes;
	memcpy(r.cwd, run->cwd, sizeof(r.cwd));
	memcpy(r.proxy, run->proxy, sizeof(r.proxy));
	const int fds[] = { argv_fd, ws, s->command_fds[0], s->command_fds[1], s->command_fds[2],
			    view_fd };
	int rc = tell(s->sock, &r, sizeof(r), fds, view_fd >= 0 ? 6 : 5, &why);
	explicit_bzero(r.proxy, sizeof(r.proxy));
	if (rc < 0)
		return err_set(e, REASON_WORKER_ERROR, "%s", why.msg);
	fault_hit("run.sent");
	slot_close_pipes(s);
	s->state = SLOT_STARTING;
	return 0;
}

bool slot_is_alive(const struct slot *s)
{
	struct pollfd p = { .fd = s->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

void slot_kill(struct slot *s)
{
	s->state = SLOT_ENDING;
	s->deadline_ns = 0;
	cgroup_kill(&s->cg);
	/* Not yet in its directories when it died at birth: by its own handle too. */
	if (s->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
}

/* True when pid 1 is dead and reaped: then all of its namespace is dead. */
static bool reap(struct slot *s)
{
	siginfo_t si = { 0 };

	if (s->pidfd < 0 || s->is_reaped)
		return true;
	if (waitid(P_PIDFD, (id_t)s->pidfd, &si, WEXITED | WNOHANG) == 0 && si.si_pid == 0)
		return false;
	/* Nobody below can signal it: it has run into something (a sanitizer's trap, say). */
	if (si.si_pid && si.si_code != CLD_EXITED && si.si_status != SIGKILL)
		log_error("launcher", "id=%llu killed by signal %d", (unsigned long long)s->id,
			  si.si_status);
	s->is_reaped = true;
	return true;
}

/* What the command's end is booked as, when all is known (Q2). */
static void settle(struct slot *s)
{
	struct w_done *d = &s->done;

	if (s->has_ended) {
		d->termination = TERMINATION_EXITED;
	} else if (s->kill_termination) {
		d->termination = s->kill_termination;
		d->reason = s->kill_reason;
		d->signal = SIGKILL;
	} else if (d->oom_killed) {
		/* The kernel chose pid 1 and the command went with it. */
		d->termination = TERMINATION_EXITED;
		d->signal = SIGKILL;
	} else {
		d->termination = TERMINATION_WORKER_ERROR;
		d->reason = s->exec_ns ? REASON_WORKER_ERROR : REASON_OUTCOME_UNKNOWN;
	}
	if (d->workspace_over && s->has_ended)
		d->termination = TERMINATION_DISK_QUOTA_EXCEEDED;
}

int slot_finish(struct slot *s)
{
	struct cgroup_counts c;
	bool over;

	if (!reap(s))
		return 0;
	fault_hit("finish.reaped");
	if (cgroup_is_populated(&s->cg)) {
		cgroup_kill(&s->cg);
		return 0;
	}
	if (s->state == SLOT_ENDING && s->owes_done && !s->done.cpu_ns) {
		cgroup_read(&s->cg, &c);
		s->done.cpu_ns = c.cpu_ns;
		s->done.memory_peak_bytes = c.memory_peak_bytes;
		s->done.oom_killed = c.oom_kills > 0;
	}
	/* The last packets have been counted: nobody is left to send one. */
	if (s->egress)
		egress_end(s->egress, s->cg.id, s->egress_token, &s->done);
	if (s->guard)
		guard_end(s->guard, s->cg.id);
	if (cgroup_remove(&s->cg) == -EBUSY)
		return 0;
	if (s->egress)
		egress_room_close(s->egress, s->id);
	fault_hit("finish.removed");
	if (s->owes_done) {
		workspace_measure(&s->ws, &s->done.workspace_bytes, &over);
		s->done.workspace_over = over;
		settle(s);
	}
	workspace_done(&s->ws);
	slot_close_pipes(s);
	scope_close(&s->sock);
	scope_close(&s->pidfd);
	scope_close(&s->userns_fd);
	s->state = SLOT_FREE;
	return 1;
}
