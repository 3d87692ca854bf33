/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_STAGE_H
#define CORDON_SKILLS_STAGE_H

/*
 * One skill from a stream (skill/stream.h) into the store: everything of it,
 * or nothing (K2).
 */
#include "base/err.h"
#include "depot.h"
#include "proto/skills.h"

/*
 * Reads one stream from @fd to its end, recomputes every digest, checks every
 * path and link and commits. 0 with *ret filled, or -errno with *e naming the
 * offending path; then the store is as it was.
 */
int stage_stream(struct depot *d, int fd, struct k_staged *ret, struct err *e);

#endif
