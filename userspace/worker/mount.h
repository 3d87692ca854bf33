/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_MOUNT_H
#define CORDON_WORKER_MOUNT_H

/*
 * Detached mounts with the new mount API: made, cloned, given away. A mount
 * that lives longer than one slot is attached in the worker's own, private
 * mount namespace (kernels before 6.15 clone only attached mounts); it is gone
 * with the worker, however that ends (B10).
 */
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum mount_flag {
	MOUNT_RO = 1u << 0,
	MOUNT_NODEV = 1u << 1,
	MOUNT_NOEXEC = 1u << 2,
}; /* nosuid is never left out */

/* A mount namespace of the worker's own, nothing of it shared with the host. */
int mount_private(struct err *e);

/* A fresh tmpfs owned by @uid; gives the detached mount. */
int mount_tmpfs(uint64_t bytes, uint64_t inodes, uid_t uid, const char *mode, unsigned flags,
		struct err *e);

/*
 * The filesystem of type @type in the open file @fd, read-only or not. A
 * kernel that mounts this type from a file needs no loop device (erofs, 6.12);
 * elsewhere one is taken, which frees itself with the last mount. No host path
 * appears in any mount table. Gives the detached mount.
 */
int mount_file(int fd, const char *type, unsigned flags, struct err *e);

/* Attaches @fd on the existing directory @path of the worker's namespace. */
int mount_attach(int fd, const char *path, struct err *e);

/*
 * A detached clone of the mount at @path with @flags, its ids mapped through
 * @userns_fd (-1: not mapped).
 */
int mount_clone(const char *path, unsigned flags, int userns_fd, struct err *e);

#endif
