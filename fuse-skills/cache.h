/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_CACHE_H
#define CORDON_SKILLS_CACHE_H

/*
 * What the server holds of the store: trees of versions, and open files with
 * the digests of their chunks. Both bounded in bytes, least recently used
 * first out; what is in use stays. Threads share it.
 */
#include <stdint.h>

#include "base/err.h"
#include "skill/store.h"
#include "state.h"

struct cache;

/* Keeps pointers to @store and @state. NULL: out of memory. */
struct cache *cache_new(const struct skill_store *store, struct state *state);
void cache_free(struct cache *c);

/* A tree in use. */
struct tree {
	const struct skill_image *image;
	struct image_slot *slot; /* NULL: none */
};

/*
 * The tree of a version, loaded and verified at its first use. -ESTALE: no such
 * version any more; -EBADMSG: damaged. Give it back with cache_put_tree().
 */
int cache_get_tree(struct cache *c, uint64_t version, struct tree *ret, struct err *e);
void cache_put_tree(struct cache *c, struct tree *t);

/* An open file. @fresh: not the one at hand, which gave wrong bytes. */
int cache_get_file(struct cache *c, const struct skill_digests *digests, uint64_t size, bool fresh,
		   const struct skill_file **ret, struct err *e);
void cache_put_file(struct cache *c, const struct skill_file *file);

#endif
