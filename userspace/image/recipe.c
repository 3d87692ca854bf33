/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of recipes. Adding an L0 is a file with a `const struct recipe` and a
 * line here.
 */
#include "image/recipe.h"

#include <string.h>

#include "base/scope.h"

static const struct recipe *const RECIPES[] = { &recipe_debian, &recipe_busybox };

const struct recipe *recipe_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(RECIPES); i++)
		if (strcmp(RECIPES[i]->name, name) == 0)
			return RECIPES[i];
	return NULL;
}
