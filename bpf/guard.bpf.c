// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The second line behind capabilities, seccomp and namespaces (B5), where the
 * kernel takes programs of security hooks: what no sandboxed command may ever
 * do is denied by its cgroup, whatever became of the first line. Judges the
 * processes of slots in `guarded` and, since it is asked for every process of
 * the host, has no opinion of any other.
 *
 * A capability is denied in every user namespace: that covers mounts, modules,
 * kexec, devices, ids and the rest. The hooks beside it are those that let
 * processes without a capability through.
 *
 * The userspace twin is worker/guard.c; nobody else touches the map.
 */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "abi/guard_types.h"

/* BPF_PROG names a context that most of these have no need of. */
#pragma clang diagnostic ignored "-Wunused-parameter"

#define EPERM 1

const volatile __u32 slot_level;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GUARD_SLOTS_MAX);
	__type(key, __u64);
	__type(value, struct guard_slot);
} guarded SEC(".maps");

static __always_inline struct guard_slot *current_slot(void)
{
	__u64 id = bpf_get_current_ancestor_cgroup_id(slot_level);

	return bpf_map_lookup_elem(&guarded, &id);
}

static __always_inline int deny(enum guard_hook hook)
{
	struct guard_slot *slot = current_slot();

	if (!slot || !slot->is_armed)
		return 0;
	__sync_fetch_and_or(&slot->refused, 1u << hook);
	return -EPERM;
}

static __always_inline const struct cred *own_cred(void)
{
	return BPF_CORE_READ(bpf_get_current_task_btf(), real_cred);
}

/* A filesystem that works for a caller borrows other credentials (overlay): not the command's. */
SEC("lsm/capable")
int BPF_PROG(capable, const struct cred *cred)
{
	return cred == own_cred() ? deny(GUARD_HOOK_CAPABLE) : 0;
}

SEC("lsm/bpf")
int BPF_PROG(bpf, int cmd)
{
	return cmd == GUARD_TRIAL ? -EPERM : deny(GUARD_HOOK_BPF);
}

SEC("lsm/perf_event_open")
int BPF_PROG(perf)
{
	return deny(GUARD_HOOK_PERF);
}

SEC("lsm/ptrace_access_check")
int BPF_PROG(ptrace, struct task_struct *child)
{
	if (BPF_CORE_READ(child, cgroups, dfl_cgrp, kn, id) ==
	    bpf_get_current_ancestor_cgroup_id(slot_level))
		return 0;
	return deny(GUARD_HOOK_PTRACE);
}

SEC("lsm/userns_create")
int BPF_PROG(userns)
{
	return deny(GUARD_HOOK_USERNS);
}

SEC("lsm/socket_create")
int BPF_PROG(socket, int family, int type, int protocol, int kern)
{
	return kern || guard_socket_allowed(family, protocol) ? 0 : deny(GUARD_HOOK_SOCKET);
}

SEC("lsm/kernel_module_request")
int BPF_PROG(module)
{
	return deny(GUARD_HOOK_MODULE);
}

/* Eight bytes of capabilities, whichever way the kernel declares them. */
static __always_inline __u64 permitted(const struct cred *cred)
{
	__u64 bits = ~0ull;

	bpf_core_read(&bits, sizeof(bits), &cred->cap_permitted);
	return bits;
}

/* Asked when the new rights are known and the exec can still fail. */
SEC("lsm/bprm_creds_from_file")
int BPF_PROG(exec, struct linux_binprm *bprm)
{
	const struct cred *new = BPF_CORE_READ(bprm, cred), *old = own_cred();
	struct guard_slot *slot = current_slot();

	if (!slot)
		return 0;
	slot->is_armed = 1;
	if (BPF_CORE_READ(new, euid.val) == BPF_CORE_READ(old, euid.val) &&
	    BPF_CORE_READ(new, egid.val) == BPF_CORE_READ(old, egid.val) &&
	    !(permitted(new) & ~permitted(old)))
		return 0;
	return deny(GUARD_HOOK_EXEC);
}

char LICENSE[] SEC("license") = "GPL";
