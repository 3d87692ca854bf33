/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SUPERVISOR_FUSE_H
#define CORDON_SUPERVISOR_FUSE_H

/*
 * The skills' mount, one per instance, older than any skills server and living
 * on when one dies: the original /dev/fuse descriptor, the mount (in cordond's
 * own mount namespace, so that the host never sees it and it goes with the
 * plane), and the memory file that every server continues from.
 */
#include "base/err.h"
#include "supervisor/plane.h"

struct fuse {
	int device_fd, state_fd; /* -1: no skills on this host */
	char path[PLACES_PATH_MAX + 16];
};

/* Leaves the host's mount namespace and mounts. */
int fuse_open(const struct plane *p, struct fuse *ret, struct err *e);

/* A detached clone of the mount, for one worker's life. Gives the descriptor. */
int fuse_clone(const struct fuse *f, struct err *e);

#endif
