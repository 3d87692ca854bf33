/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe of the guard (worker/guard.c): a program on a security hook that
 * denies one call, and the call. No list of security modules would tell:
 * kernels refuse such programs although theirs ends in bpf, and take them and
 * never ask although it does not. By raw system calls, as in probe_cgroup.c;
 * the hook's number stands in the kernel's own types.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/guard_types.h"
#include "base/fd.h"
#include "base/scope.h"
#include "cli/probe.h"

#define KERNEL_TYPES "/sys/kernel/btf/vmlinux"
#define HOOK "bpf_lsm_bpf"

enum { TYPES_MAX = 64 << 20 };

/* Bytes behind a type's head; -1: a kind this program does not know. */
static long tail_bytes(const struct btf_type *t)
{
	static const struct {
		uint8_t fixed, each;
	} sizes[] = {
		[BTF_KIND_INT] = { 4, 0 },	   [BTF_KIND_PTR] = { 0, 0 },
		[BTF_KIND_ARRAY] = { 12, 0 },	   [BTF_KIND_STRUCT] = { 0, 12 },
		[BTF_KIND_UNION] = { 0, 12 },	   [BTF_KIND_ENUM] = { 0, 8 },
		[BTF_KIND_FUNC_PROTO] = { 0, 8 },  [BTF_KIND_VAR] = { 4, 0 },
		[BTF_KIND_DATASEC] = { 0, 12 },	   [BTF_KIND_DECL_TAG] = { 4, 0 },
		[BTF_KIND_TYPE_TAG] = { 0, 0 },	   [BTF_KIND_ENUM64] = { 0, 12 },
	};
	uint32_t kind = BTF_INFO_KIND(t->info);

	if (kind >= ARRAY_SIZE(sizes))
		return -1;
	return sizes[kind].fixed + (long)sizes[kind].each * BTF_INFO_VLEN(t->info);
}

/* The number of the function HOOK among @len bytes of the kernel's types; 0: not there. */
static uint32_t find_hook(const char *btf, size_t len)
{
	const struct btf_header *h = (const void *)btf;

	if (len < sizeof(*h) || h->magic != BTF_MAGIC || h->hdr_len > len ||
	    h->type_off > len - h->hdr_len || h->type_len > len - h->hdr_len - h->type_off ||
	    h->str_off > len - h->hdr_len || h->str_len > len - h->hdr_len - h->str_off)
		return 0;
	const char *names = btf + h->hdr_len + h->str_off, *at = btf + h->hdr_len + h->type_off;
	const char *end = at + h->type_len;
	for (uint32_t id = 1; (size_t)(end - at) >= sizeof(struct btf_type); id++) {
		const struct btf_type *t = (const void *)at;
		long tail = tail_bytes(t);
		if (BTF_INFO_KIND(t->info) == BTF_KIND_FUNC && h->str_len > sizeof(HOOK) &&
		    t->name_off < h->str_len - sizeof(HOOK) && strcmp(names + t->name_off, HOOK) == 0)
			return id;
		if (tail < 0 || tail > end - at - (long)sizeof(*t))
			return 0;
		at += sizeof(*t) + (size_t)tail;
	}
	return 0;
}

/* "Deny the command GUARD_TRIAL", loaded for the hook. */
static int load(uint32_t hook, struct err *e)
{
	static const struct bpf_insn code[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_1 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP32 | BPF_JNE | BPF_K, .dst_reg = BPF_REG_1, .off = 1, .imm = GUARD_TRIAL },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = -EPERM },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr a;

	memset(&a, 0, sizeof(a));
	a.prog_type = BPF_PROG_TYPE_LSM;
	a.expected_attach_type = BPF_LSM_MAC;
	a.attach_btf_id = hook;
	a.insns = (uint64_t)(uintptr_t)code;
	a.insn_cnt = ARRAY_SIZE(code);
	a.license = (uint64_t)(uintptr_t)"GPL";
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
	return fd < 0 ? err_set(e, errno, "load: %s", strerror(errno)) : fd;
}

int probe_bpf_lsm(struct err *e)
{
	autofree char *btf = NULL;
	union bpf_attr a;
	size_t len;

	if (fd_read_file(AT_FDCWD, KERNEL_TYPES, TYPES_MAX, &btf, &len, e) < 0)
		return -e->code;
	uint32_t hook = find_hook(btf, len);
	if (!hook)
		return err_set(e, ENOENT, "no hook " HOOK " in the kernel's types");
	autoclose int prog = load(hook, e);
	if (prog < 0)
		return prog;
	memset(&a, 0, sizeof(a));
	a.raw_tracepoint.prog_fd = (uint32_t)prog;
	autoclose int link = (int)syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &a, sizeof(a));
	if (link < 0)
		return err_set(e, errno, "attach: %s", strerror(errno));
	memset(&a, 0, sizeof(a));
	if (syscall(SYS_bpf, GUARD_TRIAL, &a, sizeof(a)) >= 0 || errno != EPERM)
		return err_set(e, ENOSYS, "loaded and attached, and never asked (lsm=)");
	snprintf(e->msg, sizeof(e->msg), "a denied call is denied");
	return 0;
}
