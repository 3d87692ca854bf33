/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/self/mountinfo and /proc/self/cgroup and puts them together: v1
 * hierarchies have paths of their own each, so nothing is assumed of one from
 * another.
 */
#include "config/cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/scope.h"

/* True when @word stands in the comma-separated @list. */
static bool has_word(const char *list, const char *word)
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

/* The named ones among a v1 mount's super options; "rw" and the like are no controllers. */
static void keep_controllers(const char *options, char *ret, size_t size)
{
	static const char *const known[] = { "cpu",	"cpuacct", "cpuset",  "memory",
					     "devices", "freezer", "blkio",   "pids",
					     "net_cls", "net_prio", "hugetlb", "perf_event",
					     "rdma",	"misc",	   "debug" };

	ret[0] = '\0';
	for (const char *p = options; *p;) {
		size_t n = strcspn(p, ",\n");
		bool keep = strncmp(p, "name=", 5) == 0;
		for (size_t i = 0; !keep && i < ARRAY_SIZE(known); i++)
			keep = strlen(known[i]) == n && strncmp(known[i], p, n) == 0;
		if (keep && strlen(ret) + n + 2 < size)
			sprintf(ret + strlen(ret), "%s%.*s", ret[0] ? "," : "", (int)n, p);
		p += n;
		if (*p)
			p++;
	}
}

/* One line of mountinfo, modified in place. 1 when it is a cgroup mount of the whole tree. */
static int read_mount(char *line, struct cgroup_hierarchy *h)
{
	char *save, *field[5], *p = line;

	for (int i = 0; i < 5; i++, p = NULL) {
		field[i] = strtok_r(p, " ", &save);
		if (!field[i])
			return 0;
	}
	char *dash = save ? strstr(save, "- ") : NULL;
	if (!dash || strcmp(field[3], "/") != 0 || strlen(field[4]) >= sizeof(h->mount))
		return 0;
	char *type = strtok_r(dash + 2, " ", &save);
	char *source = strtok_r(NULL, " ", &save);
	char *options = strtok_r(NULL, " \n", &save);
	if (!type || !source || !options)
		return 0;
	memset(h, 0, sizeof(*h));
	h->is_v2 = strcmp(type, "cgroup2") == 0;
	if (!h->is_v2 && strcmp(type, "cgroup") != 0)
		return 0;
	strcpy(h->mount, field[4]); /* length checked above */
	if (!h->is_v2)
		keep_controllers(options, h->controllers, sizeof(h->controllers));
	return 1;
}

/* True for the line "N:controllers:path" of @h in /proc/self/cgroup. */
static bool is_line_of(const char *controllers, const struct cgroup_hierarchy *h)
{
	if (h->is_v2 || !*controllers)
		return h->is_v2 && !*controllers;
	size_t n = strcspn(h->controllers, ",");
	char first[64];
	snprintf(first, sizeof(first), "%.*s", (int)n, h->controllers);
	return has_word(controllers, first);
}

static void find_own(const char *text, struct cgroup_hierarchy *h)
{
	strcpy(h->own, "/");
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		const char *c = memchr(p, ':', n);
		const char *path = c ? memchr(c + 1, ':', n - (size_t)(c + 1 - p)) : NULL;
		if (path) {
			char controllers[128];
			snprintf(controllers, sizeof(controllers), "%.*s", (int)(path - c - 1), c + 1);
			if (is_line_of(controllers, h))
				snprintf(h->own, sizeof(h->own), "%.*s", (int)(p + n - path - 1),
					 path + 1);
		}
		p += n + (p[n] == '\n');
	}
}

static bool is_delegated(const char *dir)
{
	char v[4];

	return (getxattr(dir, "trusted.delegate", v, sizeof(v)) == 1 && v[0] == '1') ||
	       (getxattr(dir, "user.delegate", v, sizeof(v)) == 1 && v[0] == '1');
}

static void find_base(const char *instance, struct cgroup_hierarchy *h)
{
	char own[CGROUP_PATH_MAX], ours[64], dir[sizeof(h->mount) + sizeof(own)];

	snprintf(h->base, sizeof(h->base), "%s", h->mount);
	if (!h->is_v2)
		return;
	snprintf(own, sizeof(own), "%s", h->own);
	snprintf(ours, sizeof(ours), "/%s/", instance);
	char *mine = strstr(own, ours);
	if (mine)
		*mine = '\0';
	if (!own[0] || strcmp(own, "/") == 0)
		return;
	snprintf(dir, sizeof(dir), "%s%s", h->mount, own);
	if (is_delegated(dir) && strlen(dir) < sizeof(h->base))
		strcpy(h->base, dir); /* length checked above */
}

int cgroups_list(const char *instance, struct cgroup_hierarchy *ret, size_t max, struct err *e)
{
	autofree char *own = NULL;
	autofclose FILE *f = fopen("/proc/self/mountinfo", "re");
	autofree char *line = NULL;
	size_t cap = 0;
	int n = 0;

	if (!f)
		return err_set(e, errno, "open /proc/self/mountinfo: %s", strerror(errno));
	if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", 64 * 1024, &own, NULL, e) < 0)
		return -e->code;
	while (getline(&line, &cap, f) >= 0) {
		struct cgroup_hierarchy h;
		if (!read_mount(line, &h))
			continue;
		if ((size_t)n == max)
			return err_set(e, E2BIG, "more than %zu cgroup mounts", max);
		find_own(own, &h);
		find_base(instance, &h);
		ret[n++] = h;
	}
	return n;
}

const struct cgroup_hierarchy *cgroups_v2(const struct cgroup_hierarchy *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i].is_v2)
			return &list[i];
	return NULL;
}

const struct cgroup_hierarchy *cgroups_v1(const struct cgroup_hierarchy *list, int n,
					  const char *controller)
{
	for (int i = 0; i < n; i++)
		if (!list[i].is_v2 && has_word(list[i].controllers, controller))
			return &list[i];
	return NULL;
}
