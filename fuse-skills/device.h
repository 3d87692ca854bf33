/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_DEVICE_H
#define CORDON_SKILLS_DEVICE_H

/*
 * The way between the kernel and serve.c: one libfuse session over clones of
 * the FUSE descriptor, one clone per thread. The original is never read: a
 * request that was taken through a clone is given up by the kernel when this
 * process dies, and the mount lives on.
 */
#include <stdint.h>

#include "base/err.h"
#include "serve.h"

enum { DEVICE_THREADS_MAX = 16 };

struct device;

/* Opens @threads clones of @original (borrowed). As root: the device belongs to it. Gives *ret. */
int device_open(int original, unsigned threads, struct device **ret, struct err *e);

/*
 * Starts answering: takes the kernel's first message or, where a predecessor
 * already answered it, goes on from there; then starts the threads, which never
 * end. Keeps a pointer to @serve.
 */
int device_start(struct device *d, struct serve *serve, struct err *e);

/* For how long the oldest request in hand has been there. */
uint64_t device_busy_ms(const struct device *d);

/* Makes the kernel forget the names below @name in directory @parent. May wait for requests. */
void device_forget(struct device *d, uint64_t parent, const char *name);

#endif
