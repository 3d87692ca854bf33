/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two controller layouts behind one interface. A knob is a row: which
 * controller, its file in v1 and in v2, how its value is written. Never moves
 * a process by writing its pid (DESIGN 4: an RCU grace period); slots are born
 * in their v2 directory and write "0" to the v1 ones themselves.
 */
#include "worker/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "config/cgroups.h"

enum { CPU_PERIOD_US = 100000 };

static const char *const controller_names[CG_CONTROLLERS] = { "cpu", "memory", "pids" };

static void value_cpu_v1(const struct limits *l, char *b, size_t n)
{
	snprintf(b, n, "%llu", (unsigned long long)l->cpu_milli * CPU_PERIOD_US / 1000);
}

static void value_cpu_v2(const struct limits *l, char *b, size_t n)
{
	snprintf(b, n, "%llu %d", (unsigned long long)l->cpu_milli * CPU_PERIOD_US / 1000,
		 CPU_PERIOD_US);
}

static void value_memory(const struct limits *l, char *b, size_t n)
{
	snprintf(b, n, "%llu", (unsigned long long)l->memory_bytes);
}

static void value_zero(const struct limits *l, char *b, size_t n)
{
	(void)l;
	snprintf(b, n, "0");
}

/* The launcher is a process of the slot, not of the command. */
static void value_pids(const struct limits *l, char *b, size_t n)
{
	snprintf(b, n, "%llu", (unsigned long long)l->pids + 1);
}

static const struct knob {
	enum cgroup_controller controller;
	bool v2;
	bool is_swap; /* absent where the host does not account swap */
	bool may_lack; /* not in every kernel */
	const char *file;
	void (*value)(const struct limits *l, char *b, size_t n);
} knobs[] = {
	{ CG_CPU, false, false, false, "cpu.cfs_quota_us", value_cpu_v1 },
	{ CG_CPU, true, false, false, "cpu.max", value_cpu_v2 },
	{ CG_MEMORY, false, false, false, "memory.limit_in_bytes", value_memory },
	{ CG_MEMORY, false, true, false, "memory.memsw.limit_in_bytes", value_memory },
	/* v1 counts socket buffers apart, and not at all without this: TCP's pool is the whole host's. */
	{ CG_MEMORY, false, false, true, "memory.kmem.tcp.limit_in_bytes", value_memory },
	{ CG_MEMORY, true, false, false, "memory.max", value_memory },
	{ CG_MEMORY, true, true, false, "memory.swap.max", value_zero },
	{ CG_PIDS, false, false, false, "pids.max", value_pids },
	{ CG_PIDS, true, false, false, "pids.max", value_pids },
};

