/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_SKILL_SOURCE_H
#define CORDON_CLI_SKILL_SOURCE_H

/*
 * A skill as a stream, out of a directory (read with the caller's own rights,
 * K6) or out of JSON. What is not a regular file, directory or link is refused
 * here, naming it; everything else is judged where it is staged.
 */
#include <sys/stat.h>

#include "cli/skill_sink.h"

enum { SKILL_JSON_MAX = 512 << 20 };

/*
 * Writes the whole stream of directory @dirfd (borrowed) under @slug. @judge
 * (may be NULL) has the last word on every regular file.
 */
int skill_source_directory(int dirfd, const char *slug, struct skill_sink *to,
			   int (*judge)(void *ctx, const struct stat *st, struct err *e), void *ctx,
			   struct err *e);

/* `{slug, files: [{path, data_b64, sha256, mode?, link?}]}`; @slug_or_null overrides. */
int skill_source_json(const char *text, size_t len, const char *slug_or_null,
		      struct skill_sink *to, struct err *e);

#endif
