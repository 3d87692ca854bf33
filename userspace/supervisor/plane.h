/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SUPERVISOR_PLANE_H
#define CORDON_SUPERVISOR_PLANE_H

/* One instance, as cordond sees it: facts fixed at start, handed down const. */
#include <stdbool.h>

#include "config/cgroups.h"
#include "config/config.h"
#include "config/places.h"

struct plane {
	struct places places;
	char instance[INSTANCE_MAX];
	struct config config;
	char *text; /* the configuration as read */
	size_t text_len;
	struct cgroup_hierarchy cgroups[CGROUPS_MAX];
	int cgroup_count;
};

/* The id of a daemon: the installed user where ROOT is / and it exists, else numeric. 0: root. */
void plane_daemon_id(const struct plane *p, enum config_reader who, uint32_t *ret_uid,
		     uint32_t *ret_gid);

#endif
