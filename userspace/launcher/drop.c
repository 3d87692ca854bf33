/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives up everything the launcher ever held: ids, capabilities, keyring,
 * dumpability, and finally the right to make any system call outside the
 * table. Order matters and is said at each step. Reached only when the mount
 * table has been checked.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "seccomp_filter.h" /* generated from syscalls.def */

static int drop_bounding(void)
{
	for (int cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return errno == EINVAL && cap > 0 ? 0 : -1;
	return 0;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof(none));
	return (int)syscall(SYS_capset, &h, none);
}

static const struct {
	int resource;
	rlim_t limit;
} rlimits[] = {
	{ RLIMIT_CORE, 1 },		/* 1, not 0: a piped core handler is refused as well (B11) */
	{ RLIMIT_CPU, RLIM_INFINITY },	/* the wall clock and the cpu controller bound it */
	{ RLIMIT_DATA, RLIM_INFINITY }, /* the memory controller bounds it */
	{ RLIMIT_AS, RLIM_INFINITY },
	{ RLIMIT_RSS, RLIM_INFINITY },
	{ RLIMIT_STACK, 8u << 20 },
	{ RLIMIT_NOFILE, 4096 },
	{ RLIMIT_NPROC, 65536 }, /* the pids controller bounds it */
	{ RLIMIT_MEMLOCK, 64u << 10 },
	{ RLIMIT_MSGQUEUE, 0 },
	{ RLIMIT_SIGPENDING, 1024 },
	{ RLIMIT_NICE, 0 },
	{ RLIMIT_RTPRIO, 0 },
	{ RLIMIT_RTTIME, RLIM_INFINITY },
	{ RLIMIT_LOCKS, RLIM_INFINITY },
};

/* Never above the hard limit the host gave: it cannot be raised here. */
static int set_rlimit(int resource, rlim_t limit)
{
	struct rlimit r;

	if (getrlimit(resource, &r) < 0)
		return -1;
	if (limit < r.rlim_max)
		r.rlim_max = limit;
	r.rlim_cur = r.rlim_max;
	return setrlimit(resource, &r);
}

static int drop_rlimits(struct failure *f)
{
	for (size_t i = 0; i < sizeof(rlimits) / sizeof(rlimits[0]); i++)
		if (set_rlimit(rlimits[i].resource, rlimits[i].limit) < 0)
			return fail(f, errno, "rlimit");
	return 0;
}

/* What a waiting slot can give up already: none of it is needed to attach a mount. */
int drop_early(struct failure *f)
{
	/* A fresh session keyring: the one inherited is the host's (DESIGN 10.17). */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 &&
	    errno != ENOSYS)
		return fail(f, errno, "keyring");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return fail(f, errno, "ambient capabilities");
	if (drop_bounding() < 0)
		return fail(f, errno, "bounding set");
	/* uid 0 means nothing here from now on, and that cannot be changed back. */
	if (prctl(PR_SET_SECUREBITS,
		  SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
			  SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
			  SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
		  0, 0, 0) < 0)
		return fail(f, errno, "securebits");
	if (setgroups(0, NULL) < 0)
		return fail(f, errno, "groups");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail(f, errno, "no_new_privs");
	return drop_rlimits(f);
}

int drop_privileges(uint64_t fsize_bytes, struct failure *f)
{
	if (set_rlimit(RLIMIT_FSIZE, fsize_bytes) < 0)
		return fail(f, errno, "rlimit fsize");
	if (setresgid(SANDBOX_ID, SANDBOX_ID, SANDBOX_ID) < 0 ||
	    setresuid(SANDBOX_ID, SANDBOX_ID, SANDBOX_ID) < 0)
		return fail(f, errno, "ids");
	if (drop_capabilities() < 0)
		return fail(f, errno, "capabilities");
	/*
	 * The command has this process's ids: without this it could read its
	 * memory and descriptors (DESIGN 10.17). The id change cleared it; say
	 * so all the same. The death signal was cleared by that change too.
	 */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return fail(f, errno, "dumpable");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return fail(f, errno, "death signal");
	umask(022);
	return 0;
}

int drop_seccomp(struct failure *f)
{
	const struct sock_fprog program = {
		.len = sizeof(seccomp_filter) / sizeof(seccomp_filter[0]),
		.filter = (struct sock_filter *)(uintptr_t)seccomp_filter,
	};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return fail(f, errno, "seccomp");
	return 0;
}
