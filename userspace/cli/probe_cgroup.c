/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of cgroups and of BPF on them, in a directory named after the probing
 * process, which probe_cgroup_clear() removes whatever became of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"
#include "cli/probe.h"
#include "config/cgroups.h"

enum { DIR_MAX = CGROUP_PATH_MAX + 64 };

static int list(struct cgroup_hierarchy *h, struct err *e)
{
	return cgroups_list("cordon-doctor", h, CGROUPS_MAX, e);
}

static void dir_of(const struct cgroup_hierarchy *h, int pid, char ret[DIR_MAX])
{
	snprintf(ret, DIR_MAX, "%s/cordon-doctor-%d", h->base, pid);
}

void probe_cgroup_clear(int pid)
{
	struct cgroup_hierarchy h[CGROUPS_MAX];
	struct err e;
	char dir[DIR_MAX];
	int n = list(h, &e);

	for (int i = 0; i < n; i++) {
		dir_of(&h[i], pid, dir);
		for (int tries = 0; tries < 200 && rmdir(dir) < 0 && errno == EBUSY; tries++)
			usleep(2000);
	}
}

static int make(const struct cgroup_hierarchy *h, char dir[DIR_MAX], struct err *e)
{
	dir_of(h, getpid(), dir);
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", dir, strerror(errno));
	return 0;
}

static int make_v2(char dir[DIR_MAX], struct err *e)
{
	struct cgroup_hierarchy h[CGROUPS_MAX];
	int n = list(h, e);
	const struct cgroup_hierarchy *v2 = n < 0 ? NULL : cgroups_v2(h, n);

	if (!v2)
		return err_set(e, ENOENT, "no cgroup v2 hierarchy is mounted");
	return make(v2, dir, e);
}

static int put(const char *dir, const char *file, const char *text, struct err *e)
{
	char path[DIR_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return err_set(e, errno, "%s: %s", file, strerror(errno));
	return 0;
}

/* A child born in the directory, ended by cgroup.kill. */
int probe_cgroup_kill(struct err *e)
{
	char dir[DIR_MAX];
	int status;

	if (make_v2(dir, e) < 0)
		return -e->code;
	autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct clone_args a = { .flags = CLONE_INTO_CGROUP,
				.exit_signal = SIGCHLD,
				.cgroup = (__u64)fd };
	long pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0) {
		pause();
		_exit(0);
	}
	if (pid < 0)
		return err_set(e, errno, "clone3 into a cgroup: %s", strerror(errno));
	int rc = put(dir, "cgroup.kill", "1", e);
	if (rc < 0)
		kill((pid_t)pid, SIGKILL);
	waitpid((pid_t)pid, &status, 0);
	if (rc < 0)
		return rc;
	snprintf(e->msg, sizeof(e->msg), "born inside, killed at once");
	return 0;
}

/* Writes a limit where the host keeps the controller. */
static int try_limit(const char *controller, const char *v1_file, const char *v2_file,
		     const char *value, struct err *e)
{
	struct cgroup_hierarchy h[CGROUPS_MAX];
	char dir[DIR_MAX], word[32];
	int n = list(h, e);

	if (n < 0)
		return n;
	const struct cgroup_hierarchy *v1 = cgroups_v1(h, n, controller), *v2 = cgroups_v2(h, n);
	const struct cgroup_hierarchy *in = v1 ? v1 : v2;
	if (!in)
		return err_set(e, ENOENT, "no hierarchy has it");
	if (!v1) {
		struct err ignored; /* it may be on already, and if it is not the write below says so */
		snprintf(word, sizeof(word), "+%s", controller);
		put(in->base, "cgroup.subtree_control", word, &ignored);
	}
	if (make(in, dir, e) < 0 || put(dir, v1 ? v1_file : v2_file, value, e) < 0)
		return -e->code;
	snprintf(e->msg, sizeof(e->msg), "v%d, %.200s", v1 ? 1 : 2, in->base);
	return 0;
}

int probe_cgroup_cpu(struct err *e)
{
	return try_limit("cpu", "cpu.cfs_quota_us", "cpu.max", "50000", e);
}

int probe_cgroup_memory(struct err *e)
{
	return try_limit("memory", "memory.limit_in_bytes", "memory.max", "67108864", e);
}

int probe_cgroup_swap(struct err *e)
{
	if (probe_cgroup_memory(e) < 0)
		return -e->code;
	return try_limit("memory", "memory.memsw.limit_in_bytes", "memory.swap.max", "67108864", e);
}

int probe_cgroup_pids(struct err *e)
{
	return try_limit("pids", "pids.max", "pids.max", "16", e);
}

/* --- BPF: "let it pass", loaded and attached for real */

static long bpf(int cmd, union bpf_attr *a, size_t size)
{
	return syscall(SYS_bpf, cmd, a, size);
}

static int try_bpf(enum bpf_prog_type type, enum bpf_attach_type attach, struct err *e)
{
	static const struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	char dir[DIR_MAX];
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.prog_type = type;
	a.expected_attach_type = attach;
	a.insns = (__u64)(uintptr_t)code;
	a.insn_cnt = ARRAY_SIZE(code);
	a.license = (__u64)(uintptr_t)"GPL";
	autoclose int prog = (int)bpf(BPF_PROG_LOAD, &a, sizeof(a));
	if (prog < 0)
		return err_set(e, errno, "load: %s", strerror(errno));
	if (make_v2(dir, e) < 0)
		return -e->code;
	autoclose int cg = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memset(&a, 0, sizeof(a));
	a.link_create.prog_fd = (__u32)prog;
	a.link_create.target_fd = (__u32)cg;
	a.link_create.attach_type = attach;
	autoclose int link = (int)bpf(BPF_LINK_CREATE, &a, sizeof(a));
	if (link < 0)
		return err_set(e, errno, "attach: %s", strerror(errno));
	snprintf(e->msg, sizeof(e->msg), "loaded and attached");
	return 0;
}

int probe_bpf_skb(struct err *e)
{
	return try_bpf(BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS, e);
}

int probe_bpf_connect(struct err *e)
{
	return try_bpf(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT, e);
}

int probe_bpf_sock(struct err *e)
{
	return try_bpf(BPF_PROG_TYPE_CGROUP_SOCK, BPF_CGROUP_INET_SOCK_CREATE, e);
}

int probe_bpffs(struct err *e)
{
	if (mount("cordon-doctor", "/tmp", "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0)
		return err_set(e, errno, "mount: %s", strerror(errno));
	snprintf(e->msg, sizeof(e->msg), "mounted");
	return 0;
}
