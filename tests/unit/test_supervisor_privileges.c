/* SPDX-License-Identifier: Apache-2.0 */
/* Each line of supervisor's confinement, held against the kernel. */
#include "tests/unit/confine_table.h"

#include "supervisor/privileges.h"

static void cordonds_table_holds(void **state)
{
	(void)state;
	hold_table(&supervisor_confinement);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(cordonds_table_holds),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
