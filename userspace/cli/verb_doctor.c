/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon doctor: finds out what the host can do by doing it (B12). Every probe
 * is a row; each runs in a process of its own with a private mount namespace
 * and a fresh tmpfs on /tmp, under a time limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/probe.h"
#include "cli/table.h"
#include "json/json.h"

enum { PROBE_MS = 20000 };

enum need {
	REQUIRED,
	OPTIONAL,
	ONE_OF_BEFORE, /* fails only when the row before it failed too */
};

static const struct {
	const char *name;
	enum need need;
	probe run;
	const char *without; /* what its absence means */
} probes[] = {
	{ "namespaces", REQUIRED, probe_namespaces, "no sandbox" },
	{ "seccomp", REQUIRED, probe_seccomp, "no sandbox" },
	{ "pidfd", REQUIRED, probe_pidfd, "no sandbox" },
	{ "detached mounts", REQUIRED, probe_detached, "no sandbox" },
	{ "cgroup v2, cgroup.kill", REQUIRED, probe_cgroup_kill, "no sandbox" },
	{ "cgroup cpu", REQUIRED, probe_cgroup_cpu, "no CPU limit" },
	{ "cgroup memory", REQUIRED, probe_cgroup_memory, "no memory limit" },
	{ "cgroup pids", REQUIRED, probe_cgroup_pids, "no process limit" },
	{ "cgroup swap", OPTIONAL, probe_cgroup_swap,
	  "swap is not pinned to the memory limit (harmless without swap)" },
	{ "erofs file", OPTIONAL, probe_erofs_file, "images need a loop device" },
	{ "erofs loop", ONE_OF_BEFORE, probe_erofs_loop, "no image can be mounted" },
	{ "ext4 loop", REQUIRED, probe_ext4_loop, "no workspace outlives its command" },
	{ "idmapped tmpfs", OPTIONAL, probe_idmap_tmpfs, "sandboxes share one id on tmpfs" },
	{ "idmapped ext4", OPTIONAL, probe_idmap_ext4, "sandboxes share one id on workspaces" },
	{ "idmapped erofs", OPTIONAL, probe_idmap_erofs, "image files show their stored ids" },
	{ "landlock", OPTIONAL, probe_landlock, "daemons and path rules lose a layer" },
	{ "bpf cgroup_skb", OPTIONAL, probe_bpf_skb, "tier none only" },
	{ "bpf connect4", OPTIONAL, probe_bpf_connect, "tier none only" },
	{ "bpf sock_create", OPTIONAL, probe_bpf_sock, "tier none only" },
	{ "bpf lsm", OPTIONAL, probe_bpf_lsm, "sandboxes lose a second line (guard.lsm)" },
	{ "bpffs", OPTIONAL, probe_bpffs, "tier none only" },
	{ "nftables", OPTIONAL, probe_nft, "tier none only" },
	{ "sock destroy", OPTIONAL, probe_sock_destroy,
	  "a byte ceiling the kernel holds ends connections by their timeout" },
	{ "fuse", OPTIONAL, probe_fuse, "no skills" },
	{ "rlimits", OPTIONAL, probe_rlimits, "a sandbox's hard limits cannot exceed the daemon's" },
};

int probe_run(char *const argv[], struct err *e)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		if (null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(null, 2) >= 0)
			execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return err_set(e, errno, "fork: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return err_set(e, ENOENT, "the program '%s' is not installed", argv[0]);
	return status ? err_set(e, EIO, "'%s' failed", argv[0]) : 0;
}

/* In the child: alone, with a /tmp that vanishes. */
static int run_alone(probe run, struct err *e)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("cordon-doctor", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64m") < 0)
		return err_set(e, errno, "a private mount namespace: %s", strerror(errno));
	return run(e);
}

static int probe_one(probe run, struct err *e)
{
	int pipefd[2];

	*e = (struct err){ .code = 0 };
	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_set(e, errno, "pipe: %s", strerror(errno));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int rc = run_alone(run, e);
		e->code = rc < 0 ? -rc : 0;
		_exit(write(pipefd[1], e, sizeof(*e)) != sizeof(*e));
	}
	close(pipefd[1]);
	struct pollfd p = { .fd = pipefd[0], .events = POLLIN };
	if (pid < 0)
		err_set(e, errno, "fork: %s", strerror(errno));
	else if (poll(&p, 1, PROBE_MS) == 0)
		err_set(e, ETIMEDOUT, "no answer within %d s", PROBE_MS / 1000);
	else if (read(pipefd[0], e, sizeof(*e)) != sizeof(*e))
		err_set(e, EIO, "the probe died");
	close(pipefd[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		probe_cgroup_clear(pid);
	}
	return -e->code;
}

static json_t *probe_row(size_t i, bool *previous_ok, bool *is_fit)
{
	struct err e;
	bool ok = probe_one(probes[i].run, &e) == 0;
	bool needed = probes[i].need == REQUIRED ||
		      (probes[i].need == ONE_OF_BEFORE && !*previous_ok);
	json_t *row = json_object();

	json_add_text(row, "probe", probes[i].name);
	json_add_text(row, "result", ok ? "ok" : needed ? "MISSING" : "absent");
	json_add_text(row, "found", e.msg);
	json_add_text(row, "without", ok ? NULL : probes[i].without);
	if (!ok && needed)
		*is_fit = false;
	*previous_ok = ok;
	return row;
}

int verb_doctor(struct invocation *in)
{
	static const struct column columns[] = {
		{ "PROBE", "probe" },
		{ "RESULT", "result" },
		{ "FOUND", "found" },
		{ "WITHOUT IT", "without" },
	};
	bool is_fit = true, previous_ok = true;
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_no_more(in, &status))
		return status;
	if (geteuid() != 0) {
		err_set(&e, EPERM, "doctor needs root: it tries what the worker would do");
		return cli_fail(STATUS_FAILED, &e);
	}
	auto_json json_t *answer = json_object();
	json_t *rows = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		json_array_append_new(rows, probe_row(i, &previous_ok, &is_fit));
	json_object_set_new(answer, "probes", rows);
	json_object_set_new(answer, "ok", json_boolean(is_fit));
	if (in->common.is_json)
		cli_print_json(answer);
	else
		table_print(rows, columns, ARRAY_SIZE(columns));
	return is_fit ? 0 : STATUS_FAILED;
}
