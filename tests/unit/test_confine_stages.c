/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both stages of a confinement, applied for real in a child that then tries to
 * break every line. Each refusal has its positive control: the same call
 * before the final stage. Needs root; skipped without.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"
#include "confine/confine.h"

enum { UID = 54321, GID = 54322 };

static char dir[] = "/tmp/test-confine-XXXXXX";
static char readable[64], writable[64], hidden[64];

static const struct confine_path paths[] = {
	{ .arg = 0, .access = MAY_READ, .reason = "test" },
	{ .arg = 1, .access = MAY_READ | MAY_WRITE | MAY_CREATE, .reason = "test" },
	{ .arg = 2, .access = MAY_READ, .is_optional = true, .reason = "test" },
	{ .path = "/proc", .access = MAY_READ, .reason = "the test reads its own status" },
};
static const struct confine_call calls[] = {
	CALL("mkdir", "test"),
	CALL("unlink", "test"),
	CALL("setresuid", "the test tries to be root again"),
	CALL_IF("socket", "test", 0, 0xffffffff, AF_UNIX),
};
static const struct confine_limit limits[] = {
	{ RLIMIT_NOFILE, 64, "test" },
};
static const struct confinement plain = {
	.program = "test",
	.flags = CONFINE_NO_TCP,
	.paths = paths,
	.npaths = ARRAY_SIZE(paths),
	.calls = calls,
	.ncalls = ARRAY_SIZE(calls),
	.limits = limits,
	.nlimits = ARRAY_SIZE(limits),
};
static const struct confine_as as = { .uid = UID, .gid = GID, .args = { readable, writable } };

