/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_LAYOUT_H
#define CORDON_IMAGE_LAYOUT_H

/*
 * An OCI image layout (a directory with index.json and blobs/sha256/): which
 * image in it is meant, and of which layers it consists. Nothing read here is
 * believed before its digest is checked; layers are only opened, whoever reads
 * them compares.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "digest/digest.h"

enum { LAYERS_MAX = 128 };

struct layer {
	char hex[DIGEST_HEX_MAX]; /* of the blob's bytes */
	uint64_t size_bytes;
};

struct layout {
	int dirfd;
	struct layer layers[LAYERS_MAX]; /* the lowest first */
	size_t n;
};

/* Reads the one image for this machine in the layout at @path. Gives *ret. */
int layout_open(const char *path, struct layout *ret, struct err *e);
void layout_close(struct layout *l);

/* Opens the blob of @layer; its size is checked, its digest is not. Gives a descriptor. */
int layout_open_layer(const struct layout *l, const struct layer *layer, struct err *e);

#endif
