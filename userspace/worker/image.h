/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_IMAGE_H
#define CORDON_WORKER_IMAGE_H

/*
 * L0 images as the worker sees them (N1): files in the store named by the
 * SHA-256 of their bytes, verified before the first mount, mounted once,
 * cloned for every slot.
 */
#include <limits.h>
#include <stdint.h>

#include "base/err.h"

enum { IMAGES_MAX = 8 };

struct image {
	uint8_t digest[32];
	char path[PATH_MAX]; /* where it is mounted in the worker's namespace */
	unsigned slots;	     /* built of it and still there: it stays mounted meanwhile */
	uint64_t last_use;   /* a counter, not a time */
};

struct images {
	int store_fd;
	char mounts[PATH_MAX]; /* directory of the worker's mounts */
	char pinned[80];       /* sha256:HEX or "" */
	struct image list[IMAGES_MAX];
	unsigned n;
	uint64_t uses;
};

/* @store and @mounts are paths; nothing is mounted yet. */
int images_open(const char *store, const char *mounts, const char *pinned, struct images *ret,
		struct err *e);

/*
 * The image that @ref means: "" (the pinned one), sha256:HEX, or a name with a
 * .ref file in the store. Verified and mounted on first use; the longest unused
 * one that no slot is built of gives way to a ninth. Gives a pointer that lives
 * until the next call, or while @slots is not 0; or NULL: e->code is a reason
 * (REASON_INVALID_REQUEST, REASON_IMAGE_DIGEST_MISMATCH, REASON_WORKER_ERROR).
 */
struct image *images_get(struct images *s, const char *ref, struct err *e);

#endif
