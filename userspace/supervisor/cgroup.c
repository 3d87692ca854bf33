/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instance's directories in every cgroup hierarchy: killing what is in
 * them, removing them, and cordond's own place among them. Limits and slots
 * are the worker's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "supervisor/cgroup.h"
#include "supervisor/sweep.h"

enum { KILL_WAIT_MS = 5000, REMOVE_WAIT_MS = 5000, STEP_MS = 2, DEPTH_MAX = 64 };

static void pause_ms(long ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000 };

	nanosleep(&t, NULL);
}

static int write_file(const char *dir, const char *file, const char *text)
{
	char path[2 * CGROUP_PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* v2: 1 while anything is alive at or below @dir. */
static int is_populated(const char *dir)
{
	char path[2 * CGROUP_PATH_MAX];
	autofree char *text = NULL;
	struct err ignored;

	snprintf(path, sizeof(path), "%s/cgroup.events", dir);
	if (fd_read_file(AT_FDCWD, path, 4096, &text, NULL, &ignored) < 0)
		return 0;
	return strstr(text, "populated 1") != NULL;
}

int cgroup_kill(const char *dir, struct err *e)
{
	if (access(dir, F_OK) < 0)
		return 0;
	for (int waited = 0; is_populated(dir); waited += STEP_MS) {
		/* Again each time: a fork may have been under way. */
		int rc = write_file(dir, "cgroup.kill", "1");
		if (rc < 0 && rc != -ENOENT)
			return err_set(e, -rc, "kill '%s': %s", dir, strerror(-rc));
		if (waited >= KILL_WAIT_MS)
			return err_set(e, EBUSY, "processes in '%s' do not end", dir);
		pause_ms(STEP_MS);
	}
	return 0;
}

static inline void close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

static int remove_one(const char *dir, struct err *e)
{
	for (int waited = 0;; waited += STEP_MS) {
		if (rmdir(dir) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY || waited >= REMOVE_WAIT_MS)
			return err_set(e, errno, "remove '%s': %s", dir, strerror(errno));
		/* Who is in a v1 directory was born in the v2 one, and was killed there. */
		pause_ms(STEP_MS);
	}
}

static int remove_tree(const char *dir, int depth, struct err *e)
{
	__attribute__((cleanup(close_dir))) DIR *d = opendir(dir);
	char below[2 * CGROUP_PATH_MAX];

	if (!d)
		return errno == ENOENT ? 0 : err_set(e, errno, "open '%s': %s", dir, strerror(errno));
	if (depth > DEPTH_MAX)
		return err_set(e, ELOOP, "'%s' is nested too deeply", dir);
	for (struct dirent *x; (x = readdir(d));) {
		if (x->d_type != DT_DIR || x->d_name[0] == '.')
			continue;
		int n = snprintf(below, sizeof(below), "%s/%s", dir, x->d_name);
		if (n >= (int)sizeof(below))
			return err_set(e, ENAMETOOLONG, "path too long below '%s'", dir);
		if (remove_tree(below, depth + 1, e) < 0)
			return -e->code;
	}
	return remove_one(dir, e);
}

/* Where a life of this instance may have had its directory in @h: its base now, top, own. */
static int candidates(const struct plane *p, const struct cgroup_hierarchy *h,
		      char ret[3][2 * CGROUP_PATH_MAX])
{
	snprintf(ret[0], sizeof(ret[0]), "%s/%s", h->base, p->instance);
	snprintf(ret[1], sizeof(ret[1]), "%s/%s", h->mount, p->instance);
	snprintf(ret[2], sizeof(ret[2]), "%s%s/%s", h->mount, strcmp(h->own, "/") ? h->own : "",
		 p->instance);
	return 3;
}

int cgroup_sweep(const struct plane *p, struct err *e)
{
	char dirs[3][2 * CGROUP_PATH_MAX];

	/* v2 first: it has everybody, and a way to kill them all at once. */
	for (int v2 = 1; v2 >= 0; v2--)
		for (int i = 0; i < p->cgroup_count; i++) {
			const struct cgroup_hierarchy *h = &p->cgroups[i];
			if (h->is_v2 != (v2 == 1))
				continue;
			int n = candidates(p, h, dirs);
			for (int k = 0; k < n; k++) {
				if (v2 && cgroup_kill(dirs[k], e) < 0)
					return -e->code;
				if (remove_tree(dirs[k], 0, e) < 0)
					return -e->code;
			}
		}
	return 0;
}

static void below_base(const struct plane *p, const char *what, char ret[2 * CGROUP_PATH_MAX])
{
	const struct cgroup_hierarchy *h = cgroups_v2(p->cgroups, p->cgroup_count);

	snprintf(ret, 2 * CGROUP_PATH_MAX, "%s/%s%s", h ? h->base : "/nonexistent", p->instance,
		 what);
}

int sweep_kill_jobs(const struct plane *p, struct err *e)
{
	char dir[2 * CGROUP_PATH_MAX];

	below_base(p, "/jobs", dir);
	return cgroup_kill(dir, e);
}

int sweep_enter_gateway(const struct plane *p)
{
	char dir[2 * CGROUP_PATH_MAX];

	below_base(p, "/gateway", dir);
	return write_file(dir, "cgroup.procs", "0");
}

int sweep_enter_daemons(const struct plane *p, struct err *e)
{
	char dir[2 * CGROUP_PATH_MAX];

	if (!cgroups_v2(p->cgroups, p->cgroup_count))
		return err_set(e, ENOENT, "no cgroup v2 hierarchy is mounted");
	/* The second ring is attached there before the gateway enters (E10). */
	below_base(p, "/gateway", dir);
	if (fd_mkdir_parents(dir, 0755, e) < 0)
		return -e->code;
	below_base(p, "/daemons", dir);
	if (fd_mkdir_parents(dir, 0755, e) < 0)
		return -e->code;
	int rc = write_file(dir, "cgroup.procs", "0");
	return rc < 0 ? err_set(e, -rc, "enter '%s': %s", dir, strerror(-rc)) : 0;
}

void sweep_leave_daemons(const struct plane *p)
{
	static const char *const controllers[] = { "-cpu", "-memory", "-pids", "-io", "-cpuset" };
	const struct cgroup_hierarchy *h = cgroups_v2(p->cgroups, p->cgroup_count);
	char dir[2 * CGROUP_PATH_MAX];

	if (!h)
		return;
	snprintf(dir, sizeof(dir), "%s%s", h->mount, h->own);
	if (write_file(dir, "cgroup.procs", "0") != -EBUSY)
		return;
	/* A delegated base that hands controllers down takes no process: stop handing down. */
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
		write_file(dir, "cgroup.subtree_control", controllers[i]);
	write_file(dir, "cgroup.procs", "0");
}
