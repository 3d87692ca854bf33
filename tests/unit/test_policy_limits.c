/* SPDX-License-Identifier: Apache-2.0 */
/* Q1 and Q4's numbers, and the exact forms of SIZE and decimals. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "policy/limits.h"
#include "policy/reason.h"

static const struct limits dflt = LIMITS_DEFAULT;
static const struct limits max = { .memory_bytes = 2048ull << 20, .workspace_bytes = 512ull << 20,
				   .output_bytes = 2 << 20, .timeout_ms = 600000, .cpu_milli = 2000, .pids = 512 };

static void what_is_not_asked_for_is_the_default(void **s)
{
	struct limits none = { 0 }, out;
	struct err e;

	(void)s;
	assert_int_equal(limits_resolve(&none, &dflt, &max, &out, &e), 0);
	assert_memory_equal(&out, &dflt, sizeof(out));
	assert_int_equal(out.memory_bytes, 1ull << 30);
	assert_int_equal(out.timeout_ms, 120000);
	assert_int_equal(out.pids, 256);
	assert_int_equal(out.cpu_milli, 1000);
	assert_int_equal(out.output_bytes, 1 << 20);
	assert_int_equal(out.workspace_bytes, 256 << 20);
}

static void each_limit_above_its_maximum_is_refused_by_name(void **s)
{
	static const struct {
		struct limits asked;
		const char *name;
	} rows[] = {
		{ { .memory_bytes = (2048ull << 20) + 1 }, "memory_bytes 2147483649 is above 2147483648" },
		{ { .workspace_bytes = (512ull << 20) + 1 }, "workspace_bytes" },
		{ { .output_bytes = UINT64_MAX }, "output_bytes 18446744073709551615 is above 2097152" },
		{ { .timeout_ms = 600001 }, "timeout_ms" },
		{ { .cpu_milli = 2001 }, "cpu_milli" },
		{ { .pids = UINT32_MAX }, "pids 4294967295 is above 512" },
	};
	struct limits out = { .pids = 77 };
	struct err e;

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(limits_resolve(&rows[i].asked, &dflt, &max, &out, &e),
				 -REASON_LIMIT_ABOVE_MAXIMUM);
		assert_int_equal(e.code, REASON_LIMIT_ABOVE_MAXIMUM);
		assert_non_null(strstr(e.msg, rows[i].name));
		assert_int_equal(out.pids, 77);
	}
	assert_int_equal(limits_resolve(&max, &dflt, &max, &out, &e), 0);
}

static void what_no_sandbox_can_start_with_is_refused(void **s)
{
	static const struct limits rows[] = { { .memory_bytes = 1 }, { .workspace_bytes = 1 }, { .cpu_milli = 1 } };
	struct limits out;
	struct err e;

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(limits_resolve(&rows[i], &dflt, &max, &out, &e), -REASON_INVALID_REQUEST);
	assert_int_equal(limits_resolve(&(struct limits){ .output_bytes = 1, .timeout_ms = 1 }, &dflt, &max, &out, &e),
			 0);
	assert_int_equal(out.output_bytes, 1);
	assert_int_equal(out.timeout_ms, 1);
}

static void a_default_above_the_maximum_is_narrowed(void **s)
{
	struct limits none = { 0 }, small = max, out;
	struct err e;

	(void)s;
	small.pids = 10;
	assert_int_equal(limits_resolve(&none, &dflt, &small, &out, &e), 0);
	assert_int_equal(out.pids, 10);
}

static void the_hard_limit_is_quota_and_a_margin(void **s)
{
	(void)s;
	assert_int_equal(limits_workspace_hard_bytes(0), 8 << 20);
	assert_int_equal(limits_workspace_hard_bytes(128 << 20), 136 << 20);
	assert_int_equal(limits_workspace_hard_bytes(256 << 20), 272 << 20);
	assert_int_equal(limits_workspace_hard_bytes(16ull << 30), 17ull << 30);
	assert_true(limits_workspace_hard_bytes(UINT64_MAX) == UINT64_MAX);
	assert_true(limits_workspace_hard_bytes(UINT64_MAX - UINT64_MAX / 16) > UINT64_MAX - UINT64_MAX / 16);
	assert_int_equal(limits_workspace_inodes(1), 1024);
	assert_int_equal(limits_workspace_inodes(1024 * 8192), 1024);
	assert_int_equal(limits_workspace_inodes(1025 * 8192), 1025);
	assert_true(limits_workspace_inodes(1ull << 30) > limits_workspace_inodes(1 << 20));
}

static void sizes_are_read_exactly(void **s)
{
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = { { "0", 0 }, { "1", 1 }, { "1024", 1024 }, { "64K", 65536 }, { "1M", 1 << 20 }, { "3G", 3ull << 30 },
		     { "007", 7 }, { "18446744073709551615", UINT64_MAX }, { "17179869183G", 17179869183ull << 30 } };
	static const char *const bad[] = { "", "K", "1k", "1KB", "1 K", " 1", "1 ", "+1", "-1", "1.5M", "0x10", "1e3",
					   "18446744073709551616", "17179869184G", "1T", "1KK", "١", "99999999999999999999999" };
	uint64_t v = 77;

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (limits_parse_size(bad[i], &v) != -EINVAL || v != 77)
			fail_msg("accepted '%s'", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(limits_parse_size(good[i].text, &v), 0);
		assert_true(v == good[i].want);
	}
}

static void decimals_are_read_to_a_thousandth(void **s)
{
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = { { "0", 0 }, { "1", 1000 }, { "0.5", 500 }, { "1.25", 1250 }, { "0.001", 1 }, { "2.000", 2000 },
		     { "120", 120000 }, { "18446744073709551.615", UINT64_MAX } };
	static const char *const bad[] = { "", ".", ".5", "1.", "1.2345", "1..2", "1.2.3", "-1", "+1", " 1", "1 ", "1s",
					   "1e3", "inf", "nan", "0x1", "18446744073709551.616", "18446744073709552", "1,5" };
	uint64_t v = 77;

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (limits_parse_milli(bad[i], &v) != -EINVAL || v != 77)
			fail_msg("accepted '%s'", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(limits_parse_milli(good[i].text, &v), 0);
		assert_true(v == good[i].want);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_asked_for_is_the_default),
		cmocka_unit_test(each_limit_above_its_maximum_is_refused_by_name),
		cmocka_unit_test(what_no_sandbox_can_start_with_is_refused),
		cmocka_unit_test(a_default_above_the_maximum_is_narrowed),
		cmocka_unit_test(the_hard_limit_is_quota_and_a_margin),
		cmocka_unit_test(sizes_are_read_exactly),
		cmocka_unit_test(decimals_are_read_to_a_thousandth),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
