/* Pure: allow and block lists of commands (Q8). SPDX-License-Identifier: Apache-2.0 */
/*
 * Names against lists. Reads a command string only roughly, as words between
 * what a shell treats as separators: quoting can hide a word from it, and that
 * is why nothing relies on it.
 */
#include "policy/command.h"

#include <string.h>

static const char blanks[] = " \t";
static const char separators[] = " \t\n;|&(){}`$<>\"'";
static const char commands[] = "\n;|&(){}`"; /* what comes next is a program again */

static size_t span(const char *s, size_t len, const char *set, bool in)
{
	size_t n = 0;

	while (n < len && s[n] && (memchr(set, s[n], strlen(set)) != NULL) == in)
		n++;
	return n;
}

static bool list_has(const char *list, const char *name, size_t len)
{
	while (*list) {
		list += span(list, strlen(list), blanks, true);
		size_t n = span(list, strlen(list), blanks, false);
		if (n == len && n > 0 && memcmp(list, name, n) == 0)
			return true;
		list += n;
	}
	return false;
}

/* The last part of a path. */
static const char *base_of(const char *word, size_t len, size_t *ret_len)
{
	size_t at = len;

	while (at > 0 && word[at - 1] != '/')
		at--;
	*ret_len = len - at;
	return word + at;
}

static bool word_passes(const char *allow, const char *block, const char *word, size_t len,
			bool is_program)
{
	size_t n;
	const char *name = base_of(word, len, &n);

	if (list_has(block, name, n))
		return false;
	return !is_program || !*allow || list_has(allow, name, n);
}

static bool text_passes(const char *allow, const char *block, const char *text, size_t len)
{
	bool is_program = true;

	for (size_t at = 0; at < len;) {
		size_t gap = span(text + at, len - at, separators, true);
		for (size_t i = at; i < at + gap; i++)
			if (memchr(commands, text[i], sizeof(commands) - 1))
				is_program = true;
		at += gap;
		size_t n = span(text + at, len - at, separators, false);
		if (n == 0)
			break;
		/* NAME=value before a program is no program */
		bool is_setting = is_program && memchr(text + at, '=', n) != NULL;
		if (!word_passes(allow, block, text + at, n, is_program && !is_setting))
			return false;
		is_program = is_program && is_setting;
		at += n;
	}
	return true;
}

bool command_is_allowed(const char *allow, const char *block, const char *args, size_t len,
			uint32_t argc)
{
	size_t first = strnlen(args, len);

	if (!*allow && !*block)
		return true;
	if (argc >= 3 && len > 8 && memcmp(args, "bash\0-c", 8) == 0)
		return text_passes(allow, block, args + 8, strnlen(args + 8, len - 8));
	return word_passes(allow, block, args, first, true);
}
