/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept output: whatever the chunks it comes in and the moments it is taken at,
 * what is kept is the first bytes up to the cap on a UTF-8 boundary, what was
 * taken is exactly that, and so is what was hashed (Q3, T1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/output.h"
#include "policy/cut.h"

enum { TEXT_MAX = 4000 };

static uint8_t text[TEXT_MAX], taken[TEXT_MAX];

static size_t make_text(void)
{
	static const char *const parts[] = { "a",  "\n", "\xc3\xa4", "\xe2\x82\xac",
					     "\xf0\x9f\x98\x80" };
	size_t len = 0, want = (size_t)(rand() % 400);
	int is_binary = rand() % 4 == 0;

	while (len < want) {
		const char *p = parts[rand() % 5];
		if (is_binary)
			text[len++] = (uint8_t)rand();
		else
			len += strlen(memcpy(text + len, p, strlen(p) + 1));
	}
	return len;
}

static void one_run(bool takes)
{
	struct output o;
	size_t len = make_text(), ntaken = 0, over = 0;
	uint64_t limit = (uint64_t)(1 + rand() % 300);
	uint8_t digest[DIGEST_LEN];

	assert_true(output_begin(&o, limit));
	for (size_t at = 0; at < len;) {
		size_t n = (size_t)(1 + rand() % (rand() % 3 ? 4 : 200));
		n = n < len - at ? n : len - at;
		over += output_add(&o, text + at, n);
		at += n;
		if (takes && rand() % 2)
			ntaken += output_take(&o, taken + ntaken, (size_t)(rand() % 64));
	}
	output_end(&o);
	ntaken += output_take(&o, taken + ntaken, sizeof(taken) - ntaken);
	size_t want = len <= limit ? len : cut_utf8(text, limit);
	assert_int_equal(ntaken, want);
	assert_int_equal(o.kept, want);
	assert_int_equal(over, len > limit);
	assert_int_equal(o.is_truncated, len > limit);
	assert_memory_equal(taken, text, want);
	digest_sha256(text, want, digest);
	assert_memory_equal(o.digest, digest, DIGEST_LEN);
	output_done(&o);
}

static void what_is_kept_does_not_depend_on_how_it_comes(void **state)
{
	(void)state;
	srand(11);
	for (int i = 0; i < 20000; i++)
		one_run(i % 2);
}

static void nothing_after_the_cut_is_kept(void **state)
{
	struct output o;

	(void)state;
	assert_true(output_begin(&o, 4));
	assert_false(output_add(&o, (const uint8_t *)"abcd", 4));
	assert_false(o.is_truncated); /* exactly the cap is not beyond it */
	assert_true(output_add(&o, (const uint8_t *)"e", 1));
	assert_false(output_add(&o, (const uint8_t *)"f", 1)); /* told once */
	assert_int_equal(o.kept, 4);
	output_end(&o);
	assert_false(output_add(&o, (const uint8_t *)"g", 1));
	assert_int_equal(output_ready(&o), 4);
	output_done(&o);
}

static void memory_stays_flat_while_someone_takes(void **state)
{
	struct output o;
	uint8_t chunk[4096] = { 'x' };

	(void)state;
	assert_true(output_begin(&o, 1ull << 30));
	for (int i = 0; i < 20000; i++) {
		output_add(&o, chunk, sizeof(chunk));
		while (output_take(&o, taken, sizeof(taken)) > 0)
			;
	}
	assert_true(o.cap <= 2 * sizeof(chunk));
	output_done(&o);
}

static void the_last_bytes_before_the_cap_wait(void **state)
{
	struct output o;

	(void)state;
	assert_true(output_begin(&o, 4));
	output_add(&o, (const uint8_t *)"abc\xe2", 4);
	assert_int_equal(output_ready(&o), 3); /* it may have to be cut */
	output_end(&o);
	assert_int_equal(output_ready(&o), 4); /* nothing came: it stays, whatever it is */
	output_done(&o);
	assert_true(output_begin(&o, 100));
	output_add(&o, (const uint8_t *)"abc\xe2", 4);
	assert_int_equal(output_ready(&o), 4); /* far from the cap nothing waits */
	output_done(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_does_not_depend_on_how_it_comes),
		cmocka_unit_test(nothing_after_the_cut_is_kept),
		cmocka_unit_test(memory_stays_flat_while_someone_takes),
		cmocka_unit_test(the_last_bytes_before_the_cap_wait),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
