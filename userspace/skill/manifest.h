/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILL_MANIFEST_H
#define CORDON_SKILL_MANIFEST_H

/*
 * A manifest is one version of one skill as text: one spelling per content, so
 * that the SHA-256 of the text names the version. Lines, each ended by LF:
 *
 *	cordon-skill 1
 *	slug SLUG
 *	file 644|755 SIZE SHA256 LEAVES PATH	LEAVES: see below, "-" up to one chunk
 *	link TARGET PATH
 *	end COUNT
 *
 * Paths and targets are escaped (skill/path.h) and stand in the order of
 * skill_path_compare(), none twice. A file is verified by chunks of
 * SKILL_CHUNK bytes: LEAVES is the SHA-256 over the SHA-256s of its chunks,
 * which the store keeps as a file of that name. A file of one chunk needs
 * none: its own SHA-256 is that of the chunk.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skill/path.h"

enum {
	SKILL_CHUNK = 32 * 1024,
	SKILL_ENTRIES_MAX = 256 * 1024,
	SKILL_MANIFEST_MAX = 96 << 20,
	SKILL_LINE_MAX = 2 * SKILL_ESCAPED_MAX + 256,
	SKILL_SHA = 32,
};
#define SKILL_FILE_MAX (4ull << 30)

enum skill_kind {
	SKILL_DIR = 1, /* in a tree; a manifest has no directories of its own */
	SKILL_FILE,
	SKILL_LINK,
};

struct skill_entry {
	enum skill_kind kind;
	bool is_exec;
	uint64_t size;
	uint8_t sha256[SKILL_SHA];
	uint8_t leaves[SKILL_SHA]; /* zero up to one chunk */
	const char *path;	   /* bytes, not terminated */
	size_t path_len;
	const char *target;
	size_t target_len;
};

static inline uint64_t skill_chunks(uint64_t size)
{
	return (size + SKILL_CHUNK - 1) / SKILL_CHUNK;
}

struct manifest_reader {
	const char *text;
	size_t len, at;
	uint32_t count;
	uint32_t line;	   /* of the last fault, from 1 */
	const char *fault; /* what is wrong, once a function gave -1 */
	char slug[SKILL_SLUG_MAX + 1];
	char path[2][SKILL_PATH_MAX + 1]; /* this entry's and the one's before */
	size_t path_len[2];
	char target[SKILL_PATH_MAX + 1];
};

/* Reads the first two lines. Borrows @text until the end. 0 or -1. */
int manifest_begin(struct manifest_reader *r, const char *text, size_t len);

/* 1: *ret filled, its pointers good until the next call; 0: the end, all of it fine; -1. */
int manifest_next(struct manifest_reader *r, struct skill_entry *ret);

/* The lines. Each gives its length in bytes; @out holds SKILL_LINE_MAX. */
size_t manifest_write_begin(const char *slug, char *out);
size_t manifest_write_entry(const struct skill_entry *entry, char *out);
size_t manifest_write_end(uint32_t count, char *out);

#endif
