/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any name of a layer entry: what is accepted is a relative path without "..",
 * empty or "." parts, its parent and name put together are the path again, and
 * parsing it again gives the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/entry.h"

static void must(int is_so)
{
	if (!is_so)
		abort();
}

static void check_path(const char *path)
{
	must(path[0] != '/');
	for (const char *s = path; *s;) {
		size_t n = strcspn(s, "/");

		must(n > 0 && n <= ENTRY_NAME_MAX);
		must(!(n == 1 && s[0] == '.') && !(n == 2 && s[0] == '.' && s[1] == '.'));
		s += n;
		must(*s != '/' || s[1] != '\0');
		s += *s == '/';
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[2 * ENTRY_PATH_MAX], joined[2 * ENTRY_PATH_MAX];
	struct entry t, again;

	if (size >= sizeof(name))
		return 0;
	memcpy(name, data, size);
	name[size] = '\0';
	enum entry_kind kind = entry_parse(name, &t);
	if (kind == ENTRY_BAD || kind == ENTRY_ROOT)
		return 0;
	check_path(t.path);
	if (!t.path[0]) {
		must(kind == ENTRY_OPAQUE);
		return 0;
	}
	joined[0] = '\0';
	if (strcmp(t.parent, ".") != 0) {
		strcpy(joined, t.parent);
		strcat(joined, "/");
	}
	strcat(joined, t.name);
	must(strcmp(joined, t.path) == 0);
	if (kind == ENTRY_PLAIN) {
		must(entry_parse(t.path, &again) == ENTRY_PLAIN);
		must(strcmp(again.path, t.path) == 0);
	}
	return 0;
}
