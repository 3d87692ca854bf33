/* SPDX-License-Identifier: Apache-2.0 */
/* One key of a configuration text replaced, the rest kept byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "image/pin.h"

struct row {
	const char *text, *want;
};

static void key_is_set_and_the_rest_kept(void **state)
{
	static const struct row rows[] = {
		{ "", "image = X\n" },
		{ "a = 1\n", "a = 1\nimage = X\n" },
		{ "a = 1", "a = 1\nimage = X\n" },
		{ "image = old\n", "image = X\n" },
		{ "image=old", "image = X\n" },
		{ "  image\t=old # note\nb = 2\n", "image = X\nb = 2\n" },
		{ "# image = old\n", "# image = old\nimage = X\n" },
		{ "image_store = /s\n", "image_store = /s\nimage = X\n" },
		{ "image\n", "image\nimage = X\n" },
		{ "image = 1\n\nimage = 2\n", "image = X\n\n" },
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = pin_set_key(rows[i].text, strlen(rows[i].text), "image", "X", out,
				       sizeof(out));
		assert_string_equal(out, rows[i].want);
		assert_int_equal(n, strlen(rows[i].want));
	}
}

static void pinning_twice_is_pinning_once(void **state)
{
	static const char text[] = "rollout = on\n# image\nimage = old\npool = 2\n";
	char one[256], two[256];

	(void)state;
	size_t n = pin_set_key(text, strlen(text), "image", "X", one, sizeof(one));
	size_t m = pin_set_key(one, n, "image", "X", two, sizeof(two));
	assert_int_equal(n, m);
	assert_string_equal(one, two);
}

static void too_little_room_is_said_and_never_overrun(void **state)
{
	static const char text[] = "a = 1\nimage = old\nb = 2\n";
	char out[64];

	(void)state;
	for (size_t size = 0; size <= strlen("a = 1\nimage = X\nb = 2\n"); size++) {
		memset(out, 0x55, sizeof(out));
		assert_int_equal(pin_set_key(text, strlen(text), "image", "X", out, size), 0);
		for (size_t i = size; i < sizeof(out); i++)
			assert_int_equal(out[i], 0x55);
	}
	assert_true(pin_set_key(text, strlen(text), "image", "X", out,
				sizeof("a = 1\nimage = X\nb = 2\n")) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_is_set_and_the_rest_kept),
		cmocka_unit_test(pinning_twice_is_pinning_once),
		cmocka_unit_test(too_little_room_is_said_and_never_overrun),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("image/pin", tests, NULL, NULL);
}
