/* Pure: names in, verdict out. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of layer entries (OCI image specification, layer.md: "Whiteouts"). The
 * files themselves are layer.c's.
 */
#include "image/entry.h"

#include <string.h>

static const char WHITEOUT[] = ".wh.";
static const char OPAQUE[] = ".wh..wh..opq";

/* @name without empty and "." parts; false when it cannot be used. */
static bool clean(const char *name, char *ret, size_t *ret_len)
{
	size_t len = 0, parts = 0;
	bool is_below_whiteout = false;

	while (*name) {
		size_t n = strcspn(name, "/");
		bool is_dot = n == 1 && name[0] == '.';

		if (n == 2 && name[0] == '.' && name[1] == '.')
			return false;
		if (n > 0 && !is_dot) {
			if (is_below_whiteout || n > ENTRY_NAME_MAX || ++parts > ENTRY_PARTS_MAX ||
			    len + n + 2 > ENTRY_PATH_MAX)
				return false;
			if (len)
				ret[len++] = '/';
			memcpy(ret + len, name, n);
			len += n;
			is_below_whiteout = strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0;
		}
		name += n;
		name += *name == '/';
	}
	ret[len] = '\0';
	*ret_len = len;
	return true;
}

/* Sets parent and name from path. */
static void cut(struct entry *t)
{
	const char *slash = strrchr(t->path, '/');
	size_t n = slash ? (size_t)(slash - t->path) : 0;

	memcpy(t->parent, slash ? t->path : ".", slash ? n : 1);
	t->parent[slash ? n : 1] = '\0';
	strncpy(t->name, slash ? slash + 1 : t->path, ENTRY_NAME_MAX);
	t->name[ENTRY_NAME_MAX] = '\0';
}

static enum entry_kind whiteout(struct entry *t, size_t len)
{
	size_t name_len = strlen(t->name), head = strlen(WHITEOUT);

	if (strcmp(t->name, OPAQUE) == 0) {
		t->path[len - name_len - (len > name_len)] = '\0';
		cut(t);
		return ENTRY_OPAQUE;
	}
	const char *hidden = t->name + head;
	if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0 ||
	    strncmp(hidden, WHITEOUT, head) == 0)
		return ENTRY_BAD;
	memmove(t->path + len - name_len, t->path + len - name_len + head, name_len - head + 1);
	cut(t);
	return ENTRY_HIDES;
}

enum entry_kind entry_parse(const char *name, struct entry *ret)
{
	size_t len;

	memset(ret, 0, sizeof(*ret));
	if (!*name || !clean(name, ret->path, &len))
		return ENTRY_BAD;
	if (len == 0)
		return ret->kind = ENTRY_ROOT;
	cut(ret);
	ret->kind = strncmp(ret->name, WHITEOUT, strlen(WHITEOUT)) == 0 ? whiteout(ret, len)
									: ENTRY_PLAIN;
	return ret->kind;
}