static int write_at(int dirfd, const char *file, const char *text)
{
	autoclose int fd = openat(dirfd, file, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int read_at(int dirfd, const char *file, char *buf, size_t size)
{
	autoclose int fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

static int make_dir(int parent, const char *name, struct err *e)
{
	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return err_set(e, errno, "cgroup mkdir '%s': %s", name, strerror(errno));
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_set(e, errno, "cgroup open '%s': %s", name, strerror(errno)) : fd;
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p += n)
		if ((p == text || p[-1] == ' ') && (p[n] == '\0' || p[n] == ' ' || p[n] == '\n'))
			return true;
	return false;
}

/* Hands the v2 controllers the host offers down to @dirfd's children. */
static void enable_children(int dirfd, const struct cgroup_base *b)
{
	for (int c = 0; c < CG_CONTROLLERS; c++) {
		char word[16];
		if (b->tree_of[c] != 0)
			continue;
		snprintf(word, sizeof(word), "+%s", controller_names[c]);
		write_at(dirfd, "cgroup.subtree_control", word);
	}
}

/* <base>/<instance>/jobs in one hierarchy, appended as a tree. */
static int open_tree(const struct cgroup_hierarchy *h, const char *instance, struct cgroup_base *b,
		     struct err *e)
{
	autoclose int base = open(h->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (base < 0)
		return err_set(e, errno, "cgroup '%s': %s", h->base, strerror(errno));
	if (h->is_v2)
		enable_children(base, b);
	autoclose int inst = make_dir(base, instance, e);
	if (inst < 0)
		return inst;
	if (h->is_v2)
		enable_children(inst, b);
	int jobs = make_dir(inst, "jobs", e);
	if (jobs < 0)
		return jobs;
	if (h->is_v2)
		enable_children(jobs, b);
	b->trees[b->ntrees] = (struct cgroup_tree){ .jobs_fd = jobs, .is_v2 = h->is_v2 };
	return (int)b->ntrees++;
}

/* Which controllers the v2 tree offers: their tree is 0. */
static void find_v2(const struct cgroup_hierarchy *v2, struct cgroup_base *b)
{
	char path[CGROUP_PATH_MAX + 32], text[512] = "";

	snprintf(path, sizeof(path), "%s/cgroup.controllers", v2->base);
	read_at(AT_FDCWD, path, text, sizeof(text));
	for (int c = 0; c < CG_CONTROLLERS; c++)
		b->tree_of[c] = has_word(text, controller_names[c]) ? 0 : -1;
}

int cgroup_open_base(const char *instance, struct cgroup_base *ret, struct err *e)
{
	struct cgroup_hierarchy *list = calloc(CGROUPS_MAX, sizeof(*list));
	autofree void *owner = list;
	struct cgroup_base b = { .ntrees = 0 };
	const struct cgroup_hierarchy *seen[CG_TREES_MAX] = { NULL };
	char probe[64];

	if (!list)
		return err_set(e, ENOMEM, "cgroups");
	int n = cgroups_list(instance, list, CGROUPS_MAX, e);
	if (n < 0)
		return n;
	const struct cgroup_hierarchy *v2 = cgroups_v2(list, n);
	if (!v2)
		return err_set(e, ENOENT, "cgroup: no v2 hierarchy is mounted");
	find_v2(v2, &b);
	if (open_tree(v2, instance, &b, e) < 0)
		return -e->code;
	for (int c = 0; c < CG_CONTROLLERS; c++) {
		const struct cgroup_hierarchy *h = cgroups_v1(list, n, controller_names[c]);
		if (b.tree_of[c] == 0)
			continue;
		if (!h)
			return err_set(e, ENOENT, "cgroup: the host has no %s controller",
				       controller_names[c]);
		for (unsigned t = 1; t < b.ntrees; t++)
			if (seen[t] == h)
				b.tree_of[c] = (int)t;
		if (b.tree_of[c] > 0)
			continue;
		int t = open_tree(h, instance, &b, e);
		if (t < 0)
			return t;
		seen[t] = h;
		b.tree_of[c] = t;
	}
	int m = b.tree_of[CG_MEMORY];
	b.has_swap_limit = read_at(b.trees[m].jobs_fd,
				   m == 0 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
				   probe, sizeof(probe)) == 0;
	*ret = b;
	return 0;
}

int cgroup_make(const struct cgroup_base *base, const char *name, struct cgroup *ret, struct err *e)
{
	struct cgroup cg = { .kill_fd = -1, .base = base };
	struct stat st;

	snprintf(cg.name, sizeof(cg.name), "%s", name);
	memset(cg.dir_fds, -1, sizeof(cg.dir_fds));
	memset(cg.tasks_fds, -1, sizeof(cg.tasks_fds));
	for (unsigned t = 0; t < base->ntrees; t++) {
		cg.dir_fds[t] = make_dir(base->trees[t].jobs_fd, name, e);
		if (cg.dir_fds[t] < 0)
			goto undo;
		if (base->trees[t].is_v2)
			continue;
		cg.tasks_fds[t] = openat(cg.dir_fds[t], "tasks", O_WRONLY | O_CLOEXEC);
		if (cg.tasks_fds[t] < 0) {
			err_set(e, errno, "cgroup tasks: %s", strerror(errno));
			goto undo;
		}
	}
	cg.kill_fd = openat(cg.dir_fds[0], "cgroup.kill", O_WRONLY | O_CLOEXEC);
	if (cg.kill_fd < 0 || fstat(cg.dir_fds[0], &st) < 0) {
		err_set(e, errno, "cgroup.kill: %s", strerror(errno));
		goto undo;
	}
	cg.id = st.st_ino;
	*ret = cg;
	return 0;
undo:
	cgroup_remove(&cg);
	return -e->code;
}

int cgroup_limit(const struct cgroup *cg, const struct limits *l, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
		const struct knob *k = &knobs[i];
		int t = cg->base->tree_of[k->controller];
		char text[48];
		if (t < 0 || cg->base->trees[t].is_v2 != k->v2 ||
		    (k->is_swap && !cg->base->has_swap_limit))
			continue;
		k->value(l, text, sizeof(text));
		int rc = write_at(cg->dir_fds[t], k->file, text);
		if (rc < 0 && !(rc == -ENOENT && k->may_lack))
			return err_set(e, -rc, "cgroup %s = %s: %s", k->file, text, strerror(-rc));
	}
	return 0;
}

void cgroup_kill(const struct cgroup *cg)
{
	if (cg->kill_fd >= 0 && write(cg->kill_fd, "1", 1) < 0) {
		/* Only an already removed directory answers an error here. */
	}
}

/* The number after @key in a "key value" file. */
static uint64_t keyed(int dirfd, const char *file, const char *key)
{
	char text[4096];
	size_t n = strlen(key);

	if (read_at(dirfd, file, text, sizeof(text)) < 0)
		return 0;
	for (char *p = text; (p = strstr(p, key)); p += n)
		if ((p == text || p[-1] == '\n') && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
	return 0;
}

static uint64_t number(int dirfd, const char *file)
{
	char text[32];

	return read_at(dirfd, file, text, sizeof(text)) < 0 ? 0 : strtoull(text, NULL, 10);
}

bool cgroup_is_populated(const struct cgroup *cg)
{
	return keyed(cg->dir_fds[0], "cgroup.events", "populated") != 0;
}

void cgroup_read(const struct cgroup *cg, struct cgroup_counts *ret)
{
	int m = cg->base->tree_of[CG_MEMORY];
	bool v2 = m == 0;

	ret->cpu_ns = keyed(cg->dir_fds[0], "cpu.stat", "usage_usec") * 1000;
	ret->memory_peak_bytes =
		number(cg->dir_fds[m], v2 ? "memory.peak" : "memory.max_usage_in_bytes");
	ret->oom_kills = keyed(cg->dir_fds[m], v2 ? "memory.events" : "memory.oom_control",
			       "oom_kill");
}

int cgroup_remove(struct cgroup *cg)
{
	for (unsigned t = 0; t < cg->base->ntrees; t++) {
		if (unlinkat(cg->base->trees[t].jobs_fd, cg->name, AT_REMOVEDIR) < 0 &&
		    errno != ENOENT)
			return -errno;
	}
	for (unsigned t = 0; t < cg->base->ntrees; t++) {
		scope_close(&cg->dir_fds[t]);
		scope_close(&cg->tasks_fds[t]);
		cg->dir_fds[t] = cg->tasks_fds[t] = -1;
	}
	scope_close(&cg->kill_fd);
	cg->kill_fd = -1;
	return 0;
}

static void sweep_slot(const struct cgroup_base *base, const char *name)
{
	autoclose int dir = openat(base->trees[0].jobs_fd, name,
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (dir >= 0)
		write_at(dir, "cgroup.kill", "1");
	for (unsigned t = 0; t < base->ntrees; t++)
		for (int i = 0; i < 2000; i++) {
			if (unlinkat(base->trees[t].jobs_fd, name, AT_REMOVEDIR) == 0 ||
			    errno != EBUSY)
				break;
			usleep(1000);
		}
}

void cgroup_sweep(const struct cgroup_base *base)
{
	for (unsigned t = 0; t < base->ntrees; t++) {
		int fd = openat(base->trees[t].jobs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);
		if (!d) {
			scope_close(&fd);
			continue;
		}
		for (struct dirent *de; (de = readdir(d));)
			if (strncmp(de->d_name, "slot-", 5) == 0)
				sweep_slot(base, de->d_name);
		closedir(d);
	}
}
