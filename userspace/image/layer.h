/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_LAYER_H
#define CORDON_IMAGE_LAYER_H

/*
 * One layer (tar, gzipped or not) laid over a directory tree: what it hides goes,
 * what it adds comes. Nothing outside the tree is touched, whatever names, links
 * and order the archive has. Owners, modes (without setuid and setgid) and times
 * are kept; extended attributes, devices, pipes are not.
 */
#include <stdint.h>

#include "base/err.h"
#include "digest/digest.h"

/* What all layers of an image may come to. */
struct layer_budget {
	uint64_t bytes, entries; /* left */
	uint64_t skipped;	 /* devices and pipes left out so far */
};

/*
 * Applies the layer that @fd holds, read from its start, to the tree at @path.
 * -EBADMSG when its bytes are not those of @hex: the tree is then to be thrown
 * away, as after every failure.
 */
int layer_apply(int fd, const char *hex, const char *path, struct layer_budget *budget,
		struct err *e);

#endif
