/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of cordon-image: started by clone and exec with an explicit
 * environment, their words read line by line, their end waited for. Does not
 * know what they do.
 */
#include "image/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"

enum { LINE_SIZE = 512, OUTPUT_MAX = 1 << 20, ENV_MAX = 16 };

/* What a child may learn of the caller's environment: how the host reaches its mirrors. */
static const char *const PASSED[] = {
	"http_proxy=", "https_proxy=", "no_proxy=", "HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=",
};

static void environment(const char *env[ENV_MAX], const char *const *more)
{
	size_t n = 0;

	env[n++] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
	env[n++] = "HOME=/root";
	env[n++] = "LC_ALL=C.UTF-8";
	env[n++] = "TZ=UTC";
	env[n++] = "DEBIAN_FRONTEND=noninteractive";
	while (more && *more && n < ENV_MAX - 1)
		env[n++] = *more++;
	for (size_t i = 0; i < ARRAY_SIZE(PASSED); i++)
		for (char **e = environ; *e; e++)
			if (n < ENV_MAX - 1 && strncmp(*e, PASSED[i], strlen(PASSED[i])) == 0)
				env[n++] = *e;
	env[n] = NULL;
}

/* --- the child, between clone and exec */

_Noreturn static void child_fail(const char *what)
{
	dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
	_exit(127);
}

_Noreturn static void child(const struct spawn *sp, int out, int err, int parent_alive)
{
	const char *env[ENV_MAX];
	const struct rlimit files = { .rlim_cur = 1024, .rlim_max = 1024 };
	struct pollfd gone = { .fd = parent_alive, .events = POLLIN };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || poll(&gone, 1, 0) != 0)
		_exit(127); /* the parent died before we asked to die with it */
	int null = open("/dev/null", O_RDONLY);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(err, STDERR_FILENO) < 0)
		_exit(127);
	if (syscall(SYS_close_range, 3, ~0u, 0) < 0)
		child_fail("close_range");
	umask(022);
	/* Package tools close every possible descriptor before each exec: keep that few. */
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		child_fail("limit descriptors");
	if (sp->apart) {
		if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			child_fail("make mounts private");
		if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
			child_fail("mount /proc");
	}
	environment(env, sp->env);
	execve(sp->argv[0], (char *const *)sp->argv, (char *const *)env);
	child_fail(sp->argv[0]);
}

/* --- the parent */

struct lines {
	char text[LINE_SIZE];
	size_t len;
	char last[LINE_SIZE]; /* the last one that said something */
};

static void lines_add(struct lines *l, const char *buf, size_t len, const struct spawn *sp)
{
	for (size_t i = 0; i < len; i++) {
		bool ends = buf[i] == '\n' || buf[i] == '\r';

		if (!ends && l->len < sizeof(l->text) - 1)
			l->text[l->len++] = (unsigned char)buf[i] < 0x20 ? ' ' : buf[i];
		if (!ends || l->len == 0)
			continue;
		l->text[l->len] = '\0';
		memcpy(l->last, l->text, l->len + 1);
		if (sp->on_line)
			sp->on_line(l->text, sp->arg);
		l->len = 0;
	}
}

struct output {
	char *text;
	size_t len;
};

/* Reads what is there; 0 at the end. */
static ssize_t pump(int fd, struct lines *l, struct output *o, const struct spawn *sp)
{
	char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : 0;
	if (!o) {
		lines_add(l, buf, (size_t)n, sp);
	} else if (o->len + (size_t)n < OUTPUT_MAX) {
		memcpy(o->text + o->len, buf, (size_t)n);
		o->len += (size_t)n;
	}
	return n;
}

static void read_both(int out, int err, struct lines *l, struct output *o, const struct spawn *sp)
{
	struct pollfd p[2] = { { .fd = out, .events = POLLIN }, { .fd = err, .events = POLLIN } };

	while (p[0].fd >= 0 || p[1].fd >= 0) {
		if (poll(p, 2, -1) < 0)
			continue; /* EINTR: nothing else can happen to two valid pipes */
		if (p[0].revents && pump(out, l, o, sp) <= 0)
			p[0].fd = -1;
		if (p[1].revents && pump(err, l, NULL, sp) <= 0)
			p[1].fd = -1;
	}
	lines_add(l, "\n", 1, sp);
}

static int judge(int status, const struct spawn *sp, const struct lines *l, struct err *e)
{
	const char *name = strrchr(sp->argv[0], '/');

	name = name ? name + 1 : sp->argv[0];
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		return err_set(e, EIO, "%s: killed by signal %d: %s", name, WTERMSIG(status),
			       l->last);
	return err_set(e, EIO, "%s: status %d: %.180s", name, WEXITSTATUS(status), l->last);
}

int spawn_run(const struct spawn *sp, char **ret_output, struct err *e)
{
	int out[2], err[2], alive[2];
	autofree char *text = sp->wants_output ? calloc(1, OUTPUT_MAX) : NULL;
	struct output output = { .text = text };
	struct lines lines = { .len = 0 };
	int status;

	if (sp->wants_output && !text)
		return err_set(e, ENOMEM, "%s: out of memory", sp->argv[0]);
	if (pipe2(out, O_CLOEXEC) < 0)
		return err_set(e, errno, "pipe: %s", strerror(errno));
	autoclose int out_read = out[0], out_write = out[1];
	if (pipe2(err, O_CLOEXEC) < 0)
		return err_set(e, errno, "pipe: %s", strerror(errno));
	autoclose int err_read = err[0], err_write = err[1];
	if (pipe2(alive, O_CLOEXEC) < 0)
		return err_set(e, errno, "pipe: %s", strerror(errno));
	autoclose int alive_read = alive[0], alive_write = alive[1];

	/* clone, not unshare: the child itself is pid 1, so its end is the namespace's. */
	unsigned long flags = SIGCHLD | (sp->apart ? CLONE_NEWNS | CLONE_NEWPID : 0);
	pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, 0);
	if (pid < 0)
		return err_set(e, errno, "start %s: %s", sp->argv[0], strerror(errno));
	if (pid == 0) {
		close(alive_write);
		child(sp, out_write, err_write, alive_read);
	}
	close(take_fd(&out_write));
	close(take_fd(&err_write));
	read_both(out_read, err_read, &lines, sp->wants_output ? &output : NULL, sp);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "wait for %s: %s", sp->argv[0], strerror(errno));
	if (judge(status, sp, &lines, e) < 0)
		return -e->code;
	if (ret_output)
		*ret_output = take_ptr(text);
	return 0;
}
