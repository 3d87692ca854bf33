/* SPDX-License-Identifier: Apache-2.0 */
/* The error type: set, wrapped, never overrun, never a success. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void setting_gives_the_negative_code(void **s)
{
	struct err e;

	(void)s;
	assert_int_equal(err_set(&e, ENOENT, "open '%s'", "x"), -ENOENT);
	assert_int_equal(e.code, ENOENT);
	assert_string_equal(e.msg, "open 'x'");
	assert_int_equal(err_set(NULL, EPERM, "nobody listens"), -EPERM);
}

static void a_failure_is_never_a_success(void **s)
{
	struct err e;

	(void)s;
	assert_int_equal(err_set(&e, 0, "no code"), -EIO);
	assert_int_equal(e.code, EIO);
}

static void wrapping_puts_the_place_before_and_keeps_the_code(void **s)
{
	struct err e;

	(void)s;
	err_set(&e, EACCES, "denied");
	assert_int_equal(err_wrap(&e, "policy"), -EACCES);
	assert_string_equal(e.msg, "policy: denied");
}

static void long_words_are_cut_never_lost(void **s)
{
	struct err e;
	char text[2 * ERR_MSG_MAX];

	(void)s;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	err_set(&e, EINVAL, "%s", text);
	assert_int_equal(strlen(e.msg), ERR_MSG_MAX - 1);
	for (int i = 0; i < 100; i++)
		assert_int_equal(err_wrap(&e, "again and again"), -EINVAL);
	assert_int_equal(strlen(e.msg), ERR_MSG_MAX - 1);
	assert_memory_equal(e.msg, "again and again: again", 22);
}

static void it_fits_one_atomic_pipe_write(void **s)
{
	(void)s;
	assert_true(sizeof(struct err) <= 512);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(setting_gives_the_negative_code),
		cmocka_unit_test(a_failure_is_never_a_success),
		cmocka_unit_test(wrapping_puts_the_place_before_and_keeps_the_code),
		cmocka_unit_test(long_words_are_cut_never_lost),
		cmocka_unit_test(it_fits_one_atomic_pipe_write),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
