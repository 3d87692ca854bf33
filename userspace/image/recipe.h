/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_RECIPE_H
#define CORDON_IMAGE_RECIPE_H

/*
 * A recipe of an L0. It can say, without building, what it would build from
 * (its text: two equal texts mean the same image), and it can lay out the root
 * file system in an empty directory. What every L0 has in common is added
 * afterwards by tree_furnish() and tree_settle().
 */
#include <stdint.h>

#include "base/err.h"

enum { RECIPE_TEXT_MAX = 16 * 1024 };

struct recipe {
	const char *name;
	const char *about;
	uint64_t needs_bytes; /* free room in the store while it is built */

	/* Gives *ret (caller frees): everything that decides what comes out. */
	int (*describe)(char **ret, struct err *e);

	/* @path is empty, private and on the store's file system. */
	int (*assemble)(const char *path, void (*on_line)(const char *line, void *arg), void *arg,
			struct err *e);
};

extern const struct recipe recipe_debian;
extern const struct recipe recipe_busybox;

/* NULL for an unknown name. */
const struct recipe *recipe_find(const char *name);

#endif
