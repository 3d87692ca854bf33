/* SPDX-License-Identifier: Apache-2.0 */
/* One event is one line, whatever it quotes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

/* What @say writes to standard error. */
static size_t caught(void (*say)(const char *), const char *text, char *out, size_t cap)
{
	int p[2], old = dup(STDERR_FILENO);

	assert_int_equal(pipe(p), 0);
	dup2(p[1], STDERR_FILENO);
	close(p[1]);
	say(text);
	dup2(old, STDERR_FILENO);
	close(old);
	size_t n = (size_t)read(p[0], out, cap - 1);
	close(p[0]);
	out[n] = '\0';
	return n;
}

static void info(const char *text)
{
	log_info("event", "key=%s", text);
}

static void error(const char *text)
{
	log_error("event", "key=%s", text);
}

static void a_line_has_time_program_level_event_and_words(void **s)
{
	char line[2048];

	(void)s;
	log_open("cordon-test");
	caught(info, "value", line, sizeof(line));
	assert_int_equal(strlen("2026-01-02T03:04:05.678Z"), 24);
	assert_int_equal(line[10], 'T');
	assert_int_equal(line[23], 'Z');
	assert_string_equal(line + 24, " cordon-test info event key=value\n");
	caught(error, "value", line, sizeof(line));
	assert_string_equal(line + 24, " cordon-test error event key=value\n");
}

static void hostile_values_forge_no_line_and_drive_no_terminal(void **s)
{
	char line[2048];

	(void)s;
	caught(info, "a\nb\r\x1b[2Jc\x7f\td", line, sizeof(line));
	assert_non_null(strstr(line, "key=a?b??[2Jc??d\n"));
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void a_long_value_is_cut_and_still_ends_its_line(void **s)
{
	char line[4096], text[3000];

	(void)s;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	size_t n = caught(info, text, line, sizeof(line));
	assert_true(n <= 1024);
	assert_int_equal(line[n - 1], '\n');
	assert_int_equal(line[n - 2], 'x');
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_time_program_level_event_and_words),
		cmocka_unit_test(hostile_values_forge_no_line_and_drive_no_terminal),
		cmocka_unit_test(a_long_value_is_cut_and_still_ends_its_line),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
