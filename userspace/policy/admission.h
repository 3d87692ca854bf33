/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_ADMISSION_H
#define CORDON_POLICY_ADMISSION_H

/*
 * Who runs next (Q6): ceilings on running and waiting commands, per
 * organisation and in all; first come first served inside an organisation,
 * taking turns across organisations; one command at a time per workspace;
 * a ceiling on open jobs.
 *
 * Knows no command, no time and no heap: items, organisations and workspaces
 * are embedded in the caller's own objects (zeroed before first use) and must
 * outlive their place here. The caller asks admission_next() after every
 * admission_leave() and after raised ceilings until it gives NULL.
 */
#include <stdbool.h>
#include <stdint.h>

struct admission_ceilings {
	uint32_t running, running_per_org;
	uint32_t waiting, waiting_per_org;
	uint32_t jobs, jobs_per_org;
};

/* Q6's defaults; the number of jobs in all only bounds memory. */
#define ADMISSION_DEFAULT \
	((struct admission_ceilings){ .running = 8, \
				      .running_per_org = 2, \
				      .waiting = 128, \
				      .waiting_per_org = 16, \
				      .jobs = 16384, \
				      .jobs_per_org = 32 })

enum admission_state {
	ADMISSION_OUT = 0,
	ADMISSION_WAITING,
	ADMISSION_RUNNING,
	ADMISSION_STATES
};

enum admission_verdict {
	ADMISSION_REFUSED = 0, /* queue_saturated; the item stays out */
	ADMISSION_RUN,	       /* it runs now */
	ADMISSION_WAIT,	       /* admission_next() gives it when its turn has come */
};

struct admission_workspace {
	bool is_busy;
};

struct admission_item {
	enum admission_state state;
	struct admission_org *org;
	struct admission_workspace *workspace;
	struct admission_item *next; /* of the same organisation, waiting longer first */
};

struct admission_org {
	uint32_t running, waiting, jobs;
	struct admission_item *head, *tail;
	struct admission_org *prev, *next; /* with something waiting, longest unserved first */
};

struct admission {
	struct admission_ceilings ceilings;
	uint32_t running, waiting, jobs;
	struct admission_org *head, *tail;
};

void admission_init(struct admission *a, const struct admission_ceilings *c);

/* Counts a job in, or gives false: open_jobs_exhausted. */
bool admission_job_open(struct admission *a, struct admission_org *org);
void admission_job_close(struct admission *a, struct admission_org *org);

/* @it must be out. Keeps pointers to all three while it is not. */
enum admission_verdict admission_enter(struct admission *a, struct admission_item *it,
				       struct admission_org *org, struct admission_workspace *ws);

/* The next one to run, counted as running; NULL: nothing may start now. */
struct admission_item *admission_next(struct admission *a);

/* Takes @it out, whatever its state: it ended, or it gave up waiting. */
void admission_leave(struct admission *a, struct admission_item *it);

/* How many of its organisation are before it in the queue; 0 when not waiting. */
uint32_t admission_position(const struct admission_item *it);

#endif
