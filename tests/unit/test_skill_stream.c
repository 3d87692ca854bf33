/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a skill's stream: what is written is read, and no byte has two meanings (K2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "skill/stream.h"

/* Where the format puts them; skill/stream.h has the layout. */
enum { AT_EXEC = 1, AT_ZERO = 4 };

static const struct stream_record good[] = {
	{ STREAM_FILE, false, 1, 0, { 1 } },
	{ STREAM_FILE, true, 0x1234, SKILL_FILE_MAX, { [SKILL_SHA - 1] = 7 } },
	{ STREAM_LINK, false, 3, SKILL_PATH_MAX, { 2 } },
	{ STREAM_END, false, 0, 3, { 0 } },
};

static const struct {
	struct stream_record record;
	const char *fault;
} bad[] = {
	{ { STREAM_FILE, false, 1, SKILL_FILE_MAX + 1, { 0 } }, "a file has more than 4 GiB" },
	{ { STREAM_LINK, false, 1, SKILL_PATH_MAX + 1, { 0 } }, "malformed link" },
	{ { STREAM_LINK, true, 1, 1, { 0 } }, "malformed link" },
	{ { STREAM_END, true, 0, 0, { 0 } }, "malformed end" },
	{ { STREAM_END, false, 1, 0, { 0 } }, "malformed end" },
	{ { STREAM_END, false, 0, 0, { [SKILL_SHA - 1] = 1 } }, "malformed end" },
	{ { 0, false, 1, 0, { 0 } }, "unknown record" },
	{ { STREAM_LINK + 1, false, 1, 0, { 0 } }, "unknown record" },
};

static void a_record_is_read_as_it_was_written(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint8_t bytes[STREAM_RECORD_LEN];
		struct stream_record back;

		stream_write_record(&good[i], bytes);
		assert_null(stream_read_record(bytes, &back));
		assert_int_equal(back.kind, good[i].kind);
		assert_int_equal(back.is_exec, good[i].is_exec);
		assert_int_equal(back.path_len, good[i].path_len);
		assert_int_equal(back.size, good[i].size);
		assert_memory_equal(back.sha256, good[i].sha256, SKILL_SHA);
	}
}

static void a_record_that_says_too_much_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint8_t bytes[STREAM_RECORD_LEN];
		struct stream_record back;

		stream_write_record(&bad[i].record, bytes);
		const char *fault = stream_read_record(bytes, &back);
		if (!fault || strcmp(fault, bad[i].fault) != 0)
			fail_msg("case %zu: %s", i, fault ? fault : "accepted");
	}
}

static void unused_bytes_are_zero(void **state)
{
	uint8_t bytes[STREAM_RECORD_LEN];
	struct stream_record back;

	(void)state;
	for (size_t at = AT_ZERO; at < AT_ZERO + 4; at++) {
		stream_write_record(&good[0], bytes);
		bytes[at] = 1;
		assert_string_equal(stream_read_record(bytes, &back), "malformed record");
	}
	stream_write_record(&good[0], bytes);
	bytes[AT_EXEC] = 2;
	assert_string_equal(stream_read_record(bytes, &back), "malformed record");
}

static void the_beginning_names_the_format_and_a_slug(void **state)
{
	uint8_t bytes[STREAM_BEGIN_LEN];
	size_t len;

	(void)state;
	stream_write_begin(SKILL_SLUG_MAX, bytes);
	assert_memory_equal(bytes, "CORDSKL1\0\xff", STREAM_BEGIN_LEN);
	assert_null(stream_read_begin(bytes, &len));
	assert_int_equal(len, SKILL_SLUG_MAX);
	stream_write_begin(SKILL_SLUG_MAX + 1, bytes);
	assert_string_equal(stream_read_begin(bytes, &len), "no slug");
	stream_write_begin(0, bytes);
	assert_string_equal(stream_read_begin(bytes, &len), "no slug");
	stream_write_begin(1, bytes);
	bytes[7] = '2';
	assert_string_equal(stream_read_begin(bytes, &len), "not a skill's stream");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_is_read_as_it_was_written),
		cmocka_unit_test(a_record_that_says_too_much_is_refused),
		cmocka_unit_test(unused_bytes_are_zero),
		cmocka_unit_test(the_beginning_names_the_format_and_a_slug),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("skill_stream", tests, NULL, NULL);
}
