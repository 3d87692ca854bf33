/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command: environment, working directory, streams, exec. argv is executed
 * as given, looked up in B7's PATH when it has no slash; nothing is ever
 * joined into a line (B8). Runs with every privilege already gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "proto/worker.h"

#define SEARCH_PATH "/workspace/.local/bin:/workspace/.npm-global/bin:/usr/local/bin:/usr/bin:/bin"

/* B7: written, not filtered, and this is all of it. */
static const char *const environment[] = {
	"HOME=/workspace/home",
	"USER=sandbox",
	"LOGNAME=sandbox",
	"SHELL=/bin/bash",
	"PATH=" SEARCH_PATH,
	"PYTHONUSERBASE=/workspace/.local",
	"PIP_CACHE_DIR=/workspace/.cache/pip",
	"npm_config_prefix=/workspace/.npm-global",
	"npm_config_cache=/workspace/.cache/npm",
	"TMPDIR=/tmp",
	"LANG=C.UTF-8",
};

/* Behind a gateway: both cases, and the spellings single tools need. */
static const char *const proxy_names[] = {
	"http_proxy",  "https_proxy",	"all_proxy",	      "HTTP_PROXY",
	"HTTPS_PROXY", "ALL_PROXY",	"npm_config_proxy",   "npm_config_https_proxy",
	"YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
};
static const char *const no_proxy[] = {
	"NO_PROXY=localhost,127.0.0.1,::1",
	"no_proxy=localhost,127.0.0.1,::1",
	"npm_config_noproxy=localhost,127.0.0.1,::1",
};

enum {
	FIXED_COUNT = sizeof(environment) / sizeof(environment[0]),
	PROXY_COUNT = sizeof(proxy_names) / sizeof(proxy_names[0]),
	NO_PROXY_COUNT = sizeof(no_proxy) / sizeof(no_proxy[0]),
	PROXY_VALUE_MAX = 320,
};

static char proxy_values[PROXY_COUNT][PROXY_VALUE_MAX];
static char *envp[FIXED_COUNT + PROXY_COUNT + NO_PROXY_COUNT + 1];
static char *argv[ARGV_COUNT_MAX + 1];

static void make_environment(const struct launch_run *run)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FIXED_COUNT; i++)
		envp[n++] = (char *)(uintptr_t)environment[i];
	if (run->flags & LAUNCH_HAS_GATEWAY) {
		for (unsigned i = 0; i < PROXY_COUNT; i++) {
			size_t len = strlen(proxy_names[i]);
			memcpy(proxy_values[i], proxy_names[i], len);
			proxy_values[i][len] = '=';
			strncpy(proxy_values[i] + len + 1, run->proxy, PROXY_VALUE_MAX - len - 2);
			envp[n++] = proxy_values[i];
		}
		for (unsigned i = 0; i < NO_PROXY_COUNT; i++)
			envp[n++] = (char *)(uintptr_t)no_proxy[i];
	}
	envp[n] = NULL;
}

/* Cuts the NUL-ended strings of @text into argv. */
static int make_argv(const struct launch_run *run, char *text)
{
	char *p = text, *end = text + run->argv_bytes;

	if (run->argc == 0 || run->argc > ARGV_COUNT_MAX || end[-1] != '\0')
		return -1;
	for (uint32_t i = 0; i < run->argc; i++) {
		if (p >= end)
			return -1;
		argv[i] = p;
		p += strlen(p) + 1;
	}
	argv[run->argc] = NULL;
	return p == end ? 0 : -1;
}

/*
 * The working directory, opened beneath /workspace with the command's own
 * rights. Links may lead about inside, never out; magic links never.
 */
static int enter_directory(const char *cwd, struct failure *f)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	int base = open("/workspace", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (base < 0)
		return fail(f, errno, "cwd");
	if (mkdirat(base, "home", 0755) < 0 && errno != EEXIST) {
		/* A full workspace has no home; the command will see that itself. */
	}
	int fd = *cwd ? (int)syscall(SYS_openat2, base, cwd, &how, sizeof(how)) : base;
	if (fd < 0 || fchdir(fd) < 0) {
		f->bad_request = true;
		return fail(f, errno, "cwd");
	}
	if (fd != base)
		close(fd);
	close(base);
	return 0;
}

/* exec after PATH lookup; gives the errno that says why it did not happen. */
static int exec_command(void)
{
	char path[PATH_MAX];
	int why = ENOENT;

	if (strchr(argv[0], '/')) {
		execve(argv[0], argv, envp);
		return errno;
	}
	size_t name_len = strlen(argv[0]);
	for (const char *p = SEARCH_PATH; *p && name_len;) {
		size_t len = strcspn(p, ":");
		if (len + name_len + 2 > sizeof(path))
			return ENAMETOOLONG;
		memcpy(path, p, len);
		path[len] = '/';
		memcpy(path + len + 1, argv[0], name_len + 1);
		execve(path, argv, envp);
		if (errno == EACCES)
			why = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			return errno;
		p += len;
		p += *p == ':';
	}
	return why;
}

static void child(const int fds[3], volatile int *why)
{
	sigset_t none;

	setsid();
	for (int i = 0; i < 3; i++)
		if (dup2(fds[i], i) < 0) {
			*why = errno;
			_exit(126);
		}
	if (syscall(SYS_close_range, 3, ~0u, 0) < 0) {
		*why = errno;
		_exit(126);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	*why = exec_command();
	_exit(126);
}

int command_start(const struct launch_run *run, char *argv_text, const int fds[3],
		  int *ret_errno, struct failure *f)
{
	volatile int why = 0;

	if (make_argv(run, argv_text) < 0)
		return fail(f, EPROTO, "argv");
	make_environment(run);
	if (enter_directory(run->cwd, f) < 0)
		return -1;
	/*
	 * vfork: the child borrows this address space until exec, so nothing is
	 * copied and its errno lands in @why. Nothing here handles signals.
	 */
	pid_t pid = vfork();
	if (pid < 0)
		return fail(f, errno, "fork");
	if (pid == 0)
		child(fds, &why);
	*ret_errno = why;
	if (why) {
		waitpid(pid, NULL, 0);
		return 0;
	}
	return pid;
}
