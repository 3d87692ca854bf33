/* SPDX-License-Identifier: Apache-2.0 */
/* A room's registration: whose token opens it, and from when to when (E5, E7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/room.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static struct rooms rooms;

static struct g_register registration(const char *token)
{
	struct g_register g = { .tier = EGRESS_TIER_DEFAULT_INTERNET };

	strcpy(g.token, token);
	return g;
}

static struct room *open_room(uint64_t slot)
{
	struct room *r = NULL;
	struct err e;

	assert_int_equal(rooms_add(&rooms, slot, &r, &e), 0);
	return r;
}

static void a_token_opens_its_room_while_it_is_registered(void **state)
{
	struct g_register g = registration(TOKEN);
	struct room *mine = open_room(1), *other = open_room(2);
	struct err e;

	(void)state;
	assert_null(room_policy(mine, TOKEN));
	assert_int_equal(room_register(&rooms, mine, &g, "", 0, &e), 0);
	assert_non_null(room_policy(mine, TOKEN));
	assert_null(room_policy(other, TOKEN));
	assert_null(room_policy(mine, TOKEN "0"));
	assert_null(room_policy(mine, ""));
	assert_true(rooms_know_token(&rooms, TOKEN));
	room_unregister(mine);
	assert_null(room_policy(mine, TOKEN));
	assert_false(rooms_know_token(&rooms, TOKEN));
	rooms_remove(&rooms, mine);
	rooms_remove(&rooms, other);
}

static void a_room_is_registered_once_and_a_token_in_one_room(void **state)
{
	struct g_register g = registration(TOKEN), h = registration(TOKEN "0");
	struct room *mine = open_room(1), *other = open_room(2);
	struct err e;

	(void)state;
	assert_int_equal(room_register(&rooms, mine, &g, "", 0, &e), 0);
	assert_true(room_register(&rooms, mine, &h, "", 0, &e) < 0);
	assert_true(room_register(&rooms, other, &g, "", 0, &e) < 0);
	assert_int_equal(room_register(&rooms, other, &h, "", 0, &e), 0);
	rooms_remove(&rooms, mine);
	rooms_remove(&rooms, other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_opens_its_room_while_it_is_registered),
		cmocka_unit_test(a_room_is_registered_once_and_a_token_in_one_room),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
