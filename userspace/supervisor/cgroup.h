/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SUPERVISOR_CGROUP_H
#define CORDON_SUPERVISOR_CGROUP_H

/* The cgroup part of sweep.h, for sweep.c. */
#include "base/err.h"
#include "supervisor/plane.h"

/* v2: kills everything at and below @dir and waits until it is empty. An absent one is fine. */
int cgroup_kill(const char *dir, struct err *e);

/* Kills and removes the instance's directory in every hierarchy. */
int cgroup_sweep(const struct plane *p, struct err *e);

#endif
