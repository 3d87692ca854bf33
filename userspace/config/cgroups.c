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
#include "config/mountinfo.h"

/* One line of mountinfo, modified in place. 1 when it is a cgroup mount of the whole tree that says whose. */
static int read_mount(char *line, struct cgroup_hierarchy *h, struct err *e)
{
	struct mount_line m;

	if (mount_line_parse(line, &m) < 0 || strcmp(m.root, "/") != 0)
		return 0;
	memset(h, 0, sizeof(*h));
	h->is_v2 = strcmp(m.type, "cgroup2") == 0;
	if (!h->is_v2 && strcmp(m.type, "cgroup") != 0)
		return 0;
	if (strlen(m.target) >= sizeof(h->mount))
		return err_set(e, ENAMETOOLONG, "cgroup mount '%s'", m.target);
	strcpy(h->mount, m.target); /* length checked above */
	if (!h->is_v2 && cgroup_controllers(m.options, h->controllers, sizeof(h->controllers)) < 0)
		return err_set(e, E2BIG, "too many controllers on '%s'", h->mount);
	return h->is_v2 || h->controllers[0];
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
		int found = read_mount(line, &h, e);
		if (found < 0)
			return found;
		if (!found)
			continue;
		if ((size_t)n == max)
			return err_set(e, E2BIG, "more than %zu cgroup mounts", max);
		if (cgroup_own_path(own, h.controllers, h.own, sizeof(h.own)) < 0)
			return err_set(e, ENAMETOOLONG, "own cgroup below '%s'", h.mount);
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
		if (!list[i].is_v2 && cgroup_has_controller(list[i].controllers, controller))
			return &list[i];
	return NULL;
}
