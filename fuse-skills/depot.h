/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_DEPOT_H
#define CORDON_SKILLS_DEPOT_H

/*
 * The write side of the store; used by the stager alone. Content is put
 * together in a room of its own and moved into place under the store's lock,
 * so that a reader, another stager or a kill at any moment sees a store that is
 * whole, and what was refused leaves nothing behind.
 */
#include "base/err.h"
#include "skill/store.h"

struct depot {
	struct skill_store store;
	bool wants_collect; /* somebody was cut off: contents that nothing names may be there */
};

/* A room for one staging: a directory that its owner holds locked. */
struct depot_room {
	int dir; /* -1: none */
	char name[32];
};

/*
 * Makes what is missing of the store at @path and opens it. Rooms whose owner
 * is gone are removed.
 */
int depot_open(int dirfd, const char *path, struct depot *ret, struct err *e);
void depot_close(struct depot *d);

int depot_room_open(const struct depot *d, struct depot_room *ret, struct err *e);
void depot_room_close(const struct depot *d, struct depot_room *r);

/*
 * Commits what the room holds (files named b.HEX, l.HEX and m.HEX: blob,
 * leaves, manifest) and makes @digest the current version of @slug. -EEXIST:
 * another slug differs in case alone.
 */
int depot_commit(struct depot *d, const struct depot_room *r, const char *slug,
		 const uint8_t digest[SKILL_SHA], struct err *e);

/* Takes @slug, or one version of it, out of the catalog. -ENOENT: not in it. */
int depot_remove(const struct depot *d, const char *slug, const uint8_t *digest_or_null,
		 struct err *e);

/*
 * Removes manifests that are in no catalog, in nobody's use and out of it for
 * a while; and where any went, or d->wants_collect says so, what no manifest
 * names. Gives the number of files removed.
 */
int depot_collect(struct depot *d, struct err *e);

#endif
