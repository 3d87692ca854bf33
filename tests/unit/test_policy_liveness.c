/* SPDX-License-Identifier: Apache-2.0 */
/* A run's record, judged for a session (S5): every combination of what may be said. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/scope.h"
#include "policy/liveness.h"

static const char *const states[] = { NULL, "",	     "alive",  "archived", "gone",
				      "Alive", "alive ", "alivex", "GONE",     "running" };
static const char *const owners[] = { NULL, "", "me", "else", "me ", "Me" };

static bool is(const char *a, const char *b)
{
	return a && strcmp(a, b) == 0;
}

static bool is_other(const char *a)
{
	return a && *a && !is(a, "me");
}

static void a_run_lives_for_its_owners_alone(void **state)
{
	(void)state;
	for (size_t s = 0; s < ARRAY_SIZE(states); s++)
		for (size_t o = 0; o < ARRAY_SIZE(owners); o++)
			for (size_t u = 0; u < ARRAY_SIZE(owners); u++) {
				const struct liveness_record r = { states[s], owners[o], owners[u] };
				bool lives = is(r.state, "alive") || is(r.state, "archived");
				bool mine = is(r.org_id, "me") && is(r.user_id, "me");
				assert_int_equal(liveness_judge(&r, "me", "me") == LIVENESS_ALIVE,
						 lives && mine);
			}
}

static void only_the_exact_word_ends_a_job(void **state)
{
	(void)state;
	for (size_t s = 0; s < ARRAY_SIZE(states); s++)
		for (size_t o = 0; o < ARRAY_SIZE(owners); o++)
			for (size_t u = 0; u < ARRAY_SIZE(owners); u++) {
				const struct liveness_record r = { states[s], owners[o], owners[u] };
				bool other = is_other(r.org_id) || is_other(r.user_id);
				enum liveness v = liveness_judge(&r, "me", "me");
				assert_int_equal(v == LIVENESS_GONE, is(r.state, "gone") && !other);
				if (v == LIVENESS_FOREIGN)
					assert_true(other);
			}
}

static void nothing_follows_from_what_is_not_said(void **state)
{
	static const struct liveness_record records[] = {
		{ NULL, "me", "me" },	 { "", "me", "me" },	 { "Alive", "me", "me" },
		{ "alive", NULL, "me" }, { "alive", "me", NULL }, { "archived", "", "me" },
		{ "alive", "me", "" },	 { "running", "else", "else" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		assert_int_equal(liveness_judge(&records[i], "me", "me"), LIVENESS_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_lives_for_its_owners_alone),
		cmocka_unit_test(only_the_exact_word_ends_a_job),
		cmocka_unit_test(nothing_follows_from_what_is_not_said),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
