/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-launcher: pid 1 of one slot, for one command.
 *
 * Theory of operation. The worker clones this process into fresh user, mount,
 * pid, net, ipc, uts and cgroup namespaces, inside its cgroup directories, and
 * execs it with an empty environment and one descriptor, 3. It then is root of
 * nothing but those namespaces.
 *
 *   phase          holds                                     after it
 *   build()        all capabilities of its user namespace    mount tree, lo, host name
 *   drop_early()   what attaching mounts needs               bounding set, keyring, limits gone
 *   wait           the same; a warm slot                     -
 *   run()          the same                                  workspace attached, table checked
 *   drop           --- after this we cannot gain privilege: ids, capabilities, seccomp
 *   command        nothing                                   the command is pid 2
 *   reap()         descriptor 3                              its end takes all others with it
 *
 * It is static, has no heap, no threads and is not dumpable once it shares an
 * id with the command. When the worker dies, PDEATHSIG ends it, and with pid 1
 * the kernel ends every process of the namespace (B9).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "proto/worker.h"

enum { FDS_MAX = 6 };

static void reply(const struct launch_reply *r)
{
	while (send(LAUNCHER_FD, r, sizeof(*r), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void die(const struct failure *f)
{
	struct launch_reply r = {
		.type = LAUNCH_FAILED,
		.code = f->code,
		.bad_request = f->bad_request,
	};

	strncpy(r.step, f->step ? f->step : "?", sizeof(r.step) - 1);
	reply(&r);
	_exit(1);
}

/* One packet of exactly @size bytes and type @type; its descriptors in @fds, their count back. */
static int receive(void *buf, size_t size, uint32_t type, int *fds)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	struct failure f = { 0 };
	int n = 0;
	ssize_t len;

	do {
		len = recvmsg(LAUNCHER_FD, &m, MSG_CMSG_CLOEXEC);
	} while (len < 0 && errno == EINTR);
	if (len == 0)
		_exit(0); /* the slot is not wanted any more */
	uint32_t got = 0;
	if (len == (ssize_t)size)
		memcpy(&got, buf, sizeof(got));
	if (got != type || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		fail(&f, EPROTO, "message");
		die(&f);
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), (size_t)n * sizeof(int));
	}
	return n;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0) {
		/* The host's own score stays; it is never lower than the worker's. */
	}
	close(fd);
}

/* Nothing of the worker's process state may reach the command (B11, CASES G05). */
static void reset_inherited(void)
{
	const struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} dflt = { 0 }; /* the kernel's sigaction: SIG_DFL */
	sigset_t none;

	/* By number: libc keeps 32 to 34 to itself and would leave them as they came. */
	for (int s = 1; s < 65; s++)
		syscall(SYS_rt_sigaction, s, &dflt, NULL, sizeof(uint64_t));
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	/* The host's memory pressure takes sandboxes before daemons. */
	write_file("/proc/self/oom_score_adj", "500");
}

/* The id maps are written: become root of this namespace, and of nothing else. */
static void become_root(void)
{
	struct failure f = { 0 };
	char go;

	if (recv(LAUNCHER_FD, &go, 1, 0) != 1)
		_exit(0);
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) {
		fail(&f, errno, "ids");
		die(&f);
	}
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

static void build(void)
{
	struct launch_build b;
	struct failure f = { 0 };
	struct launch_reply r = { .type = LAUNCH_BUILT };
	int fds[FDS_MAX];

	if (receive(&b, sizeof(b), LAUNCH_BUILD, fds) != 2) {
		fail(&f, EPROTO, "build descriptors");
		die(&f);
	}
	reset_inherited();
	if (sethostname("sandbox", 7) < 0 || setdomainname("", 0) < 0) {
		fail(&f, errno, "host name");
		die(&f);
	}
	if (network_up(b.gateway_addr_be, &f) < 0 || mounts_build(fds[0], fds[1], &b, &f) < 0 ||
	    drop_early(&f) < 0)
		die(&f);
	close(fds[0]);
	reply(&r);
}

/* The argv text, mapped privately from its sealed memfd. */
static char *map_argv(int fd, const struct launch_run *run, struct failure *f)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size != (off_t)run->argv_bytes || run->argv_bytes == 0 ||
	    run->argv_bytes > ARGV_BYTES_MAX) {
		fail(f, EPROTO, "argv size");
		return NULL;
	}
	char *p = mmap(NULL, run->argv_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED) {
		fail(f, errno, "argv map");
		return NULL;
	}
	return p;
}

/* The death signal is only as good as the parent being alive when it was set. */
static void check_parent(void)
{
	struct pollfd p = { .fd = LAUNCHER_FD, .events = 0 };

	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
		_exit(0);
}

/* Gives the command's pid; 0 when exec failed, which has then been said. */
static pid_t run(void)
{
	struct launch_run run;
	struct failure f = { 0 };
	int fds[FDS_MAX], why = 0;
	int n = receive(&run, sizeof(run), LAUNCH_RUN, fds);
	bool has_view = run.flags & LAUNCH_HAS_VIEW;

	run.cwd[sizeof(run.cwd) - 1] = '\0';
	run.proxy[sizeof(run.proxy) - 1] = '\0';
	if (n != (has_view ? 6 : 5)) {
		fail(&f, EPROTO, "run descriptors");
		die(&f);
	}
	char *text = map_argv(fds[RUN_FD_ARGV], &run, &f);
	if (!text || mounts_attach(fds[RUN_FD_WORKSPACE], has_view ? fds[RUN_FD_VIEW] : -1, &f) < 0 ||
	    plan_check(has_view, &f) < 0)
		die(&f);
	close(fds[RUN_FD_ARGV]);
	if (drop_privileges(run.fsize_bytes, &f) < 0 || drop_seccomp(&f) < 0)
		die(&f);
	/* --- after this we cannot gain privilege --- */
	check_parent();
	pid_t pid = command_start(&run, text, fds + RUN_FD_STDIN, &why, &f);
	if (pid < 0)
		die(&f);
	for (int i = RUN_FD_STDIN; i <= RUN_FD_STDERR; i++)
		close(fds[i]);
	struct launch_reply r = { .type = LAUNCH_EXECED, .code = why };
	reply(&r);
	return pid;
}

/* Reaps until the command itself ends. Its orphans end with this process. */
static void reap(pid_t command)
{
	struct launch_reply r = { .type = LAUNCH_EXITED };
	siginfo_t si;

	for (;;) {
		memset(&si, 0, sizeof(si));
		if (waitid(P_ALL, 0, &si, WEXITED) < 0) {
			if (errno == EINTR)
				continue;
			_exit(1);
		}
		if (si.si_pid == command)
			break;
	}
	r.code = si.si_status;
	r.signaled = si.si_code != CLD_EXITED;
	reply(&r);
}

int main(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	become_root();
	build();
	pid_t command = run();
	if (command > 0)
		reap(command);
	return 0;
}
