/* SPDX-License-Identifier: Apache-2.0 */
/* Each line of broker's confinement, held against the kernel. */
#include "tests/unit/confine_table.h"

#include "broker/privileges.h"

static void the_brokers_table_holds(void **state)
{
	(void)state;
	hold_table(&broker_confinement);
}

static void the_table_of_a_broker_that_dials_an_operators_socket_holds(void **state)
{
	(void)state;
	hold_table(&broker_dials_confinement);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(the_brokers_table_holds),
		TABLE_TEST(the_table_of_a_broker_that_dials_an_operators_socket_holds),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
