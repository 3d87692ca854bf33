/* SPDX-License-Identifier: Apache-2.0 */
/* Each line of the verifier's confinement, held against the kernel. */
#include "tests/unit/confine_table.h"

#include "verify/privileges.h"

static void the_verifiers_table_holds(void **state)
{
	(void)state;
	hold_table(&verify_confinement);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(the_verifiers_table_holds),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
