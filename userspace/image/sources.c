/* Pure: text in, text out. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges package sources. apt itself has parsed the configuration (one-line and
 * deb822 alike); what is left is to say which entries are Debian's. An entry of
 * somebody else who calls his suite like Debian's fails later on the keyring.
 */
#include "image/sources.h"

#include <stdbool.h>
#include <string.h>

enum { FIELDS = 6 };
enum { F_TARGET_OF, F_COMPONENT, F_RELEASE, F_CODENAME, F_ORIGIN, F_URI };

static const char KEYRING[] = "/usr/share/keyrings/debian-archive-keyring.gpg";
static const char *const POCKETS[] = { "", "-updates", "-security" };

static bool append(char *buf, size_t *len, const char *s)
{
	size_t n = strlen(s);

	if (n >= SOURCE_SIZE - *len)
		return false;
	memcpy(buf + *len, s, n + 1);
	*len += n;
	return true;
}

/* Cuts @line at its bars. */
static bool split(char *line, char *f[FIELDS])
{
	for (int i = 0; i < FIELDS; i++) {
		f[i] = line;
		line = strchr(line, '|');
		if (!line)
			return i == FIELDS - 1;
		*line++ = '\0';
	}
	return false;
}

static bool known(const char *field)
{
	return field[0] && field[0] != '$';
}

/* The name of the suite's pocket that the entry is, NULL when it is none. */
static const char *pocket(char *const f[FIELDS], const char *suite)
{
	size_t n = strlen(suite);

	for (size_t i = 0; i < sizeof(POCKETS) / sizeof(POCKETS[0]); i++) {
		const char *const names[] = { f[F_RELEASE],
					      known(f[F_CODENAME]) ? f[F_CODENAME] : "" };

		for (size_t k = 0; k < 2; k++)
			if (strncmp(names[k], suite, n) == 0 &&
			    strcmp(names[k] + n, POCKETS[i]) == 0)
				return names[k];
	}
	return NULL;
}

static bool is_debians(char *const f[FIELDS])
{
	return strcmp(f[F_TARGET_OF], "deb") == 0 && strcmp(f[F_COMPONENT], "main") == 0 &&
	       (!known(f[F_ORIGIN]) || strcmp(f[F_ORIGIN], "Debian") == 0) && known(f[F_URI]) &&
	       strncmp(f[F_URI], "cdrom:", 6) != 0 && !strpbrk(f[F_URI], " \t[]\"");
}

static bool have(const struct sources *s, const char *entry)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->entry[i], entry) == 0)
			return true;
	return false;
}

enum sources_verdict sources_choose(char *text, const char *suite, struct sources *ret)
{
	ret->n = 0;
	for (char *line = text, *next; line && *line; line = next) {
		char *f[FIELDS];
		char entry[SOURCE_SIZE] = "";
		size_t len = 0;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!split(line, f) || !is_debians(f))
			continue;
		const char *name = pocket(f, suite);
		if (!name)
			continue;
		if (!append(entry, &len, "deb [signed-by=") || !append(entry, &len, KEYRING) ||
		    !append(entry, &len, "] ") || !append(entry, &len, f[F_URI]) ||
		    !append(entry, &len, " ") || !append(entry, &len, name) ||
		    !append(entry, &len, " main"))
			return SOURCES_TOO_LONG;
		if (have(ret, entry))
			continue;
		if (ret->n == SOURCES_MAX)
			return SOURCES_TOO_MANY;
		memcpy(ret->entry[ret->n++], entry, len + 1);
	}
	return ret->n ? SOURCES_OK : SOURCES_NONE;
}

void sources_public(const char *entry, char ret[SOURCE_SIZE])
{
	const char *host = strstr(entry, "://");
	size_t head = host ? (size_t)(host + 3 - entry) : 0;
	size_t authority = host ? strcspn(host + 3, "/ ") : 0;
	const char *rest = entry + head;

	for (size_t i = 0; i < authority; i++)
		if (host[3 + i] == '@')
			rest = host + 3 + i + 1;
	size_t n = strlen(rest);
	if (head + n >= SOURCE_SIZE)
		head = n = 0; /* none that sources_choose() gave */
	memmove(ret, entry, head);
	memmove(ret + head, rest, n);
	ret[head + n] = '\0';
}
