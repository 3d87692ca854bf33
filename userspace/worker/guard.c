/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading by doing: a kernel may refuse the programs, and one whose list of
 * security modules leaves bpf out takes and attaches them and never asks.
 */
#include "worker/guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "abi/guard_types.h"
#include "base/fault.h"
#include "base/log.h"
#include "guard.skel.h"
#include "worker/attach.h"

struct guard_programs {
	struct guard_bpf *skel;
	struct link_set links;
};

#define GUARD_WORD(name, word) word,
static const char *const hook_words[GUARD_HOOKS_MAX] = { GUARD_HOOKS(GUARD_WORD) };

static void guard_undo(struct guard_programs *g)
{
	attach_undo(&g->links);
	guard_bpf__destroy(g->skel);
	free(g);
}

static int load(struct guard_programs *g, int jobs_fd, struct err *e)
{
	uint32_t level;
	int rc = attach_level(jobs_fd, &level, e);

	if (rc < 0)
		return rc;
	g->skel = guard_bpf__open();
	if (!g->skel)
		return err_set(e, errno, "open bpf/guard: %s", strerror(errno));
	g->skel->rodata->slot_level = level;
	rc = guard_bpf__load(g->skel);
	return rc < 0 ? err_set(e, -rc, "load bpf/guard: %s", strerror(-rc)) : 0;
}

/* A command of bpf(2) that is denied to everybody while the guard is asked, and else is unknown. */
static int try_out(struct err *e)
{
	union bpf_attr none;

	memset(&none, 0, sizeof(none));
	if (syscall(SYS_bpf, GUARD_TRIAL, &none, sizeof(none)) < 0 && errno == EPERM)
		return 0;
	return err_set(e, ENOSYS, "bpf/guard is loaded and the kernel does not ask it (lsm=)");
}

int guard_open(int jobs_fd, const char *pin_dir, struct guard_programs **ret, struct err *e)
{
	const struct attach_place at = { -1, pin_dir, "guard_" };
	struct guard_programs *g = calloc(1, sizeof(*g));
	int rc;

	if (!g)
		return err_set(e, ENOMEM, "out of memory");
	rc = fault_step("guard.open", e); /* a kernel that takes none */
	if (rc == 0)
		rc = load(g, jobs_fd, e);
	if (rc == 0)
		rc = attach_all(g->skel->obj, &at, &g->links, e);
	if (rc == 0)
		rc = try_out(e);
	if (rc == 0)
		*ret = g;
	else
		guard_undo(g);
	return rc;
}

int guard_begin(struct guard_programs *g, uint64_t cgroup_id, struct err *e)
{
	const struct guard_slot slot = { 0 };
	int rc = bpf_map_update_elem(bpf_map__fd(g->skel->maps.guarded), &cgroup_id, &slot,
				     BPF_NOEXIST);

	return rc < 0 ? err_set(e, -rc, "guard a slot: %s", strerror(-rc)) : 0;
}

void guard_end(struct guard_programs *g, uint64_t cgroup_id)
{
	char words[256] = "";
	struct guard_slot slot;

	if (bpf_map_lookup_and_delete_elem(bpf_map__fd(g->skel->maps.guarded), &cgroup_id, &slot) < 0)
		return; /* its command never began */
	for (unsigned i = 0; i < GUARD_HOOKS_MAX; i++)
		if (slot.refused & 1u << i) {
			strncat(words, *words ? "," : "", sizeof(words) - strlen(words) - 1);
			strncat(words, hook_words[i], sizeof(words) - strlen(words) - 1);
		}
	if (*words)
		log_error("guard", "cgroup=%llu denied=\"%s\"", (unsigned long long)cgroup_id, words);
}
