/* SPDX-License-Identifier: Apache-2.0 */
/* Each line of ledger's confinement, held against the kernel. */
#include "tests/unit/confine_table.h"

#include "ledger/privileges.h"

static void the_ledgers_table_holds(void **state)
{
	(void)state;
	hold_table(&ledger_confinement);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(the_ledgers_table_holds),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
