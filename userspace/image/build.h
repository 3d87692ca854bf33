/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_BUILD_H
#define CORDON_IMAGE_BUILD_H

/*
 * From a recipe to an image in the store: one build of a name at a time, nothing
 * built twice, nothing half made left under a final name.
 */
#include <limits.h>
#include <stdbool.h>
#include <time.h>

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
 * Turns the tree "root" in @temp, a private directory of the store, into an
 * image: furnished, settled, packed reproducibly, adopted. @start is when work on
 * the tree began.
 */
int build_finish(const struct store *s, const char *temp, time_t start,
		 void (*on_line)(const char *line, void *arg), void *arg,
		 struct store_image *ret_image, struct err *e);

/* The absolute path of that tree, which is made empty. */
int build_tree(const struct store *s, const char *temp, char ret_root[PATH_MAX], struct err *e);

/* Takes the lock of @kind, saying so where it has to wait, and sweeps. Gives the lock. */
int build_begin(const struct store *s, const char *kind,
		void (*on_line)(const char *line, void *arg), void *arg, struct err *e);

#endif
