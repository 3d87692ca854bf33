/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_PROBE_H
#define CORDON_CLI_PROBE_H

/*
 * What `cordon doctor` tries. A probe does the real thing in a process and
 * mount namespace of its own, and leaves nothing behind. It gives 0 with a
 * word about what it found in *e->msg, or -errno with what failed.
 */
#include "base/err.h"

typedef int (*probe)(struct err *e);

/* probe_kernel.c */
int probe_namespaces(struct err *e);
int probe_seccomp(struct err *e);
int probe_landlock(struct err *e);
int probe_pidfd(struct err *e);
int probe_rlimits(struct err *e);
int probe_fuse(struct err *e);

/* probe_mount.c */
int probe_detached(struct err *e);
int probe_erofs_file(struct err *e);
int probe_erofs_loop(struct err *e);
int probe_ext4_loop(struct err *e);
int probe_idmap_tmpfs(struct err *e);
int probe_idmap_ext4(struct err *e);
int probe_idmap_erofs(struct err *e);

/* probe_cgroup.c */
int probe_cgroup_kill(struct err *e);
int probe_cgroup_cpu(struct err *e);
int probe_cgroup_memory(struct err *e);
int probe_cgroup_swap(struct err *e);
int probe_cgroup_pids(struct err *e);
int probe_bpf_skb(struct err *e);
int probe_bpf_connect(struct err *e);
int probe_bpf_sock(struct err *e);
int probe_bpffs(struct err *e);

/* probe_lsm.c */
int probe_bpf_lsm(struct err *e);

/* probe_network.c */
int probe_nft(struct err *e);
int probe_sock_destroy(struct err *e);

/* Runs @argv to its end, quietly. 0, or -errno. For the probes. */
int probe_run(char *const argv[], struct err *e);

/* Removes the cgroup directories a probe of process @pid made. */
void probe_cgroup_clear(int pid);

#endif
