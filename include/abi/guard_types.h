/* SPDX-License-Identifier: GPL-2.0-or-later OR Apache-2.0 */
#ifndef CORDON_ABI_GUARD_TYPES_H
#define CORDON_ABI_GUARD_TYPES_H

/*
 * What the guard's programs (bpf/guard.bpf.c) and their userspace twin
 * (worker/guard.c) share: the hooks, the one map's value, and the one judgement
 * that is more than yes or no.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define GUARD_SLOTS_MAX 4096

/* A command of bpf(2) that no kernel has: denied to everybody, so that the asking can be seen. */
#define GUARD_TRIAL 0x636f7264

/* Bits of guard_slot.refused. */
#define GUARD_HOOKS(HOOK)                                          \
	HOOK(CAPABLE, "capable")		/* any use of a capability */    \
	HOOK(BPF, "bpf")			/* any call of it */		   \
	HOOK(PERF, "perf_event_open")		/* likewise */			   \
	HOOK(PTRACE, "ptrace_access_check")	/* of a process outside the slot */ \
	HOOK(USERNS, "userns_create")		/* any */			   \
	HOOK(SOCKET, "socket_create")		/* of another family than declared */ \
	HOOK(MODULE, "kernel_module_request")	/* any module wanted on its behalf */ \
	HOOK(EXEC, "bprm_creds_from_file")	/* a program that would raise its rights */
#define GUARD_ENUM(name, word) GUARD_HOOK_##name,
enum guard_hook { GUARD_HOOKS(GUARD_ENUM) GUARD_HOOKS_MAX };
#undef GUARD_ENUM

/*
 * Map `guarded`: kernel id of a slot's cgroup directory -> this. There from the
 * moment the launcher is told to run; the next exec in the slot is the command's
 * and arms it. Processes of no slot in the map are none of the guard's business.
 */
struct guard_slot {
	__u32 is_armed;
	__u32 refused; /* enum guard_hook, as bits */
};

/* Families: what the launcher's seccomp table lets through by its first line too. */
static inline __attribute__((always_inline)) int guard_socket_allowed(int family, int protocol)
{
	return family == 1 || family == 2 || family == 10 || /* AF_UNIX, AF_INET, AF_INET6 */
	       (family == 16 && protocol == 0);		     /* AF_NETLINK, NETLINK_ROUTE */
}

#ifndef __VMLINUX_H__
#include <assert.h>
static_assert(sizeof(struct guard_slot) == 8, "guard_slot");
#endif

#endif
