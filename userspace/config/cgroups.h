/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CONFIG_CGROUPS_H
#define CORDON_CONFIG_CGROUPS_H

/*
 * Where the host keeps its cgroup hierarchies and where in each an instance
 * has its directory (Q5, DESIGN 4): <base>/<instance>. Finds places, makes and
 * removes nothing.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
	CGROUPS_MAX = 16,
	CGROUP_PATH_MAX = 512,
};

struct cgroup_hierarchy {
	char mount[128];		/* where it is mounted */
	char own[CGROUP_PATH_MAX];	/* this process's path in it, "/..." */
	char controllers[64];		/* v1: "memory", "cpu,cpuacct", "name=systemd"; v2: "" */
	bool is_v2;
	char base[CGROUP_PATH_MAX];	/* full path of the directory that holds the instance's */
};

/*
 * Lists the hierarchies of the host. On v2 the base is the process's own
 * cgroup where it is the top or was delegated (user or trusted xattr
 * `delegate`), else the top; a trailing /INSTANCE/... of cordond's own making
 * is not counted as part of it. On v1 it is the top. Gives their number.
 */
int cgroups_list(const char *instance, struct cgroup_hierarchy *ret, size_t max, struct err *e);

/* The v2 hierarchy of a list, or NULL. */
const struct cgroup_hierarchy *cgroups_v2(const struct cgroup_hierarchy *list, int n);

/* The v1 hierarchy that carries @controller, or NULL. */
const struct cgroup_hierarchy *cgroups_v1(const struct cgroup_hierarchy *list, int n,
					  const char *controller);

#endif
