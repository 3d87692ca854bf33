/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_SHOW_H
#define CORDON_SKILLS_SHOW_H

/*
 * The catalog for those who may not look at the store themselves: what is in
 * it, and the restricted reader (K5). Answers are JSON in sealed memory.
 */
#include "proto/skills.h"
#include "views.h"

/*
 * Give a descriptor and its length. -EINVAL: no such name could be; -ENOENT:
 * not there; else what is wrong with the store.
 */
int show_catalog(struct views *v, const struct k_show *in, uint64_t *ret_len, struct err *e);
int show_file(struct views *v, const struct k_read *in, uint64_t *ret_len, struct err *e);

#endif