/* In the child: a failed expectation is its exit status, a line number. */
#define EXPECT(what) \
	do { \
		if (!(what)) { \
			dprintf(2, "# line %d: %s (errno %d)\n", __LINE__, #what, errno); \
			_exit(1); \
		} \
	} while (0)

static int run_child(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

static void confine(const struct confinement *c)
{
	struct err e;
	uint32_t missing;

	if (confine_early(c, &e) < 0 || confine_final(c, &as, &missing, &e) < 0) {
		dprintf(2, "# %s\n", e.msg);
		_exit(2);
	}
}

static int try_open(const char *where, const char *name, int flags)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", where, name);
	int fd = open(path, flags, 0600);
	int rc = fd < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

static unsigned long status_field(const char *key, int base)
{
	char line[256];
	unsigned long v = ~0UL;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			v = strtoul(line + strlen(key) + 1, NULL, base);
	if (f)
		fclose(f);
	return v;
}

static void body_ids(void)
{
	FILE *f = fopen("/proc/self/status", "re"); /* not dumpable: only root opens it later */
	char text[4096];

	EXPECT(f);
	setvbuf(f, NULL, _IONBF, 0);
	confine(&plain);
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	EXPECT(strstr(text, "\nCapPrm:\t0000000000000000\n"));
	EXPECT(strstr(text, "\nCapEff:\t0000000000000000\n"));
	EXPECT(strstr(text, "\nCapBnd:\t0000000000000000\n"));
	EXPECT(strstr(text, "\nCapInh:\t0000000000000000\n"));
	EXPECT(strstr(text, "\nCapAmb:\t0000000000000000\n"));
	EXPECT(strstr(text, "\nNoNewPrivs:\t1\n"));
	EXPECT(strstr(text, "\nSeccomp:\t2\n"));
	EXPECT(strstr(text, "\nGroups:\t \n") || strstr(text, "\nGroups:\t\n"));
	EXPECT(getuid() == UID && geteuid() == UID && getgid() == GID && getegid() == GID);
	EXPECT(setresuid(0, 0, 0) < 0 && errno == EPERM);
	EXPECT(prctl(PR_SET_DUMPABLE, 1) < 0 && errno == EPERM);
	struct rlimit l;
	EXPECT(getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur == 64 && l.rlim_max == 64);
	EXPECT(getrlimit(RLIMIT_CORE, &l) == 0 && l.rlim_max == 0);
	EXPECT(umask(0) == 077);
}

static void gives_up_ids_capabilities_and_the_way_back(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(run_child(body_ids), 0);
}

static void body_paths(void)
{
	EXPECT(try_open(hidden, "file", O_RDONLY) == 0); /* control */
	EXPECT(try_open(readable, "file", O_WRONLY) == 0);
	confine(&plain);
	EXPECT(try_open(hidden, "file", O_RDONLY) == -EACCES);
	EXPECT(try_open("/etc", "passwd", O_RDONLY) == -EACCES);
	EXPECT(try_open(readable, "file", O_RDONLY) == 0);
	EXPECT(try_open(readable, "file", O_WRONLY) == -EACCES);
	EXPECT(try_open(readable, "new", O_WRONLY | O_CREAT) == -EACCES);
	EXPECT(try_open(writable, "new", O_WRONLY | O_CREAT) == 0);
	EXPECT(try_open(writable, "new", O_WRONLY | O_TRUNC) == 0);
}

static void only_listed_paths_stay(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(run_child(body_paths), 0);
}

static void body_calls(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	EXPECT(fd >= 0); /* control */
	EXPECT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	       MAP_FAILED);
	confine(&plain);
	EXPECT(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
	EXPECT(socket(AF_NETLINK, SOCK_RAW, 0) < 0 && errno == EPERM);
	EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) >= 0); /* the table's line */
	EXPECT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
		       MAP_FAILED && errno == EPERM);
	EXPECT(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	EXPECT(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
	EXPECT(kill(getpid(), 0) < 0 && errno == EPERM);
	EXPECT(ioctl(fd, 0x5412 /* TIOCSTI */, "x") < 0 && errno == EPERM);
	/* the kernel takes 32 bits of the request: so does the filter */
	EXPECT(syscall(SYS_ioctl, fd, 0x100005412UL, "x") < 0 && errno == EPERM);
}

static void an_unlisted_call_is_refused(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(run_child(body_calls), 0);
}

static void body_forbidden(void)
{
	confine(&plain);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void body_exec(void)
{
	char *argv[] = { (char *)"true", NULL };

	confine(&plain);
	execv("/bin/true", argv);
}

static void body_x32(void)
{
	confine(&plain);
	syscall(0x40000000 | SYS_getpid);
}

static void a_forbidden_call_kills(void **state)
{
	(void)state;
	need_root();
	int status = run_child(body_forbidden);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	status = run_child(body_exec);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
#ifdef __x86_64__
	status = run_child(body_x32);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
#endif
}

static void body_cap(void)
{
	static const struct confine_cap caps[] = { { CAP_CHOWN, "test" } };
	static const struct confine_call more[] = { CALL("chown", "test"), CALL("fchownat", "test") };
	struct confinement c = plain;

	c.caps = caps;
	c.ncaps = 1;
	c.calls = more;
	c.ncalls = ARRAY_SIZE(more);
	confine(&c);
	EXPECT(chown(writable, 7, 7) == 0);
	EXPECT(chown(writable, UID, GID) == 0);
	/* another capability of root's is gone: reading what is not ours */
	EXPECT(try_open(readable, "secret", O_RDONLY) == -EACCES);
}

static void a_listed_capability_stays_and_no_other(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(run_child(body_cap), 0);
}

static void body_stay_root(void)
{
	static const struct confine_as root = { .args = { readable, writable } };
	struct err e;
	uint32_t missing;

	EXPECT(confine_early(&plain, &e) == 0);
	EXPECT(confine_final(&plain, &root, &missing, &e) == -EINVAL);
	EXPECT(strstr(e.msg, "must not stay root"));
}

static void root_is_refused_to_who_does_not_ask(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(run_child(body_stay_root), 0);
}

static void body_missing_path(void)
{
	static const struct confine_as half = { .uid = UID, .gid = GID, .args = { readable } };
	static const struct confine_as wrong = { .uid = UID,
						 .gid = GID,
						 .args = { readable, "/nowhere" } };
	struct err e;
	uint32_t missing;

	EXPECT(confine_final(&plain, &half, &missing, &e) == -EINVAL);
	EXPECT(confine_final(&plain, &wrong, &missing, &e) == -ENOENT);
	EXPECT(strstr(e.msg, "/nowhere"));
	EXPECT(geteuid() == 0); /* refused before anything was given up */
}

static void a_missing_path_is_an_error_that_names_it(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(run_child(body_missing_path), 0);
}

static void body_limit(void)
{
	static const struct confine_limit high[] = { { RLIMIT_NOFILE, 500, "test" } };
	struct rlimit low = { 100, 100 };
	struct confinement c = plain;
	struct err e;
	uint32_t missing = 0;
	bool may_raise = (status_field("CapEff:", 16) >> CAP_SYS_RESOURCE) & 1;

	c.limits = high;
	EXPECT(setrlimit(RLIMIT_NOFILE, &low) == 0);
	EXPECT(confine_early(&c, &e) == 0);
	EXPECT(confine_final(&c, &as, &missing, &e) == 0);
	EXPECT(may_raise || (missing & MISSING_LIMIT));
	EXPECT(getrlimit(RLIMIT_NOFILE, &low) == 0);
	EXPECT(low.rlim_cur == (may_raise ? 500 : 100));
}

static void a_limit_that_cannot_go_up_is_reported(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(run_child(body_limit), 0);
}

static void every_line_has_its_reason(void **state)
{
	(void)state;
	for (size_t i = 0; i < confine_base_ncalls; i++)
		assert_true(confine_base_calls[i].name && *confine_base_calls[i].reason);
	for (size_t i = 0; i < confine_nforbidden; i++)
		for (size_t j = 0; j < confine_base_ncalls; j++)
			assert_string_not_equal(confine_forbidden[i].name,
						confine_base_calls[j].name);
	for (unsigned i = 0; i < MISSING_COUNT; i++)
		assert_string_not_equal(confine_missing_name(i), "unknown");
}

static void put(const char *where, const char *name, mode_t mode)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", where, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	snprintf(readable, sizeof(readable), "%s/readable", dir);
	snprintf(writable, sizeof(writable), "%s/writable", dir);
	snprintf(hidden, sizeof(hidden), "%s/hidden", dir);
	mkdir(readable, 0755);
	mkdir(writable, 0755);
	mkdir(hidden, 0755);
	put(readable, "file", 0666);
	put(readable, "secret", 0600);
	put(hidden, "file", 0666);
	if (geteuid() == 0)
		assert_int_equal(chown(writable, UID, GID), 0);
	return 0;
}

static int teardown(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_up_ids_capabilities_and_the_way_back),
		cmocka_unit_test(only_listed_paths_stay),
		cmocka_unit_test(an_unlisted_call_is_refused),
		cmocka_unit_test(a_forbidden_call_kills),
		cmocka_unit_test(a_listed_capability_stays_and_no_other),
		cmocka_unit_test(root_is_refused_to_who_does_not_ask),
		cmocka_unit_test(a_missing_path_is_an_error_that_names_it),
		cmocka_unit_test(a_limit_that_cannot_go_up_is_reported),
		cmocka_unit_test(every_line_has_its_reason),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
