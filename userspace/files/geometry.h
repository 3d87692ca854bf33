/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_FILES_GEOMETRY_H
#define CORDON_FILES_GEOMETRY_H

/*
 * Inside and outside, by paths alone (K6). Paths are absolute and real: no
 * symbolic link, no "." or "..", no double slash, no trailing one but "/"'s own.
 * Deny wins over allow, whichever of the two is the narrower.
 */
#include <stdbool.h>
#include <stddef.h>

enum { FILES_PATH_MAX = 4096, FILES_ROOTS_MAX = 64 };

enum files_verdict {
	FILES_OUTSIDE = 0,
	FILES_DENIED,
	FILES_INSIDE,
};

/* Is @path @root, or below it? */
bool files_is_below(const char *root, const char *path);

enum files_verdict files_judge(const char *const *allow, size_t nallow, const char *const *deny,
			       size_t ndeny, const char *path);

/*
 * @base (real) and then @rest (any path, taken relative to it where it is not
 * absolute), by letters: "." and empty parts go, ".." takes one away and stops
 * at the top. False where it does not fit.
 */
bool files_join(const char *base, const char *rest, char ret[FILES_PATH_MAX]);

#endif
