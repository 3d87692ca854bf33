/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILL_DESCRIBE_H
#define CORDON_SKILL_DESCRIBE_H

/*
 * What a version says of itself, as JSON: for the catalog's listings and the
 * restricted reader (K5), whether the store is looked at directly or by way of
 * the plane. Everything is verified before it is said.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "skill/store.h"

enum { SKILL_TEXT_MAX = 16 << 20 /* of a file that goes into JSON */ };

/*
 * An object for one version: slug, digest, current, added, files, bytes, what
 * its front matter says, and "fault" where it is damaged or cannot be read.
 * @with_entries adds its files.
 */
json_t *skill_describe(const struct skill_store *s, const struct catalog_entry *entry,
		       bool with_entries);

/* The current versions, or all. */
json_t *skill_describe_all(const struct skill_store *s, const struct catalog *c, bool wants_all);

/*
 * One catalogued file by slug and path, and nothing else. -EINVAL: no such
 * path could be; -ENOENT names what is not there. Gives the tree and the node.
 */
int skill_find_file(const struct skill_store *s, const struct catalog *c, const char *slug,
		    const char *path, struct skill_image **ret, uint32_t *ret_node, struct err *e);

/* That file as an object, its content as text or as base64; at most SKILL_TEXT_MAX. */
int skill_file_to_json(const struct skill_store *s, const struct skill_image *image, uint32_t node,
		       const char *path, json_t **ret, struct err *e);

#endif
