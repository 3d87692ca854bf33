/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_DEV_H
#define CORDON_WORKER_DEV_H

#include <sys/types.h>

#include "base/err.h"

/*
 * The one minimal /dev (B4), made once at @path as a tmpfs and cloned
 * read-only into every slot: five harmless devices, the links to a process's
 * own descriptors, and an empty directory for /dev/shm. No terminal. @owner is
 * what uid 0 of a sandbox is outside.
 */
int dev_make(const char *path, uid_t owner, struct err *e);

#endif
