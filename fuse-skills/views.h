/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_VIEWS_H
#define CORDON_SKILLS_VIEWS_H

/*
 * Which versions a new view shows, and which versions are in use. Follows the
 * catalog as the stager replaces it; a view that is open keeps what it was
 * opened with.
 */
#include <sys/stat.h>

#include "base/err.h"
#include "proto/skills.h"
#include "skill/store.h"
#include "state.h"

/*
 * A version that open views show: its manifest is locked, so that it is not
 * collected. One that nobody uses any more stays locked as long as it is in the
 * catalog, where it is not collected anyway: the next view finds it ready.
 */
struct pin {
	uint32_t no; /* 0: not locked */
	int fd;
	uint32_t users;
};

struct views {
	struct state *state;
	struct skill_store store;
	struct catalog *catalog;
	struct stat read; /* the catalog's file when it was read */
	uint32_t *numbers; /* by catalog entry: its version's number, 0: not looked for */
	uint32_t open;	   /* views */
	struct pin pins[STATE_VERSIONS];
};

/* Opens the store at @path; takes up the views that @state already has. */
int views_open(struct views *v, struct state *state, const char *path, struct err *e);

/*
 * Opens a view of the names in @in (checked here, and cut in place). Gives its
 * number and fills *ret but for the request. -ENOENT names a slug that is in no
 * catalog, -EBADMSG one whose version is damaged.
 */
int views_add(struct views *v, struct k_view_open *in, size_t len, struct k_view *ret,
	      struct err *e);

/* The catalog as it is now, borrowed until the next call of this or views_add(). */
int views_catalog(struct views *v, const struct catalog **ret, struct err *e);

/* Closes one; one that is not there is fine. */
void views_drop(struct views *v, uint64_t view);
void views_drop_all(struct views *v);

/* False: no such view. */
bool views_count(struct views *v, uint64_t view, struct k_counts *ret);

#endif
