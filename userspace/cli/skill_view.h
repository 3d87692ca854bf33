/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_SKILL_VIEW_H
#define CORDON_CLI_SKILL_VIEW_H

/*
 * Looking at the catalog, straight in the store: needs no daemon (R1), and
 * believes nothing of what is stored.
 */
#include "cli/cli.h"

int skill_list(struct invocation *in);
int skill_show_one(struct invocation *in);
int skill_read(struct invocation *in);
int skill_verify(struct invocation *in);

/*
 * K7: what to say on a skill that requires execution; NULL: nothing. @p says
 * where the rollout is looked up.
 */
const char *skill_advice(const struct places *p, bool requires_execution);

/* The same on standard error for those of @slugs that are being attached. */
void skill_warn_attached(const struct invocation *in, const char *const *slugs, size_t n);

#endif
