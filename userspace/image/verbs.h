/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_VERBS_H
#define CORDON_IMAGE_VERBS_H

/*
 * The verbs of `cordon image`: each does its work and prints its answer on
 * standard output, as a table or as one JSON value.
 */
#include <stddef.h>

#include "base/err.h"
#include "config/config.h"
#include "config/places.h"
#include "image/options.h"
#include "image/store.h"

struct image_context {
	struct options options;
	struct places places;
	struct config config;
	struct store store;
};

/* Reads the instance's configuration, opens the store. */
int verbs_open(const struct options *o, struct image_context *ret, struct err *e);
void verbs_close(struct image_context *c);

/*
 * 0; 1 when the answer is a "no" that was printed (a digest that does not
 * match); -code with *e set.
 */
int verbs_run(const struct image_context *c, struct err *e);

#endif
