/* Pure: who runs next (Q6). SPDX-License-Identifier: Apache-2.0 */
/*
 * The ceilings are one table; an item may start when none of the running ones
 * is reached and its workspace is free, and may wait when none of the waiting
 * ones is. Fairness is the order of the list of organisations: who was served
 * goes to its end, who could not be served keeps its place.
 */
#include "policy/admission.h"

#include <stddef.h>
#include <string.h>

enum ceiling_group { CEILING_RUNNING, CEILING_WAITING, CEILING_JOBS };

static const struct ceiling {
	enum ceiling_group group;
	bool per_org;
	size_t count, limit; /* offsets */
} ceilings[] = {
	{ CEILING_RUNNING, false, offsetof(struct admission, running),
	  offsetof(struct admission_ceilings, running) },
	{ CEILING_RUNNING, true, offsetof(struct admission_org, running),
	  offsetof(struct admission_ceilings, running_per_org) },
	{ CEILING_WAITING, false, offsetof(struct admission, waiting),
	  offsetof(struct admission_ceilings, waiting) },
	{ CEILING_WAITING, true, offsetof(struct admission_org, waiting),
	  offsetof(struct admission_ceilings, waiting_per_org) },
	{ CEILING_JOBS, false, offsetof(struct admission, jobs),
	  offsetof(struct admission_ceilings, jobs) },
	{ CEILING_JOBS, true, offsetof(struct admission_org, jobs),
	  offsetof(struct admission_ceilings, jobs_per_org) },
};

static uint32_t at(const void *base, size_t offset)
{
	uint32_t v;

	memcpy(&v, (const char *)base + offset, sizeof(v));
	return v;
}

static bool has_room(const struct admission *a, const struct admission_org *org,
		     enum ceiling_group group)
{
	for (size_t i = 0; i < sizeof(ceilings) / sizeof(ceilings[0]); i++) {
		const struct ceiling *c = &ceilings[i];
		const void *counted = c->per_org ? (const void *)org : (const void *)a;
		if (c->group == group && at(counted, c->count) >= at(&a->ceilings, c->limit))
			return false;
	}
	return true;
}

void admission_init(struct admission *a, const struct admission_ceilings *c)
{
	memset(a, 0, sizeof(*a));
	a->ceilings = *c;
}

bool admission_job_open(struct admission *a, struct admission_org *org)
{
	if (!has_room(a, org, CEILING_JOBS))
		return false;
	a->jobs++;
	org->jobs++;
	return true;
}

void admission_job_close(struct admission *a, struct admission_org *org)
{
	a->jobs--;
	org->jobs--;
}

static void orgs_append(struct admission *a, struct admission_org *org)
{
	org->prev = a->tail;
	org->next = NULL;
	*(a->tail ? &a->tail->next : &a->head) = org;
	a->tail = org;
}

static void orgs_remove(struct admission *a, struct admission_org *org)
{
	*(org->prev ? &org->prev->next : &a->head) = org->next;
	*(org->next ? &org->next->prev : &a->tail) = org->prev;
	org->prev = org->next = NULL;
}

static void wait_begin(struct admission *a, struct admission_item *it)
{
	struct admission_org *org = it->org;

	if (!org->head)
		orgs_append(a, org);
	it->next = NULL;
	*(org->tail ? &org->tail->next : &org->head) = it;
	org->tail = it;
	it->state = ADMISSION_WAITING;
	org->waiting++;
	a->waiting++;
}

static void wait_end(struct admission *a, struct admission_item *it)
{
	struct admission_org *org = it->org;
	struct admission_item **link = &org->head, *before = NULL;

	while (*link != it) {
		before = *link;
		link = &before->next;
	}
	*link = it->next;
	if (org->tail == it)
		org->tail = before;
	it->next = NULL;
	if (!org->head)
		orgs_remove(a, org);
	org->waiting--;
	a->waiting--;
}

static void run_begin(struct admission *a, struct admission_item *it)
{
	it->state = ADMISSION_RUNNING;
	it->workspace->is_busy = true;
	it->org->running++;
	a->running++;
}

static void run_end(struct admission *a, struct admission_item *it)
{
	it->workspace->is_busy = false;
	it->org->running--;
	a->running--;
}

/* The first whose workspace is free: a busy workspace holds back its own only. */
static struct admission_item *startable_of(const struct admission *a,
					   const struct admission_org *org)
{
	if (!has_room(a, org, CEILING_RUNNING))
		return NULL;
	for (struct admission_item *it = org->head; it; it = it->next)
		if (!it->workspace->is_busy)
			return it;
	return NULL;
}

static struct admission_item *startable(const struct admission *a)
{
	for (struct admission_org *org = a->head; org; org = org->next) {
		struct admission_item *it = startable_of(a, org);
		if (it)
			return it;
	}
	return NULL;
}

enum admission_verdict admission_enter(struct admission *a, struct admission_item *it,
				       struct admission_org *org, struct admission_workspace *ws)
{
	it->org = org;
	it->workspace = ws;
	it->next = NULL;
	/* Nobody overtakes one who could start and was not asked for yet. */
	if (!ws->is_busy && has_room(a, org, CEILING_RUNNING) && !startable(a)) {
		run_begin(a, it);
		return ADMISSION_RUN;
	}
	if (!has_room(a, org, CEILING_WAITING))
		return ADMISSION_REFUSED;
	wait_begin(a, it);
	return ADMISSION_WAIT;
}

struct admission_item *admission_next(struct admission *a)
{
	struct admission_item *it = startable(a);

	if (!it)
		return NULL;
	wait_end(a, it);
	if (it->org->head) { /* served: to the end of the line */
		orgs_remove(a, it->org);
		orgs_append(a, it->org);
	}
	run_begin(a, it);
	return it;
}

void admission_leave(struct admission *a, struct admission_item *it)
{
	static void (*const leave[ADMISSION_STATES])(struct admission *, struct admission_item *) = {
		[ADMISSION_WAITING] = wait_end,
		[ADMISSION_RUNNING] = run_end,
	};

	if (leave[it->state])
		leave[it->state](a, it);
	it->state = ADMISSION_OUT;
}

uint32_t admission_position(const struct admission_item *it)
{
	uint32_t n = 0;

	if (it->state != ADMISSION_WAITING)
		return 0;
	for (const struct admission_item *p = it->org->head; p && p != it; p = p->next)
		n++;
	return n;
}
