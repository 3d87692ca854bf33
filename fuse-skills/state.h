/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_STATE_H
#define CORDON_SKILLS_STATE_H

/*
 * What outlives the processes of this program: a memory file that cordond
 * makes with the mount and hands to every incarnation. It holds which views
 * there are, which versions they show, and the counters. The keeper writes
 * views and versions, the server counters; both map all of it.
 *
 * Publishing is one store of a number. A row whose number is 0 is free; a row
 * that is being written has number 0; a reader compares the number before and
 * after it read.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/skills.h"
#include "skill/manifest.h"

enum {
	STATE_MAGIC = 0x434b5331,
	STATE_VIEWS = 4096,
	STATE_VERSIONS = 4096,
	STATE_BINDS = 8192,
	STATE_INIT_LEN = 256,
};

struct state_version {
	_Atomic uint64_t no; /* its row is no % STATE_VERSIONS */
	uint64_t added_s;
	uint8_t digest[SKILL_SHA];
	uint32_t requires_execution;
	uint32_t pad;
	char slug[SKILL_SLUG_MAX + 1];
};

struct state_view {
	_Atomic uint64_t no; /* its row is no % STATE_VIEWS */
	_Atomic uint64_t files_looked_up, bytes_served, corrupt;
	uint64_t opened_s;
	uint32_t count, pad;
	uint32_t versions[K_SKILLS_MAX]; /* in the order of their slugs */
};

/* Which view a host uid reads for. */
struct state_bind {
	_Atomic uint64_t view;
	_Atomic uint32_t uid;
	uint32_t pad;
};

struct state {
	uint32_t magic;
	uint32_t size;
	uint64_t next_view, next_version;
	uint64_t broker; /* whose views these are */
	_Atomic uint32_t init_len;	  /* 0: the kernel has not been answered yet */
	uint8_t init[STATE_INIT_LEN]; /* its FUSE_INIT, to start a successor's library with */
	_Atomic uint64_t corrupt, unattributed_bytes;
	struct state_view views[STATE_VIEWS];
	struct state_version versions[STATE_VERSIONS];
	struct state_bind binds[STATE_BINDS];
};

/* Maps @fd (borrowed); an empty one is made ready. Gives *ret. */
int state_open(int fd, struct state **ret, struct err *e);

/* The row of a live view or version, or NULL. */
struct state_view *state_view(struct state *s, uint64_t no);
struct state_version *state_version(struct state *s, uint64_t no);

/* A copy of a view's list that is whole: the number of versions, or -1 where it is closed. */
int state_view_list(struct state *s, uint64_t no, uint32_t ret[K_SKILLS_MAX]);

/* A copy of a version's row that is whole. */
bool state_version_copy(struct state *s, uint64_t no, struct state_version *ret);

/* --- The keeper's side */

/* Publishes a view of @versions; its number, or 0 where there is no room. */
uint64_t state_view_add(struct state *s, const uint32_t *versions, uint32_t count, uint64_t now_s);
void state_view_drop(struct state *s, uint64_t no);

/*
 * Publishes a version in a row that is free or whose version @is_idle is true
 * of. Its number, or 0.
 */
uint32_t state_version_add(struct state *s, const struct state_version *v,
			   bool (*is_idle)(uint32_t no, void *arg), void *arg);

/* How many rows have ever been used: nobody touches the pages of the others. */
uint32_t state_views_used(const struct state *s);
uint32_t state_versions_used(const struct state *s);

void state_bind(struct state *s, uint32_t uid, uint64_t view);

/* --- The server's */

/* The view that @uid reads for, or 0. */
uint64_t state_bound(struct state *s, uint32_t uid);

#endif
