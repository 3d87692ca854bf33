/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_FILE_SETS_H
#define CORDON_CLI_FILE_SETS_H

/*
 * The two sets of roots, out of the configuration as it stands now (K6): where
 * skills are loaded from, and what a model's own file access reaches. The
 * second denies whatever is the first's, and everything of the plane.
 */
#include "config/places.h"
#include "files/sandbox.h"

int file_set_of_skills(const struct places *p, struct files_set *ret, struct err *e);
int file_set_of_model(const struct places *p, struct files_set *ret, struct err *e);

#endif
