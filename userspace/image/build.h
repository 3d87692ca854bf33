/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_BUILD_H
#define CORDON_IMAGE_BUILD_H

/*
 * From a recipe to an image in the store: one build of a name at a time, nothing
 * built twice, nothing half made left under a final name.
 */
#include <stdbool.h>

#include "base/err.h"
#include "image/recipe.h"
#include "image/store.h"

struct build {
	struct store_image image;
	bool is_cached; /* the store had it, its bytes still right */
	double seconds;
};

/* @on_line hears of each step; may be NULL. */
int build_recipe(const struct store *s, const struct recipe *recipe,
		 void (*on_line)(const char *line, void *arg), void *arg, struct build *ret,
		 struct err *e);

/*
 * Turns the tree @root (an absolute path in a private directory of the store)
 * into @file beside it, reproducibly, and gives it to the store.
 */
int build_pack(const struct store *s, const char *temp, const char *root,
	       struct store_image *ret_image, struct err *e);

/* The epoch that replaces times of the build: SOURCE_DATE_EPOCH, or a fixed one. */
time_t build_epoch(void);

#endif
