/* SPDX-License-Identifier: Apache-2.0 */
/*
 * K1: a path that is taken stays where it begins. Complete enumeration of all
 * byte strings of up to seven over a, '.', '/', '\', NUL and a byte that is no
 * ASCII, against a reading by parts. A path that is taken, walked part by part,
 * never goes up, never begins anew and is told back byte for byte.
 */
#include <stdbool.h>
#include <string.h>

#include "nondet.h"
#include "skill/path.h"

const char proof_name[] = "a_path_that_is_taken_never_leaves";

enum { LENGTH_MAX = DEPTH(7, 64) };

static bool is_fine(const char *p, size_t n)
{
	size_t start = 0;

	for (size_t i = 0; i <= n; i++) {
		if (i < n && (p[i] == '\\' || p[i] == '\0'))
			return false;
		if (i < n && p[i] != '/')
			continue;
		size_t len = i - start;
		if (len == 0 || (len == 1 && p[start] == '.') ||
		    (len == 2 && p[start] == '.' && p[start + 1] == '.'))
			return false;
		start = i + 1;
	}
	return true;
}

void proof(void)
{
	char path[LENGTH_MAX + 1], text[3 * LENGTH_MAX + 1], back[LENGTH_MAX + 1];
	size_t n = choose(LENGTH_MAX + 1);

	for (size_t i = 0; i < n; i++)
		path[i] = "a./\\\0\xe9"[choose(6)];
	bool is_taken = skill_path_fault(path, n) == NULL;
	hold(is_taken == is_fine(path, n));
	size_t len = skill_escape(path, n, text, sizeof(text));
	hold(skill_unescape(text, len, back, sizeof(back)) == (long)n && memcmp(path, back, n) == 0);
}
