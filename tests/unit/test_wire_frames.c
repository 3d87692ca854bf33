/* SPDX-License-Identifier: Apache-2.0 */
/* The stream format: any cut gives the same, any disorder is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "wire/frames.h"

struct seen {
	char text[256];
};

static int note(void *ctx, enum frame_kind kind, const char *buf, size_t len, struct err *e)
{
	struct seen *s = ctx;
	size_t at = strlen(s->text);

	(void)e;
	/* Output may come in pieces: note a kind once per run. */
	char mark[2] = { (char)('0' + kind), '\0' };
	char *last = strrchr(s->text, '|');
	if (!last || last[1] != mark[0])
		at += (size_t)snprintf(s->text + at, sizeof(s->text) - at, "|%s:", mark);
	snprintf(s->text + at, sizeof(s->text) - at, "%.*s", (int)len, buf);
	return 0;
}

static const char whole[] = "\4\0\0\0\0\0\0\2{}"
			    "\1\0\0\0\0\0\0\5hello"
			    "\1\0\0\0\0\0\0\0"
			    "\2\0\0\0\0\0\0\3err"
			    "\1\0\0\0\0\0\0\1!"
			    "\3\0\0\0\0\0\0\4{1:2";

static void any_cut_gives_the_same(void **state)
{
	(void)state;
	for (size_t step = 1; step <= sizeof(whole) - 1; step++) {
		struct seen s = { "" };
		struct frames f = { .on_frame = note, .ctx = &s };
		struct err e;
		for (size_t at = 0; at < sizeof(whole) - 1; at += step) {
			size_t n = sizeof(whole) - 1 - at < step ? sizeof(whole) - 1 - at : step;
			assert_int_equal(frames_feed(&f, whole + at, n, &e), 0);
		}
		assert_true(f.is_over);
		assert_string_equal(s.text, "|4:{}|1:hello|2:err|1:!|3:{1:2");
		frames_done(&f);
	}
}

#define BYTES(s) { s, sizeof(s) - 1 }

static void disorder_is_refused(void **state)
{
	static const struct {
		const char *at;
		size_t len;
	} bad[] = {
		BYTES("\1\0\0\0\0\0\0\1x"),			/* output before acceptance */
		BYTES("\3\0\0\0\0\0\0\2{}"),			/* a result before it */
		BYTES("\0\0\0\0\0\0\0\0"),			/* no kind */
		BYTES("\5\0\0\0\0\0\0\0"),			/* unknown kind */
		BYTES("\4\1\0\0\0\0\0\2{}"),			/* a reserved byte */
		BYTES("\4\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0"),	/* accepted twice */
		BYTES("\4\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"), /* after the end */
		BYTES("\4\0\0\0\xff\xff\xff\xff"),		/* 4 GiB of JSON */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct seen s = { "" };
		struct frames f = { .on_frame = note, .ctx = &s };
		struct err e;
		assert_int_equal(frames_feed(&f, bad[i].at, bad[i].len, &e), -EPROTO);
		frames_done(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_cut_gives_the_same),
		cmocka_unit_test(disorder_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
