/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of namespaces, filters and process control. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"
#include "cli/probe.h"

int probe_namespaces(struct err *e)
{
	struct clone_args a = {
		.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
			 CLONE_NEWUTS | CLONE_NEWCGROUP,
		.exit_signal = SIGCHLD,
	};
	long pid = syscall(SYS_clone3, &a, sizeof(a));
	int status;

	if (pid == 0)
		_exit(getpid() == 1 ? 0 : 1);
	if (pid < 0)
		return err_set(e, errno, "clone3: %s", strerror(errno));
	if (waitpid((pid_t)pid, &status, 0) < 0 || status != 0)
		return err_set(e, ECHILD, "its first process is not pid 1");
	snprintf(e->msg, sizeof(e->msg), "user mount pid net ipc uts cgroup");
	return 0;
}

/* A filter that answers getppid with EPERM, and getppid to see it work. */
int probe_seccomp(struct err *e)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return err_set(e, errno, "seccomp: %s", strerror(errno));
	if (syscall(SYS_getppid) != -1)
		return err_set(e, ENOSYS, "a loaded filter has no effect");
	snprintf(e->msg, sizeof(e->msg), "a filter refuses");
	return 0;
}

int probe_landlock(struct err *e)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr a = { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE };

	if (abi < 0)
		return err_set(e, errno, "landlock: %s", strerror(errno));
	autoclose int fd = (int)syscall(SYS_landlock_create_ruleset, &a, sizeof(a), 0);
	if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_set(e, errno, "landlock: %s", strerror(errno));
	if (open("/proc/self/status", O_RDONLY | O_CLOEXEC) >= 0)
		return err_set(e, ENOSYS, "a ruleset has no effect");
	snprintf(e->msg, sizeof(e->msg), "ABI %ld", abi);
	return 0;
}

int probe_pidfd(struct err *e)
{
	autoclose int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
		return err_set(e, errno, "pidfd: %s", strerror(errno));
	if (syscall(SYS_close_range, 1000u, 1001u, 0) < 0)
		return err_set(e, errno, "close_range: %s", strerror(errno));
	snprintf(e->msg, sizeof(e->msg), "pidfd close_range");
	return 0;
}

int probe_rlimits(struct err *e)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return err_set(e, errno, "getrlimit: %s", strerror(errno));
	rlim_t now = r.rlim_max;
	r.rlim_max += 1;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		return err_set(e, errno, "hard limits only go down (files: %llu)",
			       (unsigned long long)now);
	snprintf(e->msg, sizeof(e->msg), "hard limits can be raised");
	return 0;
}

int probe_fuse(struct err *e)
{
	char options[128];
	autoclose int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return err_set(e, errno, "/dev/fuse: %s", strerror(errno));
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
	if (mount("cordon-doctor", "/tmp", "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		return err_set(e, errno, "mount: %s", strerror(errno));
	snprintf(e->msg, sizeof(e->msg), "a mount with allow_other");
	return 0;
}
