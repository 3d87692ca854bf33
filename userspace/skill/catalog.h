/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILL_CATALOG_H
#define CORDON_SKILL_CATALOG_H

/*
 * Which skills there are: a text of one line per version, replaced whole.
 *
 *	cordon-skill-catalog 1
 *	SLUG SHA256-OF-THE-MANIFEST SECONDS current|kept
 *
 * Slugs in byte order, versions of one slug oldest first, one of them current.
 * No two slugs differ in case alone.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/scope.h"
#include "skill/manifest.h"

enum { CATALOG_MAX = 16 << 20 };

struct catalog_entry {
	const char *slug;
	uint8_t digest[SKILL_SHA];
	uint64_t added_s;
	bool is_current;
};

struct catalog {
	char *text; /* the slugs stand here */
	struct catalog_entry *entries;
	size_t n;
};

/* -EBADMSG with the line. An empty text is an empty catalog. Gives *ret. */
int catalog_parse(const char *text, size_t len, struct catalog **ret, struct err *e);
void catalog_free(struct catalog *c);
DEFINE_CLEANUP(catalog)

/* The current version of exactly @slug, or NULL. */
const struct catalog_entry *catalog_find(const struct catalog *c, const char *slug);

/* That version of @slug, or NULL. */
const struct catalog_entry *catalog_find_version(const struct catalog *c, const char *slug,
						 const uint8_t digest[SKILL_SHA]);

/* Any version whose slug differs from @slug in case alone, or NULL. */
const struct catalog_entry *catalog_find_clash(const struct catalog *c, const char *slug);

/*
 * The text with @add as the new current version of its slug (NULL: none), and
 * without the versions that @drop is true of. The newest kept version becomes
 * current where the current one goes. Gives *ret (caller frees).
 */
int catalog_render(const struct catalog *c, const struct catalog_entry *add,
		   bool (*drop)(const struct catalog_entry *entry, void *arg), void *arg,
		   char **ret, size_t *ret_len, struct err *e);

#endif
