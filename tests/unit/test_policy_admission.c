/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission against a model: random commands of random organisations on random
 * workspaces come, start, end and give up; after every step the ceilings hold,
 * nobody is lost and whoever starts is the one a naive reading of Q6 names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/admission.h"

enum { ORGS = 12, PLACES = 5, ITEMS = 400, STEPS = 20000 };

struct cmd {
	struct admission_item item;
	int org, place;
	uint64_t came;
};

static struct admission a;
static struct admission_org orgs[ORGS];
static struct admission_workspace places[ORGS][PLACES];
static struct cmd cmds[ITEMS];

static void reset(const struct admission_ceilings *c)
{
	admission_init(&a, c);
	memset(orgs, 0, sizeof(orgs));
	memset(places, 0, sizeof(places));
	memset(cmds, 0, sizeof(cmds));
}

static enum admission_verdict enter(struct cmd *c, int org, int place)
{
	static uint64_t clock;

	c->org = org;
	c->place = place;
	c->came = ++clock;
	return admission_enter(&a, &c->item, &orgs[org], &places[org][place]);
}

static struct cmd *next(void)
{
	struct admission_item *it = admission_next(&a);

	return it ? (struct cmd *)(void *)((char *)it - offsetof(struct cmd, item)) : NULL;
}

/* Counts from the items alone, never from the counters under test. */
static void check_ceilings(const struct admission_ceilings *c)
{
	uint32_t running = 0, waiting = 0, run[ORGS] = { 0 }, wait[ORGS] = { 0 };
	uint32_t busy[ORGS][PLACES] = { { 0 } };

	for (int i = 0; i < ITEMS; i++) {
		if (cmds[i].item.state == ADMISSION_RUNNING) {
			running++;
			run[cmds[i].org]++;
			busy[cmds[i].org][cmds[i].place]++;
		}
		if (cmds[i].item.state == ADMISSION_WAITING) {
			waiting++;
			wait[cmds[i].org]++;
		}
	}
	assert_true(running <= c->running && running == a.running);
	assert_true(waiting <= c->waiting && waiting == a.waiting);
	for (int o = 0; o < ORGS; o++) {
		assert_true(run[o] <= c->running_per_org && run[o] == orgs[o].running);
		assert_true(wait[o] <= c->waiting_per_org && wait[o] == orgs[o].waiting);
		for (int p = 0; p < PLACES; p++) {
			assert_true(busy[o][p] <= 1);
			assert_int_equal(busy[o][p], places[o][p].is_busy);
		}
	}
}

/* True when @c could start now, read naively from the state of all others. */
static int could_start(const struct cmd *c, const struct admission_ceilings *lim)
{
	uint32_t running = 0, of_org = 0;

	for (int i = 0; i < ITEMS; i++) {
		if (cmds[i].item.state != ADMISSION_RUNNING)
			continue;
		running++;
		of_org += cmds[i].org == c->org;
		if (cmds[i].org == c->org && cmds[i].place == c->place)
			return 0;
	}
	return running < lim->running && of_org < lim->running_per_org;
}

static void check_started(const struct cmd *c)
{
	for (int i = 0; i < ITEMS; i++) {
		const struct cmd *o = &cmds[i];
		if (o->item.state == ADMISSION_WAITING && o->org == c->org && o->came < c->came)
			assert_true(o->place == c->place ? 0 : places[o->org][o->place].is_busy);
	}
}

static void drain(const struct admission_ceilings *lim)
{
	struct cmd *c;

	while ((c = next())) {
		assert_int_equal(c->item.state, ADMISSION_RUNNING);
		check_started(c);
		check_ceilings(lim);
	}
	for (int i = 0; i < ITEMS; i++)
		if (cmds[i].item.state == ADMISSION_WAITING)
			assert_false(could_start(&cmds[i], lim));
}

