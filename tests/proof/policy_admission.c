/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Q6: admission never passes a ceiling, runs one command of a workspace at a
 * time, and loses nobody. Complete enumeration of every sequence of six steps
 * (enter, leave, next, open and close a job) of four commands of two
 * organisations with a workspace of their own and one they would share within
 * the organisation, under three sets of ceilings.
 */
#include <stdbool.h>
#include <string.h>

#include "nondet.h"
#include "policy/admission.h"

const char proof_name[] = "admission_never_passes_a_ceiling";

enum { ORGS = 2, ITEMS = 4, STEPS = DEPTH(6, 300) };

static struct admission a;
static struct admission_org orgs[ORGS];
static struct admission_workspace places[ITEMS];
static struct admission_item items[ITEMS];

static unsigned org_of(unsigned i)
{
	return i % ORGS;
}

/* 0 and 2 share a workspace; 1 and 3 have their own. */
static unsigned place_of(unsigned i)
{
	return i == 2 ? 0 : i;
}

static void check(void)
{
	uint32_t running = 0, waiting = 0, run[ORGS] = { 0 }, wait[ORGS] = { 0 }, busy[ITEMS] = { 0 };

	for (unsigned i = 0; i < ITEMS; i++) {
		bool runs = items[i].state == ADMISSION_RUNNING, waits = items[i].state == ADMISSION_WAITING;
		running += runs;
		waiting += waits;
		run[org_of(i)] += runs;
		wait[org_of(i)] += waits;
		busy[place_of(i)] += runs;
	}
	hold(running == a.running && running <= a.ceilings.running);
	hold(waiting == a.waiting && waiting <= a.ceilings.waiting);
	hold(a.jobs <= a.ceilings.jobs);
	for (unsigned o = 0; o < ORGS; o++) {
		hold(run[o] == orgs[o].running && run[o] <= a.ceilings.running_per_org);
		hold(wait[o] == orgs[o].waiting && wait[o] <= a.ceilings.waiting_per_org);
		hold(orgs[o].jobs <= a.ceilings.jobs_per_org);
		hold(!orgs[o].head == !orgs[o].waiting);
	}
	for (unsigned i = 0; i < ITEMS; i++)
		hold(busy[i] <= 1 && places[i].is_busy == (busy[i] == 1));
}

static void enter_or_leave(unsigned i)
{
	if (items[i].state != ADMISSION_OUT) {
		admission_leave(&a, &items[i]);
		hold(items[i].state == ADMISSION_OUT);
		return;
	}
	enum admission_verdict v = admission_enter(&a, &items[i], &orgs[org_of(i)], &places[place_of(i)]);
	hold(items[i].state == (v == ADMISSION_RUN  ? ADMISSION_RUNNING :
				v == ADMISSION_WAIT ? ADMISSION_WAITING :
						      ADMISSION_OUT));
}

void proof(void)
{
	static const struct admission_ceilings shapes[] = {
		{ 1, 1, 2, 1, 1, 1 }, { 2, 1, 2, 2, 2, 1 }, { 3, 2, 1, 1, 3, 2 },
	};

	memset(orgs, 0, sizeof(orgs));
	memset(places, 0, sizeof(places));
	memset(items, 0, sizeof(items));
	admission_init(&a, &shapes[choose(3)]);
	for (int s = 0; s < STEPS; s++) {
		unsigned what = choose(ITEMS + 1 + 2 * ORGS);
		if (what < ITEMS)
			enter_or_leave(what);
		else if (what == ITEMS)
			hold(!admission_next(&a) || a.running);
		else if (what <= ITEMS + ORGS)
			admission_job_open(&a, &orgs[what - ITEMS - 1]);
		else if (orgs[what - ITEMS - ORGS - 1].jobs)
			admission_job_close(&a, &orgs[what - ITEMS - ORGS - 1]);
		check();
	}
	/* Nobody who could start is forgotten: when all have left who runs, all who wait get their turn. */
	for (unsigned round = 0; round <= ITEMS; round++) {
		while (admission_next(&a))
			check();
		for (unsigned i = 0; i < ITEMS; i++)
			if (items[i].state == ADMISSION_RUNNING)
				admission_leave(&a, &items[i]);
	}
	hold(a.running == 0 && a.waiting == 0);
}
