/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SUPERVISOR_SWEEP_H
#define CORDON_SUPERVISOR_SWEEP_H

/*
 * Ends and removes what carries the instance's name and has no live owner
 * (B10). Only ever called by the holder of the instance's lock. Nothing of
 * another instance or of the host is touched.
 */
#include "base/err.h"
#include "supervisor/plane.h"

/* Kills every process of every sandbox; 0 once none is left. The directories stay. */
int sweep_kill_jobs(const struct plane *p, struct err *e);

/* Moves this process into <instance>/daemons; its children are born there. */
int sweep_enter_daemons(const struct plane *p, struct err *e);

/* Moves this process, the gateway to be, into <instance>/gateway. 0 or -errno. */
int sweep_enter_gateway(const struct plane *p);

/* Moves this process back to where it was started. */
void sweep_leave_daemons(const struct plane *p);

/* Everything: processes, cgroups, mounts, pins, loop devices. 0, or the first failure. */
int sweep_all(const struct plane *p, struct err *e);

#endif
