/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_CGROUP_H
#define CORDON_WORKER_CGROUP_H

/*
 * The cgroup directories of sandboxes (Q5, DESIGN 4):
 * <base>/<instance>/jobs/<slot> in the v2 tree, always, for killing, counting
 * and BPF; and in every v1 hierarchy that carries cpu, memory or pids where
 * the host keeps these there. One small interface over both layouts.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "policy/limits.h"

enum cgroup_controller { CG_CPU, CG_MEMORY, CG_PIDS, CG_CONTROLLERS };
enum { CG_TREES_MAX = 4 };

struct cgroup_base {
	unsigned ntrees;
	struct cgroup_tree {
		int jobs_fd; /* <base>/<instance>/jobs */
		bool is_v2;
	} trees[CG_TREES_MAX]; /* [0] is the v2 tree */
	int tree_of[CG_CONTROLLERS]; /* index, or -1: the host has no such controller here */
	bool has_swap_limit;
};

struct cgroup {
	char name[32];
	uint64_t id; /* inode of the v2 directory: its id in the kernel */
	int dir_fds[CG_TREES_MAX];
	int tasks_fds[CG_TREES_MAX]; /* v1 only: where the slot's process writes "0" */
	int kill_fd;
	const struct cgroup_base *base;
};

/* Makes <instance>/jobs in every tree needed and finds the controllers. */
int cgroup_open_base(const char *instance, struct cgroup_base *ret, struct err *e);

/* Kills and removes slots that a former life of the worker left. */
void cgroup_sweep(const struct cgroup_base *base);

/* Makes one slot's directories. On failure nothing is left. */
int cgroup_make(const struct cgroup_base *base, const char *name, struct cgroup *ret,
		struct err *e);

/* Writes the limits: in force before the command's first instruction (Q5). */
int cgroup_limit(const struct cgroup *cg, const struct limits *l, struct err *e);

/* Kills everything in it, at once. */
void cgroup_kill(const struct cgroup *cg);

/* True while a process is in it. */
bool cgroup_is_populated(const struct cgroup *cg);

struct cgroup_counts {
	uint64_t cpu_ns, memory_peak_bytes, oom_kills;
};
void cgroup_read(const struct cgroup *cg, struct cgroup_counts *ret);

/* Removes the directories and closes. -EBUSY: again in a moment, nothing closed. */
int cgroup_remove(struct cgroup *cg);

#endif
