/* SPDX-License-Identifier: Apache-2.0 */
/* When the pool is filled: every number of spare slots, with and without a command that starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "worker/pool.h"

enum { EVENT_NS = 5000, QUIET_NS = POOL_QUIET_MS * 1000000 };

static uint64_t when(unsigned size, unsigned spare, bool is_launching, uint64_t retry_ns)
{
	const struct pool_state p = { size, spare, is_launching, EVENT_NS, retry_ns };

	return pool_refill_ns(&p);
}

static void a_full_pool_gets_none(void **state)
{
	(void)state;
	for (unsigned size = 0; size < 9; size++)
		for (unsigned over = 0; over < 3; over++) {
			assert_true(when(size, size + over, false, 0) == POOL_NOT_NOW);
			assert_true(when(size, size + over, true, 0) == POOL_NOT_NOW);
		}
}

static void an_empty_pool_waits_for_nobody(void **state)
{
	(void)state;
	for (unsigned size = 1; size < 9; size++) {
		assert_int_equal(when(size, 0, true, 0), 0);
		assert_int_equal(when(size, 0, false, 0), 0);
	}
}

static void a_command_that_starts_comes_before_the_pool(void **state)
{
	(void)state;
	for (unsigned size = 2; size < 9; size++)
		for (unsigned spare = 1; spare < size; spare++)
			assert_true(when(size, spare, true, 0) == POOL_NOT_NOW);
}

static void half_a_pool_waits_for_a_quiet_moment(void **state)
{
	(void)state;
	for (unsigned size = 2; size < 9; size++)
		for (unsigned spare = 1; spare < size; spare++)
			assert_int_equal(when(size, spare, false, 0),
					 spare * 2 < size ? 0 : EVENT_NS + QUIET_NS);
}

static void a_slot_that_could_not_be_made_is_not_tried_at_once(void **state)
{
	const uint64_t retry = EVENT_NS + 2ull * QUIET_NS;

	(void)state;
	for (unsigned size = 1; size < 9; size++)
		for (unsigned spare = 0; spare < size; spare++)
			assert_true(when(size, spare, false, retry) == retry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_pool_gets_none),
		cmocka_unit_test(an_empty_pool_waits_for_nobody),
		cmocka_unit_test(a_command_that_starts_comes_before_the_pool),
		cmocka_unit_test(half_a_pool_waits_for_a_quiet_moment),
		cmocka_unit_test(a_slot_that_could_not_be_made_is_not_tried_at_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
