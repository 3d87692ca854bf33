/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_ATTACH_H
#define CORDON_WORKER_ATTACH_H

/* Where the worker's BPF programs are attached, and how they stay there. */
#include <stdint.h>

#include "base/err.h"

struct bpf_link;
struct bpf_object;

enum { LINKS_MAX = 16 };

/* The links of one set of programs. */
struct link_set {
	struct bpf_link *links[LINKS_MAX];
	unsigned n;
};

struct attach_place {
	int dirfd;	     /* a cgroup directory; -1: the hooks the programs name */
	const char *pin_dir; /* a directory of a bpffs */
	const char *prefix;  /* of the pins' names */
};

/*
 * The level of the directories below @jobs_fd: climbs from it until it meets
 * a directory that this process's own cgroup descends from, whose level the
 * kernel has told (bpf/level.bpf.c). Silences libbpf: called before all else.
 */
int attach_level(int jobs_fd, uint32_t *ret, struct err *e);

/*
 * Attaches every program of the loaded @obj, beside whatever else is attached
 * there, and pins its link in place of what an earlier worker left: there is
 * no moment without the one or the other. A step that fails undoes the rest.
 */
int attach_all(struct bpf_object *obj, const struct attach_place *at, struct link_set *set,
	       struct err *e);

/* Lets go of the links; what is pinned stays attached. */
void attach_drop(struct link_set *set);

/* Unpins and detaches them. */
void attach_undo(struct link_set *set);

#endif
