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
 * Turns the settled tree @root (an absolute path) into an image, reproducibly,
 * and gives it to the store. @temp is the private directory it is made in; no
 * time in it is later than @epoch.
 */
int build_pack(const struct store *s, const char *temp, const char *root, time_t epoch,
	       struct store_image *ret_image, struct err *e);

#endif
