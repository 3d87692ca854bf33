/* SPDX-License-Identifier: Apache-2.0 */
/* Each line of skills's confinement, held against the kernel. */
#include "tests/unit/confine_table.h"

#include "fuse-skills/privileges.h"

static void the_keepers_table_holds(void **state)
{
	(void)state;
	hold_table(&keeper_privileges);
}

static void the_servers_table_holds(void **state)
{
	(void)state;
	hold_table(&server_privileges);
}

static void the_stagers_table_holds(void **state)
{
	(void)state;
	hold_table(&stager_privileges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(the_keepers_table_holds),
		TABLE_TEST(the_servers_table_holds),
		TABLE_TEST(the_stagers_table_holds),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
