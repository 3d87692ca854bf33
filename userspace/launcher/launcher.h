/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LAUNCHER_LAUNCHER_H
#define CORDON_LAUNCHER_LAUNCHER_H

/*
 * The launcher's parts. No heap, no threads, no stdio: it is pid 1 of a
 * sandbox. Every step gives 0 or -errno and names itself in *step.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/launcher.h"

struct failure {
	int code;	  /* errno */
	bool bad_request; /* the request was wrong, not the plane */
	const char *step; /* static text */
};

static inline int fail(struct failure *f, int code, const char *step)
{
	f->code = code;
	f->step = step;
	return -1;
}

/* mounts.c: the tree of B4. Takes no ownership of descriptors. */
int mounts_build(int image_fd, int dev_fd, const struct launch_build *b, struct failure *f);
int mounts_attach(int workspace_fd, int view_fd, struct failure *f);

/* plan.c: what /proc/self/mountinfo must be, exactly (B6). plan_judge() cuts @table up. */
int plan_check(bool has_view, struct failure *f);
int plan_judge(char *table, bool has_view, struct failure *f);

/* network.c: brings lo up; with a gateway address adds it and nothing else (E2, E3). */
int network_up(uint32_t gateway_addr_be, struct failure *f);

/*
 * drop.c: everything given up for ever (B3, B5, B11), in three steps: what a
 * waiting slot does not need, what the mounts needed, and the right to make any
 * call outside the table. A file may grow to @fsize_bytes.
 */
int drop_early(struct failure *f);
int drop_privileges(uint64_t fsize_bytes, struct failure *f);
int drop_seccomp(struct failure *f);

/*
 * command.c: starts the command as a child. Gives its pid; *ret_errno is 0, or
 * why exec failed (the child is then already reaped and the pid 0).
 */
int command_start(const struct launch_run *run, char *argv_text, const int fds[3],
		  int *ret_errno, struct failure *f);

#endif
