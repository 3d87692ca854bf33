/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILL_FRONTMATTER_H
#define CORDON_SKILL_FRONTMATTER_H

/*
 * The front matter of a SKILL.md: what stands between two lines of "---" at
 * its top. The part of YAML that skills are written in, and no more: top-level
 * `key: value` with plain, quoted, literal (|) and folded (>) text, lists and
 * nested mappings, comments, LF or CRLF. Refused: keys given twice, anchors,
 * aliases, tags, tabs as indentation, control characters, invalid UTF-8,
 * unclosed quotes and brackets, `: ` in plain text, a known key of the wrong
 * type. Unknown keys are skipped.
 *
 * Front matter describes; it decides nothing. What cannot be read yields no
 * field at all, never half of them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRONT_MATTER_MAX = 64 * 1024, FRONT_MATTER_KEYS_MAX = 64 };

struct front_matter {
	bool is_present;
	bool requires_execution;
	char name[256];
	char description[4096];
	char license[1024];
	char compatibility[1024];
	char version[128];
	char allowed_tools[4096]; /* a list is joined by ", " */
};

/*
 * Reads the front matter of a SKILL.md of which @len bytes are at hand (its
 * first FRONT_MATTER_MAX are enough). NULL: read, or none there. Else what is
 * wrong, *ret_line saying where (from 1) and *ret empty.
 */
const char *front_matter_read(const char *text, size_t len, struct front_matter *ret,
			      uint32_t *ret_line);

/*
 * K7: the advice on attaching a skill, or NULL. Looks at what the skill
 * declares and at the rollout alone; never a refusal.
 */
const char *front_matter_advice(bool requires_execution, bool is_rollout_on);

#endif
