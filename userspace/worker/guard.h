/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_GUARD_H
#define CORDON_WORKER_GUARD_H

/*
 * The userspace twin of bpf/guard.bpf.c: a second line for sandboxes whose
 * kernel takes programs of security hooks. Loads, attaches, and is alone in
 * touching their map. Who must have it decides worker/main.c.
 */
#include <stdint.h>

#include "base/err.h"

struct guard_programs;

/*
 * Loads and attaches, pinned as PIN_DIR/guard_NAME, and sees that the kernel
 * asks. All hooks or none. @jobs_fd is the instance's v2 directory of slots.
 */
int guard_open(int jobs_fd, const char *pin_dir, struct guard_programs **ret, struct err *e);

/* Before the launcher is told to run: the slot's next exec is the command's, and arms it. */
int guard_begin(struct guard_programs *g, uint64_t cgroup_id, struct err *e);

/* After its last process. Logs what the second line had to deny: the first had let it through. */
void guard_end(struct guard_programs *g, uint64_t cgroup_id);

#endif
