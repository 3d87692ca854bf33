/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILL_IMAGE_H
#define CORDON_SKILL_IMAGE_H

/*
 * One version of a skill as a tree in memory, built from its manifest. Node 0
 * is the skill's own directory; a directory's children stand together, sorted
 * by name. The numbering depends on the manifest alone: another process, or
 * the same one restarted, gives every node the same number.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/scope.h"
#include "skill/manifest.h"

enum {
	SKILL_NODES_MAX = (1 << 20) - 1, /* a node number has 20 bits */
	SKILL_HOPS_MAX = 40,		 /* links followed on one path, as the kernel does */
};

struct skill_node {
	uint32_t parent;
	uint32_t first, count; /* children of a directory */
	uint32_t name;	       /* offset in the image's text */
	uint16_t name_len;
	uint8_t kind; /* enum skill_kind */
	uint8_t is_exec;
	uint32_t content; /* a file's number among the digests, a link's target in the text */
	uint64_t size;	  /* bytes of a file or target; of a directory, its subdirectories */
};

struct skill_digests {
	uint8_t sha256[SKILL_SHA];
	uint8_t leaves[SKILL_SHA];
};

struct skill_image {
	char slug[SKILL_SLUG_MAX + 1];
	struct skill_node *nodes;
	uint32_t nnodes;
	struct skill_digests *digests;
	uint32_t nfiles;
	char *text;	     /* paths and targets, one after the other */
	uint64_t file_bytes; /* of all files */
	size_t held_bytes;   /* of memory */
};

/* -EBADMSG for a text that is no manifest or whose names collide, -ENOMEM. Gives *ret. */
int skill_image_parse(const char *text, size_t len, struct skill_image **ret, struct err *e);
void skill_image_free(struct skill_image *image);
DEFINE_CLEANUP(skill_image)

/* The child of directory @dir called @name, or 0. */
uint32_t skill_image_lookup(const struct skill_image *image, uint32_t dir, const char *name,
			    size_t len);

/* The node at @path, no link followed; -1 where there is none. "" is the skill itself. */
long skill_image_find(const struct skill_image *image, const char *path, size_t len);

/* The path of @node as bytes, without a NUL; gives its length (at most SKILL_PATH_MAX). */
size_t skill_image_path(const struct skill_image *image, uint32_t node, char *out);

/*
 * Every link, followed as the kernel would, link by link, stays inside: never
 * above the skill's own directory, at most SKILL_HOPS_MAX links. A target that
 * is not there is fine. -EXDEV names the first that leaves.
 */
int skill_image_check_links(const struct skill_image *image, struct err *e);

#endif
