/* SPDX-License-Identifier: Apache-2.0 */
/* A7's sixty seconds, and what happens when the places are taken. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "ledger/suppress.h"

static void key_of(uint32_t n, uint8_t key[SUPPRESS_KEY])
{
	for (int i = 0; i < SUPPRESS_KEY; i++)
		key[i] = (uint8_t)((n + 1) * 2654435761u >> (i % 4 * 8)) ^ (uint8_t)(i * 17);
	memcpy(key + 8, &n, sizeof(n));
}

static void a_repetition_is_suppressed_for_sixty_seconds_from_the_one_written(void **state)
{
	autofree struct suppress *s = calloc(1, sizeof(*s));
	uint8_t key[SUPPRESS_KEY];

	(void)state;
	key_of(1, key);
	assert_false(suppress_check(s, key, 1000));
	assert_true(suppress_check(s, key, 1000));
	assert_true(suppress_check(s, key, 1000 + SUPPRESS_MS - 1));
	assert_false(suppress_check(s, key, 1000 + SUPPRESS_MS)); /* repetitions did not prolong it */
	assert_true(suppress_check(s, key, 1001 + SUPPRESS_MS));
}

static void another_key_is_written(void **state)
{
	autofree struct suppress *s = calloc(1, sizeof(*s));
	uint8_t key[SUPPRESS_KEY];

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		key_of(i, key);
		assert_false(suppress_check(s, key, 5));
	}
	for (uint32_t i = 0; i < 1000; i++) {
		key_of(i, key);
		assert_true(suppress_check(s, key, 6));
		key[15] ^= 1;
		assert_false(suppress_check(s, key, 6));
	}
}

static void full_means_written_never_lost(void **state)
{
	autofree struct suppress *s = calloc(1, sizeof(*s));
	uint8_t key[SUPPRESS_KEY];
	uint32_t repeated = 0;

	(void)state;
	for (uint32_t i = 0; i < 4 * SUPPRESS_SLOTS; i++) {
		key_of(i, key);
		assert_false(suppress_check(s, key, 5)); /* each is new, so each is written */
	}
	for (uint32_t i = 0; i < 4 * SUPPRESS_SLOTS; i++) {
		key_of(i, key);
		repeated += suppress_check(s, key, 6);
	}
	assert_true(repeated > SUPPRESS_SLOTS / 2 && repeated <= SUPPRESS_SLOTS);
	key_of(99999999, key);
	assert_false(suppress_check(s, key, 5 + 2 * SUPPRESS_MS)); /* and the places come back */
	assert_true(suppress_check(s, key, 6 + 2 * SUPPRESS_MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_repetition_is_suppressed_for_sixty_seconds_from_the_one_written),
		cmocka_unit_test(another_key_is_written),
		cmocka_unit_test(full_means_written_never_lost),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
