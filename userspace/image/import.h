/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_IMPORT_H
#define CORDON_IMAGE_IMPORT_H

/*
 * An OCI image layout made into an L0. Of the image only its files are taken:
 * user, environment, entry point and the like are the plane's business (B3, B7).
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "image/store.h"

struct import {
	struct store_image image;
	uint64_t skipped; /* devices and pipes left out */
	bool has_bash;
	double seconds;
};

/* @name may be NULL: the image is then known by its digest only. */
int import_layout(const struct store *s, const char *path, const char *name,
		  void (*on_line)(const char *line, void *arg), void *arg, struct import *ret,
		  struct err *e);

#endif
