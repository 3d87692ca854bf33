/* Pure: SPDX-License-Identifier: Apache-2.0 */
/* Who is below whom. Asks no file system; walk.c finds out what is real. */
#include "files/geometry.h"

#include <string.h>

bool files_is_below(const char *root, const char *path)
{
	size_t n = strlen(root);

	if (n == 1 && root[0] == '/')
		return path[0] == '/';
	return n > 0 && strncmp(root, path, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool any_above(const char *const *roots, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (files_is_below(roots[i], path))
			return true;
	return false;
}

enum files_verdict files_judge(const char *const *allow, size_t nallow, const char *const *deny,
			       size_t ndeny, const char *path)
{
	if (any_above(deny, ndeny, path))
		return FILES_DENIED;
	return any_above(allow, nallow, path) ? FILES_INSIDE : FILES_OUTSIDE;
}

/* Takes the last part off; "/" stays. */
static size_t parent_length(const char *path, size_t len)
{
	while (len > 1 && path[len - 1] != '/')
		len--;
	return len > 1 ? len - 1 : 1;
}

static bool add_part(char *out, size_t *len, const char *part, size_t n)
{
	size_t slash = *len > 1;

	if (n == 0 || (n == 1 && part[0] == '.'))
		return true;
	if (n == 2 && part[0] == '.' && part[1] == '.') {
		*len = parent_length(out, *len);
		return true;
	}
	if (*len + slash + n >= FILES_PATH_MAX)
		return false;
	if (slash)
		out[*len] = '/';
	memcpy(out + *len + slash, part, n);
	*len += slash + n;
	return true;
}

bool files_join(const char *base, const char *rest, char ret[FILES_PATH_MAX])
{
	size_t len = rest[0] == '/' ? 1 : strlen(base);

	if (len >= FILES_PATH_MAX || base[0] != '/')
		return false;
	memcpy(ret, rest[0] == '/' ? "/" : base, len);
	while (*rest) {
		const char *slash = strchr(rest, '/');
		size_t n = slash ? (size_t)(slash - rest) : strlen(rest);
		if (!add_part(ret, &len, rest, n))
			return false;
		rest += n + (slash != NULL);
	}
	ret[len] = '\0';
	return true;
}
