/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the twins of the worker's BPF programs share (egress_kernel, guard): at
 * which level the slots lie, and links that outlive the worker.
 */
#include "worker/attach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "level.skel.h"

enum { PIN_PATH_MAX = 512 };

static int silent(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

static int read_levels(uint64_t ids[32], struct err *e)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	struct level_bpf *skel = level_bpf__open_and_load();
	int rc;

	if (!skel)
		return err_set(e, errno, "load bpf/level: %s", strerror(errno));
	rc = bpf_prog_test_run_opts(bpf_program__fd(skel->progs.read_levels), &opts);
	if (rc < 0)
		rc = err_set(e, -rc, "run bpf/level: %s", strerror(-rc));
	else
		memcpy(ids, skel->bss->ids, 32 * sizeof(ids[0]));
	level_bpf__destroy(skel);
	return rc;
}

int attach_level(int jobs_fd, uint32_t *ret, struct err *e)
{
	char path[PIN_PATH_MAX] = ".";
	uint64_t ids[32];
	struct stat st;
	int rc;

	libbpf_set_print(silent); /* errors travel as struct err */
	rc = read_levels(ids, e);
	if (rc < 0)
		return rc;
	for (uint32_t up = 0; up < 32; up++) {
		if (fstatat(jobs_fd, path, &st, 0) < 0)
			return err_set(e, errno, "stat the jobs directory: %s", strerror(errno));
		for (uint32_t l = 0; l < 32; l++)
			if (ids[l] && ids[l] == st.st_ino) {
				*ret = l + up + 1;
				return 0;
			}
		strcat(path, "/..");
	}
	return err_set(e, ENOENT, "no common ancestor of the jobs directory and this process");
}

void attach_drop(struct link_set *set)
{
	while (set->n)
		bpf_link__destroy(set->links[--set->n]);
}

void attach_undo(struct link_set *set)
{
	for (unsigned i = 0; i < set->n; i++)
		bpf_link__unpin(set->links[i]);
	attach_drop(set);
}

static int pin_path(char path[PIN_PATH_MAX], const struct attach_place *at, const char *name,
		    struct err *e)
{
	int n = snprintf(path, PIN_PATH_MAX, "%s/%s%s", at->pin_dir, at->prefix, name);

	return n < PIN_PATH_MAX ? 0 : err_set(e, ENAMETOOLONG, "pin directory \"%s\"", at->pin_dir);
}

/* Attached before the old pin goes: there is no moment without a guard. */
static int attach_one(struct bpf_program *prog, const struct attach_place *at,
		      struct link_set *set, struct err *e)
{
	const char *name = bpf_program__name(prog);
	char path[PIN_PATH_MAX];
	struct bpf_link *link;
	int rc = pin_path(path, at, name, e);

	if (rc < 0)
		return rc;
	if (set->n == LINKS_MAX)
		return err_set(e, ENOSPC, "more than %d programs", LINKS_MAX);
	link = at->dirfd >= 0 ? bpf_program__attach_cgroup(prog, at->dirfd) :
				bpf_program__attach(prog);
	if (!link)
		return err_set(e, errno, "attach %s: %s%s", name, strerror(errno),
			       errno == EPERM && at->dirfd >= 0 ?
				       " (is a foreign program exclusive there?)" : "");
	set->links[set->n++] = link;
	if (unlink(path) < 0 && errno != ENOENT)
		return err_set(e, errno, "remove the old pin \"%s\": %s", path, strerror(errno));
	rc = bpf_link__pin(link, path);
	return rc < 0 ? err_set(e, -rc, "pin \"%s\": %s", path, strerror(-rc)) : 0;
}

int attach_all(struct bpf_object *obj, const struct attach_place *at, struct link_set *set,
	       struct err *e)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, obj) {
		int rc = attach_one(prog, at, set, e);
		if (rc < 0) {
			attach_undo(set);
			return rc;
		}
	}
	return 0;
}
