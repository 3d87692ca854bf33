/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LAUNCHER_PLAN_H
#define CORDON_LAUNCHER_PLAN_H

/*
 * The mount plan (B4, B6) as data: what the launcher makes and what it then
 * demands to find. The golden file of tests/ is written from the same rows.
 */
#include <stdbool.h>

enum plan_flag {
	PLAN_RO = 1,
	PLAN_NOSUID = 2,
	PLAN_NODEV = 4,
	PLAN_NOEXEC = 8,
};

enum plan_kind {
	PLAN_FIXED,    /* always there */
	PLAN_MASK_DIR, /* an empty read-only directory over it, where the kernel has it */
	PLAN_MASK_FILE, /* the null device over it, where the kernel has it */
	PLAN_READONLY, /* itself again, read-only */
	PLAN_RUN,      /* attached for the command */
	PLAN_VIEW,     /* attached for the command when it has skills */
};

struct plan_mount {
	const char *target;
	const char *fstypes; /* allowed types, blank-separated with a blank at both ends */
	const char *root;    /* mountinfo's root field; NULL: any (a view is a subdirectory) */
	unsigned flags;	     /* enum plan_flag, exactly */
	enum plan_kind kind;
};

extern const struct plan_mount plan_mounts[];
extern const unsigned plan_mounts_count;

#endif
