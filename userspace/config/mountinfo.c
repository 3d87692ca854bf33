/* Pure: lines of the kernel's tables of mounts and cgroups (Q5, B10). SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts up what /proc/PID/mountinfo and /proc/PID/cgroup say. Reads neither
 * file and judges no mount.
 */
#include "config/mountinfo.h"

#include <string.h>

/* The next field, cut off in place at its one blank; NULL past the last. */
static char *next_field(char **rest)
{
	char *s = *rest, *end;

	if (!s)
		return NULL;
	end = strchr(s, ' ');
	if (end)
		*end++ = '\0';
	*rest = end;
	return s;
}

/* The kernel writes blanks, newlines, backslashes and # as \ooo. In place. */
static char *unescape(char *s)
{
	char *in = s, *out = s;

	while (*in) {
		if (in[0] == '\\' && strspn(in + 1, "01234567") >= 3) {
			*out++ = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
	return s;
}

int mount_line_parse(char *line, struct mount_line *ret)
{
	char *rest = line, *device, *root, *target, *tag;

	line[strcspn(line, "\n")] = '\0';
	next_field(&rest); /* its number */
	next_field(&rest); /* its parent's */
	device = next_field(&rest);
	root = next_field(&rest);
	target = next_field(&rest);
	next_field(&rest); /* the mount's own options */
	do
		tag = next_field(&rest);
	while (tag && strcmp(tag, "-") != 0);
	if (!tag)
		return -1;
	ret->type = next_field(&rest);
	char *source = next_field(&rest);
	ret->options = next_field(&rest);
	if (!ret->options || rest || !ret->type[0])
		return -1;
	if (!strchr(device, ':') || !root[0] || target[0] != '/')
		return -1;
	ret->root = unescape(root);
	ret->target = unescape(target);
	ret->source = unescape(source);
	return 0;
}

bool cgroup_has_controller(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; *p;) {
		size_t n = strcspn(p, ",");
		if (n == len && strncmp(p, word, n) == 0)
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}

/* "rw" and the like are no controllers. */
static bool is_controller(const char *word, size_t len)
{
	static const char *const known[] = {
		"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids",
		"net_cls", "net_prio", "hugetlb", "perf_event", "rdma", "misc", "debug",
	};

	if (len > 5 && strncmp(word, "name=", 5) == 0)
		return true;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i]) == len && strncmp(known[i], word, len) == 0)
			return true;
	return false;
}

int cgroup_controllers(const char *options, char *ret, size_t size)
{
	size_t used = 0;

	for (const char *p = options; *p;) {
		size_t n = strcspn(p, ",");
		if (is_controller(p, n)) {
			if (used + (used > 0) + n >= size)
				return -1;
			if (used)
				ret[used++] = ',';
			memcpy(ret + used, p, n);
			used += n;
		}
		p += n + (p[n] == ',');
	}
	ret[used] = '\0';
	return 0;
}

/* True for a line with the controllers [@p, @end) that is @controllers' hierarchy: the first names it. */
static bool is_line_of(const char *p, const char *end, const char *controllers)
{
	size_t first = strcspn(controllers, ",");

	if (first == 0)
		return p == end;
	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma ? comma : end;
		if ((size_t)(stop - p) == first && memcmp(p, controllers, first) == 0)
			return true;
		p = comma ? comma + 1 : end;
	}
	return false;
}

int cgroup_own_path(const char *text, const char *controllers, char *ret, size_t size)
{
	const char *own = "/";
	size_t len = 1;

	for (const char *p = text; *p;) {
		const char *end = p + strcspn(p, "\n");
		const char *names = memchr(p, ':', (size_t)(end - p));
		const char *path = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;
		if (path && is_line_of(names + 1, path, controllers)) {
			own = path + 1;
			len = (size_t)(end - own);
		}
		p = end + (*end == '\n');
	}
	if (len >= size)
		return -1;
	memcpy(ret, own, len);
	ret[len] = '\0';
	return 0;
}
