/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard: one thing that no sandboxed command may do, tried where neither
 * seccomp nor namespaces nor a lack of rights hide what the guard of the
 * command's cgroup (bpf/guard.bpf.c) says to it.
 *
 *   guard NAME [PROCS]    PROCS: the cgroup.procs of a slot to do it in
 *
 * Run by root of the host. Joins the slot last of all; what is tried without a
 * capability is tried as nobody. Prints `ok` or `errno N`.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static pid_t target;

/* Somebody of the same ids who waits; made before or after the slot is joined. */
static void make_target(void)
{
	target = fork();
	if (target == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

static long own_mounts(void)
{
	return unshare(CLONE_NEWNS) | mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static long do_mount(void) { return mount("none", "/tmp", "tmpfs", 0, ""); }

static long do_init_module(void)
{
	static char image[4096];

	return syscall(SYS_init_module, image, sizeof(image), "");
}

static long do_bpf(void)
{
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.map_type = BPF_MAP_TYPE_ARRAY;
	a.key_size = a.value_size = 4;
	a.max_entries = 1;
	return syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof(a));
}

static long do_perf(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(a) };

	return syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static long do_ptrace(void)
{
	long rc = ptrace(PTRACE_SEIZE, target, NULL, NULL);
	int error = errno;

	kill(target, SIGKILL);
	errno = error;
	return rc;
}

static long do_ptrace_inside(void)
{
	make_target();
	return do_ptrace();
}

static long do_userns(void) { return unshare(CLONE_NEWUSER); }
static long do_socket(void) { return socket(AF_VSOCK, SOCK_STREAM, 0); }
static long do_netlink(void) { return socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER); }
static long do_declared(void)
{
	return socket(AF_INET, SOCK_STREAM, 0) | socket(AF_INET6, SOCK_DGRAM, 0) |
	       socket(AF_UNIX, SOCK_STREAM, 0) | socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}
static long do_module(void) { return socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP); }
static long do_exec(void) { return execl("/bin/busybox", "true", (char *)NULL); }
static long do_setuid(void) { return execl("/tmp/setuid", "setuid", "euid", (char *)NULL); }
static long do_euid(void) { return geteuid() == 0 ? 0 : -1; }

static const struct attempt {
	const char *name;
	int is_root;
	long (*before)(void); /* joining */
	long (*make)(void);
} attempts[] = {
	{ "mount", 1, own_mounts, do_mount },
	{ "init_module", 1, NULL, do_init_module },
	{ "bpf", 0, NULL, do_bpf },
	{ "perf", 0, NULL, do_perf },
	{ "ptrace", 0, NULL, do_ptrace },
	{ "ptrace_inside", 0, NULL, do_ptrace_inside },
	{ "userns", 0, NULL, do_userns },
	{ "socket", 0, NULL, do_socket },
	{ "netlink", 0, NULL, do_netlink },
	{ "declared", 0, NULL, do_declared },
	{ "module", 0, NULL, do_module },
	{ "exec", 0, NULL, do_exec },
	{ "setuid", 0, NULL, do_setuid },
	{ "euid", 1, NULL, do_euid },
};

static void be_nobody(void)
{
	if (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
		exit(99);
	prctl(PR_SET_DUMPABLE, 1);
}

int main(int argc, char **argv)
{
	const struct attempt *a = attempts, *end = a + sizeof(attempts) / sizeof(*attempts);
	int procs = argc > 2 ? open(argv[2], O_WRONLY | O_CLOEXEC) : -1;

	while (a < end && argc > 1 && strcmp(a->name, argv[1]) != 0)
		a++;
	if (argc < 2 || a == end || (argc > 2 && procs < 0))
		return 99;
	if (a->before && a->before() != 0)
		return 99;
	if (!a->is_root)
		be_nobody();
	if (a->make == do_ptrace)
		make_target();
	/* Whoever opened the file counts, not who writes. */
	if (argc > 2 && write(procs, "0", 1) != 1)
		return 99;
	if (a->make() < 0)
		printf("errno %d\n", errno);
	else
		printf("ok\n");
	return 0;
}
