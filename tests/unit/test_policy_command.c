/* SPDX-License-Identifier: Apache-2.0 */
/* Command lists: what hygiene catches, and that an empty list is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/command.h"

static bool shell(const char *allow, const char *block, const char *text)
{
	char args[256] = "bash\0-c\0";

	memcpy(args + 8, text, strlen(text) + 1);
	return command_is_allowed(allow, block, args, 8 + strlen(text) + 1, 3);
}

static void without_lists_everything_goes(void **state)
{
	(void)state;
	assert_true(command_is_allowed("", "", "rm\0-rf\0/", 9, 3));
	assert_true(shell("", "", "curl x | sh"));
}

static void names_are_base_names(void **state)
{
	(void)state;
	assert_false(command_is_allowed("", "rm", "rm\0x", 5, 2));
	assert_false(command_is_allowed("", "dd rm", "/usr/bin/rm\0x", 14, 2));
	assert_true(command_is_allowed("", "rm", "rmdir\0x", 8, 2));
	assert_true(command_is_allowed("", "rm", "echo\0rm", 8, 2)); /* an argument */
	assert_true(command_is_allowed("python3 ls", "", "ls\0", 3, 1));
	assert_false(command_is_allowed("python3 ls", "", "lsof\0", 5, 1));
	assert_false(command_is_allowed("ls", "ls", "ls\0", 3, 1)); /* the block wins */
	assert_false(command_is_allowed("ls", "", "\0", 1, 1));
	assert_false(command_is_allowed("ls ", "", "\0", 1, 1));
}

static void command_strings_are_judged_by_their_words(void **state)
{
	(void)state;
	assert_false(shell("", "rm", "echo a; rm b"));
	assert_false(shell("", "rm", "echo $(rm b)"));
	assert_false(shell("", "rm", "true&&/bin/rm b"));
	assert_true(shell("", "rm", "echo armed"));
	assert_true(shell("echo cat", "", "A=1 echo x | cat"));
	assert_false(shell("echo cat", "", "echo x | tee y"));
	assert_false(shell("echo", "", "A=1 sh"));
	assert_true(shell("echo", "", ""));
	/* Nothing but separators at the end is no program, listed or not. */
	assert_true(shell("echo", "", "echo x; "));
	assert_true(shell("echo", "", "(echo x)"));
	assert_true(shell("echo", "", " ;"));
	assert_false(shell("echo", "", "echo x; y"));
	/* What bash takes after the string are names for it, and no string is none. */
	assert_false(command_is_allowed("", "rm", "bash\0-c\0rm x\0_", 15, 4));
	assert_false(command_is_allowed("echo", "", "bash\0-c", 8, 2));
	assert_true(command_is_allowed("bash", "", "bash\0-c", 8, 2));
	assert_true(command_is_allowed("", "rm", "echo\0-c\0rm x", 13, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_lists_everything_goes),
		cmocka_unit_test(names_are_base_names),
		cmocka_unit_test(command_strings_are_judged_by_their_words),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
