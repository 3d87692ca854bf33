/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILL_PATH_H
#define CORDON_SKILL_PATH_H

/*
 * What a skill, a file of a skill and a link may be called (K1). Names are
 * bytes: case and Unicode form are kept, and two spellings are two files. Only
 * slugs are compared without regard to (ASCII) case.
 *
 * A function *_fault gives NULL where nothing is wrong, else words that follow
 * "unsafe path 'X': ".
 */
#include <stdbool.h>
#include <stddef.h>

enum {
	SKILL_SLUG_MAX = 255,
	SKILL_NAME_MAX = 255,
	SKILL_PATH_MAX = 4095,
	SKILL_ESCAPED_MAX = 3 * SKILL_PATH_MAX, /* characters, without a NUL */
};

const char *skill_slug_fault(const char *slug, size_t len);

/* Below, equal to or above zero; ASCII letters count as lower case. */
int skill_slug_compare(const char *a, const char *b);

const char *skill_path_fault(const char *path, size_t len);

/*
 * The target of a link, as text: relative, not empty, no NUL, no backslash.
 * Whether it stays inside depends on the tree: skill_image_check_links().
 */
const char *skill_target_fault(const char *target, size_t len);

/* The order of a manifest: by component, so that a directory's files stand together. */
int skill_path_compare(const char *a, size_t alen, const char *b, size_t blen);

/*
 * Bytes as printable text without blanks: everything but ! to ~, and %, is
 * %XX. Gives the length; nothing is written beyond @cap, and 0 means it did
 * not fit. No NUL is added.
 */
size_t skill_escape(const char *bytes, size_t len, char *out, size_t cap);

/* The one byte string that skill_escape() writes as @text: its length, or -1. */
long skill_unescape(const char *text, size_t len, char *out, size_t cap);

/* For messages: escaped, NUL-terminated and cut to what fits. Gives @out. */
const char *skill_show(const char *bytes, size_t len, char *out, size_t cap);

#endif