static void random_walk(const struct admission_ceilings *lim, unsigned seed)
{
	bool drained = true;

	reset(lim);
	srand(seed);
	for (int s = 0; s < STEPS; s++) {
		struct cmd *c = &cmds[rand() % ITEMS];
		if (c->item.state != ADMISSION_OUT && rand() % 3 == 0) {
			admission_leave(&a, &c->item);
			drained = false;
		} else if (c->item.state == ADMISSION_OUT) {
			uint32_t waiting = a.waiting;
			enum admission_verdict v = enter(c, rand() % ORGS, rand() % PLACES);
			if (v == ADMISSION_REFUSED) {
				assert_int_equal(c->item.state, ADMISSION_OUT);
				assert_true(waiting == lim->waiting ||
					    orgs[c->org].waiting == lim->waiting_per_org);
				assert_false(drained && could_start(c, lim));
			}
			if (v == ADMISSION_RUN)
				check_started(c);
		}
		if (s % 8 == 0 || rand() % 2) {
			drain(lim);
			drained = true;
		}
		check_ceilings(lim);
	}
}

static void random_operations_never_pass_a_ceiling(void **state)
{
	static const struct admission_ceilings shapes[] = {
		{ 8, 2, 128, 16, 100, 32 },
		{ 3, 3, 7, 5, 100, 32 },
		{ 1, 1, 1, 1, 1, 1 },
		{ 64, 64, 4, 2, 100, 32 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		random_walk(&shapes[i], 4711 + (unsigned)i);
}

static void one_organisation_is_served_in_order(void **state)
{
	struct admission_ceilings lim = ADMISSION_DEFAULT;

	(void)state;
	lim.running_per_org = 1;
	reset(&lim);
	assert_int_equal(enter(&cmds[0], 0, 0), ADMISSION_RUN);
	for (int i = 1; i <= 16; i++) {
		assert_int_equal(enter(&cmds[i], 0, i % PLACES), ADMISSION_WAIT);
		assert_int_equal(admission_position(&cmds[i].item), i - 1);
	}
	assert_int_equal(enter(&cmds[17], 0, 1), ADMISSION_REFUSED);
	for (int i = 0; i < 16; i++) {
		admission_leave(&a, &cmds[i].item);
		assert_ptr_equal(next(), &cmds[i + 1]);
		assert_null(next());
	}
}

/* A crowd of one organisation does not make another one wait longer than a turn. */
static void organisations_take_turns(void **state)
{
	struct admission_ceilings lim = ADMISSION_DEFAULT;
	int served[ORGS] = { 0 };

	(void)state;
	lim.running = 1;
	reset(&lim);
	assert_int_equal(enter(&cmds[0], 0, 0), ADMISSION_RUN);
	for (int i = 1; i <= 12; i++)
		assert_int_equal(enter(&cmds[i], 0, i % PLACES), ADMISSION_WAIT);
	for (int i = 13; i <= 24; i++)
		assert_int_equal(enter(&cmds[i], 1 + i % 2, i % PLACES), ADMISSION_WAIT);
	struct cmd *running = &cmds[0];
	for (int i = 0; i < 18; i++) {
		admission_leave(&a, &running->item);
		running = next();
		assert_non_null(running);
		served[running->org]++;
		for (int o = 0; o < 3; o++)
			for (int p = 0; p < 3; p++)
				assert_true(abs(served[o] - served[p]) <= 1);
	}
}

static void a_blocked_organisation_keeps_its_place(void **state)
{
	struct admission_ceilings lim = ADMISSION_DEFAULT;

	(void)state;
	lim.running = 3;
	lim.running_per_org = 1;
	reset(&lim);
	assert_int_equal(enter(&cmds[0], 0, 0), ADMISSION_RUN);
	assert_int_equal(enter(&cmds[1], 0, 1), ADMISSION_WAIT); /* head of the line, at its ceiling */
	assert_int_equal(enter(&cmds[2], 1, 0), ADMISSION_RUN);
	assert_int_equal(enter(&cmds[3], 2, 0), ADMISSION_RUN);
	assert_int_equal(enter(&cmds[4], 3, 0), ADMISSION_WAIT);
	assert_int_equal(enter(&cmds[5], 4, 0), ADMISSION_WAIT);
	admission_leave(&a, &cmds[2].item);
	assert_ptr_equal(next(), &cmds[4]);
	admission_leave(&a, &cmds[0].item); /* both 0 and 4 could go: 0 waited longer */
	assert_ptr_equal(next(), &cmds[1]);
	assert_null(next());
}

static void a_workspace_runs_one_command_at_a_time(void **state)
{
	struct admission_ceilings lim = ADMISSION_DEFAULT;

	(void)state;
	reset(&lim);
	assert_int_equal(enter(&cmds[0], 0, 0), ADMISSION_RUN);
	assert_int_equal(enter(&cmds[1], 0, 0), ADMISSION_WAIT);
	assert_int_equal(enter(&cmds[2], 0, 1), ADMISSION_RUN); /* passes the blocked one */
	admission_leave(&a, &cmds[2].item);
	assert_null(next());
	admission_leave(&a, &cmds[0].item);
	assert_ptr_equal(next(), &cmds[1]);
}

static void who_gives_up_leaves_no_gap(void **state)
{
	struct admission_ceilings lim = ADMISSION_DEFAULT;

	(void)state;
	lim.running_per_org = 1;
	reset(&lim);
	enter(&cmds[0], 0, 0);
	for (int i = 1; i < 4; i++)
		enter(&cmds[i], 0, i);
	admission_leave(&a, &cmds[3].item); /* the tail */
	admission_leave(&a, &cmds[1].item); /* the head */
	enter(&cmds[4], 0, 4);
	admission_leave(&a, &cmds[0].item);
	assert_ptr_equal(next(), &cmds[2]);
	admission_leave(&a, &cmds[2].item);
	assert_ptr_equal(next(), &cmds[4]);
	admission_leave(&a, &cmds[4].item);
	assert_null(a.head);
	assert_null(a.tail);
	admission_leave(&a, &cmds[4].item); /* out already: harmless */
	assert_int_equal(a.running, 0);
}

static void lowered_ceilings_drain_without_evicting(void **state)
{
	struct admission_ceilings lim = ADMISSION_DEFAULT;

	(void)state;
	reset(&lim);
	enter(&cmds[0], 0, 0);
	enter(&cmds[1], 0, 1);
	enter(&cmds[2], 0, 2);
	a.ceilings.running_per_org = 1;
	admission_leave(&a, &cmds[0].item);
	assert_null(next());
	admission_leave(&a, &cmds[1].item);
	assert_ptr_equal(next(), &cmds[2]);
}

static void open_jobs_are_counted_per_organisation(void **state)
{
	struct admission_ceilings lim = ADMISSION_DEFAULT;

	(void)state;
	lim.jobs = 40;
	reset(&lim);
	for (int i = 0; i < 32; i++)
		assert_true(admission_job_open(&a, &orgs[0]));
	assert_false(admission_job_open(&a, &orgs[0]));
	for (int i = 0; i < 8; i++)
		assert_true(admission_job_open(&a, &orgs[1]));
	assert_false(admission_job_open(&a, &orgs[1]));
	admission_job_close(&a, &orgs[0]);
	assert_true(admission_job_open(&a, &orgs[1]));
}

static void a_position_is_who_waits_before(void **state)
{
	struct admission_ceilings lim = ADMISSION_DEFAULT;

	(void)state;
	lim.running_per_org = 1;
	reset(&lim);
	for (int i = 0; i < 4; i++)
		enter(&cmds[i], 0, i);
	assert_int_equal(admission_position(&cmds[0].item), 0); /* runs */
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(admission_position(&cmds[i].item), i - 1);
	admission_leave(&a, &cmds[2].item);
	assert_int_equal(admission_position(&cmds[2].item), 0); /* gave up, though two wait */
	assert_int_equal(admission_position(&cmds[3].item), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_never_pass_a_ceiling),
		cmocka_unit_test(one_organisation_is_served_in_order),
		cmocka_unit_test(organisations_take_turns),
		cmocka_unit_test(a_blocked_organisation_keeps_its_place),
		cmocka_unit_test(a_workspace_runs_one_command_at_a_time),
		cmocka_unit_test(who_gives_up_leaves_no_gap),
		cmocka_unit_test(lowered_ceilings_drain_without_evicting),
		cmocka_unit_test(open_jobs_are_counted_per_organisation),
		cmocka_unit_test(a_position_is_who_waits_before),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
