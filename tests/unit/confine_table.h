/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's confinement, taken on for real in a child that then holds every
 * line of its table against the kernel: what is in the table works (the
 * control), what is not is refused. One test_ROOM_privileges.c per program
 * includes this; the same programs run in the guests of vmtests/. Needs root.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"
#include "confine/confine.h"

enum {
	CALLS_END = 470,
	URETPROBE = 335, /* seccomp lets both by since 6.14: only a probe's own page may use them */
	UPROBE = 336,
	UID = 54321,
	GID = 54322,
};

static char scratch[64], args[CONFINE_ARGS_MAX][80], outside[80];

#define FAIL(...) (dprintf(2, "# " __VA_ARGS__), _exit(1))

static int make_place(char *ret, size_t size, const char *name)
{
	char path[128];
	int n = snprintf(ret, size, "%s/%s", scratch, name);

	snprintf(path, sizeof(path), "%.80s/file", ret);
	if (n < 0 || mkdir(ret, 0777) < 0 || chmod(ret, 0777) < 0)
		return -1;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	return fd < 0 || fchmod(fd, 0666) < 0 || close(fd) < 0 ? -1 : 0;
}

/* Places that everybody may do everything in, as far as their modes say. */
static int table_setup(void **state)
{
	char name[16];

	(void)state;
	strcpy(scratch, "/tmp/cordon-table-XXXXXX");
	if (!mkdtemp(scratch) || chmod(scratch, 0755) < 0 ||
	    make_place(outside, sizeof(outside), "outside") < 0)
		return -1;
	for (int i = 0; i < CONFINE_ARGS_MAX; i++) {
		snprintf(name, sizeof(name), "arg%d", i);
		if (make_place(args[i], sizeof(args[i]), name) < 0)
			return -1;
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int table_teardown(void **state)
{
	(void)state;
	return nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static uint32_t put_on(const struct confinement *c)
{
	struct confine_as as = { .uid = c->flags & CONFINE_ROOT ? 0 : UID,
				 .gid = c->flags & CONFINE_ROOT ? 0 : GID };
	uint32_t missing = 0;
	struct err e;

	for (int i = 0; i < CONFINE_ARGS_MAX; i++)
		as.args[i] = args[i];
	if (confine_early(c, &e) < 0 || confine_final(c, &as, &missing, &e) < 0)
		FAIL("%s: %s\n", c->program, e.msg);
	return missing;
}

/* @body in a child that is confined as @c says; its exit status or 128 + signal. */
static int in_child(const struct confinement *c, void (*body)(const struct confinement *, long), long n)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(20); /* a call that waits instead of being refused */
		body(c, n);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* --- Capabilities, ids, limits */

static bool keeps(const struct confinement *c, int cap)
{
	for (size_t i = 0; i < c->ncaps; i++)
		if (c->caps[i].cap == cap)
			return true;
	return false;
}

static void body_caps(const struct confinement *c, long n)
{
	static const cap_flag_t flags[] = { CAP_PERMITTED, CAP_EFFECTIVE };
	cap_flag_value_t on;

	(void)n;
	put_on(c);
	cap_t set = cap_get_proc();
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
		for (size_t i = 0; set && i < ARRAY_SIZE(flags); i++)
			if (cap_get_flag(set, cap, flags[i], &on) == 0 && (on == CAP_SET) != keeps(c, cap))
				FAIL("%s: capability %d is %s\n", c->program, cap,
				     on == CAP_SET ? "held" : "not held");
		if (cap_get_flag(set, cap, CAP_INHERITABLE, &on) == 0 && on == CAP_SET)
			FAIL("%s: capability %d is inheritable\n", c->program, cap);
	}
}

/* The bounding set, which a filter would not let be read later. */
static void body_bound(const struct confinement *c, long n)
{
	struct err e;

	(void)n;
	if (confine_early(c, &e) < 0)
		FAIL("%s: %s\n", c->program, e.msg);
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
		int on = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
		if (on == 1 && !keeps(c, cap) && cap != CAP_SETUID && cap != CAP_SETGID &&
		    cap != CAP_SETPCAP && cap != CAP_SYS_RESOURCE)
			FAIL("%s: capability %d is in the bounding set\n", c->program, cap);
	}
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		FAIL("%s: new privileges, or dumpable\n", c->program);
}

static void body_limits(const struct confinement *c, long n)
{
	struct rlimit r;
	uint32_t missing = put_on(c);

	(void)n;
	for (size_t i = 0; i < c->nlimits; i++) {
		if (getrlimit((__rlimit_resource_t)c->limits[i].resource, &r) < 0 ||
		    r.rlim_cur != r.rlim_max || r.rlim_max > c->limits[i].value ||
		    (r.rlim_max != c->limits[i].value && !(missing & MISSING_LIMIT)))
			FAIL("%s: limit %d\n", c->program, c->limits[i].resource);
	}
}

/* --- System calls */

static long number_of(const struct confine_call *call)
{
	int nr = seccomp_syscall_resolve_name(call->name);

	return nr < 0 ? -1 : nr;
}

/* How the lists have call @nr: the first line that names it, or NULL. */
static const struct confine_call *line_of(const struct confine_call *list, size_t n, long nr)
{
	for (size_t i = 0; i < n; i++)
		if (number_of(&list[i]) == nr)
			return &list[i];
	return NULL;
}

static bool is_listed(const struct confinement *c, long nr)
{
	return line_of(c->calls, c->ncalls, nr) ||
	       line_of(confine_base_calls, confine_base_ncalls, nr);
}

/* Nothing that any call could do anything with. */
static long call_with(long nr, const struct confine_call *call, uint64_t value)
{
	long a[6] = { -1, -1, -1, -1, -1, -1 };

	if (call)
		a[call->arg] = (long)value;
	return syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Every call that no list names: EPERM, and the program lives. */
static void body_unlisted(const struct confinement *c, long n)
{
	int tried = 0;

	(void)n;
	put_on(c);
	for (long nr = 0; nr < CALLS_END; nr++) {
		if (is_listed(c, nr) || line_of(confine_forbidden, confine_nforbidden, nr) ||
		    nr == URETPROBE || nr == UPROBE)
			continue;
		int wanted = line_of(confine_absent, confine_nabsent, nr) ? ENOSYS : EPERM;
		errno = 0;
		if (call_with(nr, NULL, 0) != -1 || errno != wanted)
			FAIL("%s: call %ld: errno %d, wanted %d\n", c->program, nr, errno, wanted);
		tried++;
	}
	if (tried < 200)
		FAIL("%s: only %d calls are not listed\n", c->program, tried);
}

static void body_forbidden(const struct confinement *c, long nr)
{
	put_on(c);
	call_with(nr, NULL, 0);
}

static bool ends_or_waits(const char *name)
{
	static const char *const names[] = { "exit", "exit_group", "rt_sigreturn", "restart_syscall",
					     "munmap", "brk", "close_range" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool other_line_allows(const struct confinement *c, const struct confine_call *not, uint64_t v)
{
	for (size_t i = 0; i < c->ncalls; i++)
		if (&c->calls[i] != not && strcmp(c->calls[i].name, not->name) == 0 &&
		    (!c->calls[i].mask || (v & c->calls[i].mask) == c->calls[i].value))
			return true;
	return false;
}

/* Every line of the table and of the base: allowed as it stands, and refused where it does not. */
static void try_line(const struct confinement *c, const struct confine_call *call)
{
	long nr = number_of(call);

	if (nr < 0 || ends_or_waits(call->name))
		return;
	errno = 0;
	call_with(nr, call->mask ? call : NULL, call->value);
	if (errno == EPERM)
		FAIL("%s: listed '%s': errno %d\n", c->program, call->name, errno);
	for (int bit = 0; call->mask && bit < 64; bit++) {
		uint64_t v = call->value ^ (1ULL << bit);
		if (!(call->mask & (1ULL << bit)) || other_line_allows(c, call, v))
			continue;
		errno = 0;
		if (call_with(nr, call, v) != -1 || errno != EPERM)
			FAIL("%s: '%s' with argument %u as 0x%llx: errno %d\n", c->program, call->name,
			     call->arg, (unsigned long long)v, errno);
	}
}

static void body_listed(const struct confinement *c, long n)
{
	(void)n;
	put_on(c);
	for (size_t i = 0; i < c->ncalls; i++)
		try_line(c, &c->calls[i]);
	for (size_t i = 0; i < confine_base_ncalls; i++)
		if (!line_of(c->calls, c->ncalls, number_of(&confine_base_calls[i])))
			try_line(c, &confine_base_calls[i]);
}

/* --- Paths */

static int try_path(const char *dir, const char *name, int flags)
{
	char path[256];

	snprintf(path, sizeof(path), "%.160s%s%s", dir, *name ? "/" : "", name);
	int fd = open(path, flags | O_CLOEXEC, 0600);
	int code = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && (flags & O_EXCL))
		unlink(path);
	return code;
}

static unsigned access_of(const struct confinement *c, unsigned arg)
{
	unsigned access = 0;

	for (size_t i = 0; i < c->npaths; i++)
		if (!c->paths[i].path && c->paths[i].arg == arg)
			access |= c->paths[i].access;
	return access;
}

static void expect(const struct confinement *c, const char *place, const char *what, int code,
		   bool is_allowed)
{
	if ((code == 0) != is_allowed || (code && code != EACCES))
		FAIL("%s: %s in '%s': errno %d, should be %s\n", c->program, what, place, code,
		     is_allowed ? "allowed" : "EACCES");
}

static void try_place(const struct confinement *c, const char *dir, unsigned access)
{
	expect(c, dir, "reading", try_path(dir, "file", O_RDONLY), access & MAY_READ);
	expect(c, dir, "writing", try_path(dir, "file", O_WRONLY), access & MAY_WRITE);
	expect(c, dir, "creating", try_path(dir, "new", O_WRONLY | O_CREAT | O_EXCL),
	       (access & MAY_CREATE) && (access & MAY_WRITE));
	expect(c, dir, "listing", try_path(dir, "", O_RDONLY | O_DIRECTORY), access & MAY_READ);
}

static void body_paths(const struct confinement *c, long n)
{
	uint32_t missing = put_on(c);

	(void)n;
	if (missing & MISSING_LANDLOCK)
		_exit(77);
	for (unsigned i = 0; i < CONFINE_ARGS_MAX; i++)
		try_place(c, args[i], access_of(c, i));
	try_place(c, outside, 0);
	for (size_t i = 0; i < c->npaths; i++) {
		const struct confine_path *p = &c->paths[i];
		if (p->path && try_path(p->path, "", O_RDONLY) != 0 && !p->is_optional)
			FAIL("%s: '%s' cannot be read\n", c->program, p->path);
	}
	static const char *const elsewhere[] = { "/", "/etc/hostname", "/proc/self/status", "/proc/1",
						 "/sys", "/dev/null", "/tmp", "/etc/shadow" };
	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++)
		if (access(elsewhere[i], F_OK) == 0)
			expect(c, elsewhere[i], "opening", try_path(elsewhere[i], "", O_RDONLY), false);
}

/* The controls: unconfined, the same places and calls are free. */
static void body_control(const struct confinement *c, long n)
{
	struct confinement none = { .program = "control" };

	(void)c, (void)n;
	if (setgid(GID) < 0 || setuid(UID) < 0)
		FAIL("ids\n");
	try_place(&none, outside, MAY_READ | MAY_WRITE | MAY_CREATE);
	errno = 0;
	syscall(SYS_swapon, -1, -1);
	if (errno == 0)
		FAIL("a call that means nothing says so\n");
	if (syscall(SYS_getsid, 0) < 0)
		FAIL("getsid\n");
}

/* --- All of it */

static void hold_table(const struct confinement *c)
{
	bool is_filtered = !(c->flags & CONFINE_NO_SECCOMP);

	if (geteuid() != 0) {
		skip();
		return;
	}
	assert_int_equal(in_child(c, body_control, 0), 0);
	assert_int_equal(in_child(c, body_caps, 0), 0);
	assert_int_equal(in_child(c, body_bound, 0), 0);
	assert_int_equal(in_child(c, body_limits, 0), 0);
	if (!(c->flags & CONFINE_NO_LANDLOCK)) {
		int status = in_child(c, body_paths, 0);
		if (status == 77)
			print_message("# no Landlock here: paths not tried\n");
		else
			assert_int_equal(status, 0);
	}
	if (!is_filtered)
		return;
	assert_int_equal(in_child(c, body_unlisted, 0), 0);
	assert_int_equal(in_child(c, body_listed, 0), 0);
	for (size_t i = 0; i < confine_nforbidden; i++) {
		long nr = number_of(&confine_forbidden[i]);
		if (nr < 0 || is_listed(c, nr))
			continue;
		int status = in_child(c, body_forbidden, nr);
		if (status != 128 + SIGSYS)
			print_message("# %s: '%s' gave %d\n", c->program, confine_forbidden[i].name, status);
		assert_int_equal(status, 128 + SIGSYS);
	}
}

#define TABLE_TEST(name) cmocka_unit_test_setup_teardown(name, table_setup, table_teardown)
