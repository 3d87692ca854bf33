/* SPDX-License-Identifier: Apache-2.0 */
/* Each line of gateway's confinement, held against the kernel. */
#include "tests/unit/confine_table.h"

#include "gateway/privileges.h"

static void the_gateways_table_holds(void **state)
{
	(void)state;
	hold_table(&gateway_confinement);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(the_gateways_table_holds),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
