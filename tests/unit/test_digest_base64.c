/* SPDX-License-Identifier: Apache-2.0 */
/* base64 and base64url: RFC 4648's vectors, and one text per byte string. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "digest/base64.h"

static void published_vectors_encode_and_decode(void **s)
{
	static const struct {
		const char *plain, *padded, *url;
	} rows[] = {
		{ "", "", "" },
		{ "f", "Zg==", "Zg" },
		{ "fo", "Zm8=", "Zm8" },
		{ "foo", "Zm9v", "Zm9v" },
		{ "foob", "Zm9vYg==", "Zm9vYg" },
		{ "fooba", "Zm9vYmE=", "Zm9vYmE" },
		{ "foobar", "Zm9vYmFy", "Zm9vYmFy" },
		{ "\xff\xfe\xff", "//7/", "__7_" },
		{ "\xfb\xef\xbe", "++++", "----" },
	};
	char text[32];
	uint8_t back[32];

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = strlen(rows[i].plain);
		assert_int_equal(base64_encode(rows[i].plain, n, text), strlen(rows[i].padded));
		assert_string_equal(text, rows[i].padded);
		assert_int_equal(base64_decode(text, strlen(text), back, sizeof(back)), n);
		assert_memory_equal(back, rows[i].plain, n);
		assert_int_equal(base64url_encode(rows[i].plain, n, text), strlen(rows[i].url));
		assert_string_equal(text, rows[i].url);
		assert_int_equal(base64url_decode(text, strlen(text), back, sizeof(back)), n);
		assert_memory_equal(back, rows[i].plain, n);
	}
}

static void loose_text_is_refused(void **s)
{
	static const char *const bad[] = { "Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm9v=",
					   "====", "Zm 9", "Zm9v\n", "__7_", "=Zg=", "Zg=a" };
	static const char *const bad_url[] = { "Z", "Zg==", "Zh", "Zm9", "//7/", "Zm9v\n", "Zm9vY", "Z.g" };
	uint8_t out[8];

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(base64_decode(bad[i], strlen(bad[i]), out, sizeof(out)), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(bad_url); i++)
		assert_int_equal(base64url_decode(bad_url[i], strlen(bad_url[i]), out, sizeof(out)),
				 -EINVAL);
}

/* Whatever two characters decode to is what encodes back to exactly them. */
static void every_short_text_decodes_to_one_encoding(void **s)
{
	char text[3] = "", again[8];
	uint8_t out[4];
	int accepted = 0;

	(void)s;
	for (int a = 1; a < 256; a++)
		for (int b = 1; b < 256; b++) {
			text[0] = (char)a;
			text[1] = (char)b;
			ssize_t n = base64url_decode(text, 2, out, sizeof(out));
			if (n < 0)
				continue;
			assert_int_equal(n, 1);
			base64url_encode(out, (size_t)n, again);
			assert_string_equal(again, text);
			accepted++;
		}
	assert_int_equal(accepted, 256);
}

static void a_small_buffer_is_never_overrun(void **s)
{
	uint8_t out[3] = { 0, 0, 0xee };

	(void)s;
	assert_int_equal(base64_decode("Zm9v", 4, out, 2), -ENOSPC);
	assert_int_equal(out[2], 0xee);
	assert_int_equal(base64url_decode("Zm8", 3, out, 2), 2);
	assert_int_equal(out[2], 0xee);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors_encode_and_decode),
		cmocka_unit_test(loose_text_is_refused),
		cmocka_unit_test(every_short_text_decodes_to_one_encoding),
		cmocka_unit_test(a_small_buffer_is_never_overrun),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
