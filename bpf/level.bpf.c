// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Run once by its userspace twin (worker/egress_kernel.c) before the job programs
 * are loaded: the kernel ids of the caller's own cgroup and its ancestors, from
 * the root down. Only the kernel knows at which level a directory really lies;
 * what a path shows depends on the mount and the cgroup namespace.
 */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

#define LEVELS 32

__u64 ids[LEVELS];

SEC("raw_tp")
int read_levels(void *ctx __attribute__((unused)))
{
	for (int i = 0; i < LEVELS; i++)
		ids[i] = bpf_get_current_ancestor_cgroup_id(i);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
