/* SPDX-License-Identifier: Apache-2.0 */
/* Each line of worker's confinement, held against the kernel. */
#include "tests/unit/confine_table.h"

#include "worker/privileges.h"

static void the_workers_table_holds(void **state)
{
	(void)state;
	hold_table(&worker_privileges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(the_workers_table_holds),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
