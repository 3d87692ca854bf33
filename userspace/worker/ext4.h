/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_EXT4_H
#define CORDON_WORKER_EXT4_H

/* Sparse ext4 images for workspaces, copied from a template of their size. */
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Makes the file @name in @dir_fd: an empty ext4 filesystem offering about
 * @data_bytes to its user and @inodes files, its root owned by @owner (on
 * disk). The template of that size is made by mke2fs the first time. A file
 * appears whole or not at all.
 */
int ext4_make(int dir_fd, const char *name, uint64_t data_bytes, uint64_t inodes, uid_t owner,
	      struct err *e);

#endif
