/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build-time tool: turns syscalls.def into the launcher's seccomp program and
 * prints it as a C array. libseccomp does the assembling; the launcher, which
 * is static and has no heap, only loads the result.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TYPE_MASK = 0xf };

static scmp_filter_ctx ctx;

static void check(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "filter: %s: error %d\n", what, -rc);
	exit(1);
}

#define RULE(action, name, ...) \
	check(seccomp_rule_add_array(ctx, action, SCMP_SYS(name), \
				     sizeof((struct scmp_arg_cmp[]){ __VA_ARGS__ }) / \
					     sizeof(struct scmp_arg_cmp), \
				     (struct scmp_arg_cmp[]){ __VA_ARGS__ }), \
	      #name)

/* The kernel reads these arguments as 32 bits: the high half must not decide. */
#define LOW(arg, op_value) SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, 0xffffffffu, op_value)

static void judge_clone(void)
{
	const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
				    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

	RULE(SCMP_ACT_ALLOW, clone, SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, namespaces, 0));
}

/* The prefix has already refused what must not pass. */
static void judge_ioctl(void)
{
	check(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 0), "ioctl");
}

static void judge_socket(void)
{
	static const int families[] = { AF_INET, AF_INET6 };
	static const struct {
		int type, protocol;
	} plain[] = {
		{ SOCK_STREAM, 0 },
		{ SOCK_STREAM, IPPROTO_TCP },
		{ SOCK_DGRAM, 0 },
		{ SOCK_DGRAM, IPPROTO_UDP },
	};

	RULE(SCMP_ACT_ALLOW, socket, LOW(0, AF_UNIX));
	RULE(SCMP_ACT_ALLOW, socket, LOW(0, AF_NETLINK), LOW(2, NETLINK_ROUTE));
	for (size_t f = 0; f < 2; f++)
		for (size_t p = 0; p < sizeof(plain) / sizeof(plain[0]); p++)
			RULE(SCMP_ACT_ALLOW, socket, LOW(0, (unsigned)families[f]),
			     SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, TYPE_MASK, (unsigned)plain[p].type),
			     LOW(2, (unsigned)plain[p].protocol));
}

static void judge_personality(void)
{
	static const unsigned allowed[] = { 0, UNAME26, UNAME26 | ADDR_NO_RANDOMIZE,
					    ADDR_NO_RANDOMIZE, 0xffffffffu };

	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		RULE(SCMP_ACT_ALLOW, personality, LOW(0, allowed[i]));
}

static void judge_prlimit64(void)
{
	RULE(SCMP_ACT_ALLOW, prlimit64, LOW(0, 0));
	RULE(SCMP_ACT_ALLOW, prlimit64, SCMP_CMP64(2, SCMP_CMP_EQ, 0));
}

static void add_table(void)
{
#define ALLOW(name) \
	check(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(name), 0), #name);
#define JUDGE(name) judge_##name();
/* ENOSYS is what the program answers by default; libseccomp wants no rule for that. */
#define DENY(name, code) \
	if (code != ENOSYS) \
		check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(code), SCMP_SYS(name), 0), #name);
#include "launcher/syscalls.def"
}

/*
 * "Any request but these two, by the low half alone" cannot be said in
 * libseccomp's rules, so these instructions come before its program: they
 * refuse, or fall through to it.
 */
static const struct sock_filter *prefix(size_t *ret_count)
{
	enum { LEN = 8 };
	static struct sock_filter p[LEN];

	const struct sock_filter code[LEN] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 0, LEN - 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, LEN - 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	memcpy(p, code, sizeof(p));
	*ret_count = LEN;
	return p;
}

static void print(const struct sock_filter *i)
{
	printf("\t{ 0x%04x, %u, %u, 0x%08x },\n", i->code, i->jt, i->jf, i->k);
}

int main(void)
{
	char path[] = "/tmp/cordon-filter-XXXXXX";
	struct sock_filter insn;
	size_t n;
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	unlink(path);
	ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!ctx)
		return 1;
	check(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad arch");
	check(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "binary tree");
	add_table();
	check(seccomp_export_bpf(ctx, fd), "export");
	lseek(fd, 0, SEEK_SET);
	printf("/* generated from syscalls.def */\n"
	       "static const struct sock_filter seccomp_filter[] = {\n");
	const struct sock_filter *before = prefix(&n);
	for (size_t i = 0; i < n; i++)
		print(&before[i]);
	while (read(fd, &insn, sizeof(insn)) == (ssize_t)sizeof(insn))
		print(&insn);
	printf("};\n");
	return 0;
}
