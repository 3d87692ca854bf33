/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_WORKSPACE_H
#define CORDON_WORKER_WORKSPACE_H

/*
 * Workspaces (W1, Q4). An ephemeral one is a tmpfs that ends with its command.
 * A keyed one is a sparse ext4 image `KEY.ext4` with a `KEY.meta` beside it,
 * below the state directory; it outlives the worker, and its mount is kept
 * while it is recently used. Either is a filesystem of its own: the kernel
 * holds the hard limit and statfs measures it in constant time, whatever the
 * command left inside.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proto/worker.h"

enum { WORKSPACES_MOUNTED = 32 };

struct workspace_mount {
	uint8_t key[32];
	bool is_used, in_use;
	uint64_t last_use; /* a counter, not a time */
	uint64_t quota_bytes;
	char path[PATH_MAX];
};

struct workspaces {
	int dir_fd;		/* the images and their meta files */
	char mounts[PATH_MAX]; /* directory of the worker's mounts */
	uint64_t uses;
	struct workspace_mount mounted[WORKSPACES_MOUNTED];
};

/* One command's hold on a workspace. */
struct workspace {
	int statfs_fd;		       /* measured through this */
	uint64_t quota_bytes;	       /* in force */
	struct workspace_mount *keyed; /* NULL: ephemeral */
};

/* Opens (and makes) @dir; removes what a killed worker left half made. */
int workspaces_open(const char *dir, const char *mounts, struct workspaces *ret, struct err *e);

/*
 * The workspace @run asks for, as a detached mount for a slot whose user
 * namespace is @userns_fd and whose id outside is @host_uid. Gives the mount
 * and *ret; workspace_done() ends the hold. Failure: e->code is a reason
 * (WORKSPACE_LOST, INVALID_REQUEST, WORKER_ERROR).
 */
int workspace_get(struct workspaces *w, const struct w_run *run, int userns_fd, uid_t host_uid,
		  struct workspace *ret, struct err *e);

/* Bytes and whether it is above its quota or out of inodes. A failed measurement is 0, no. */
void workspace_measure(const struct workspace *ws, uint64_t *ret_bytes, bool *ret_over);

void workspace_done(struct workspace *ws);

/* Removes a keyed workspace for ever. -EBUSY while a command has it. */
int workspace_remove(struct workspaces *w, const uint8_t key[32], struct err *e);

/* Calls @each for every keyed workspace. */
int workspaces_list(struct workspaces *w, void (*each)(void *ctx, const struct w_workspace_entry *),
		    void *ctx, struct err *e);

#endif
