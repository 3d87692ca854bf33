/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of the liveness probe: a should-fail list, and what a good one becomes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "broker/probe.h"

#define ID "0123456789abcdef"
#define OWNERS "\"orgId\":\"o\",\"userId\":\"u\""

static int take(const char *text, struct liveness_record *r, json_t **v)
{
	struct err e = { 0 };
	int rc = probe_line_read(text, strlen(text), ID, v, r, &e);

	assert_int_equal(rc < 0, e.code != 0);
	return rc;
}

static void a_good_answer_is_read(void **state)
{
	static const char *const good[] = {
		"{\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS "}\n",
		"{ " OWNERS ", \"state\" : \"alive\", \"id\": \"" ID "\" }\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		auto_json json_t *v = NULL;
		struct liveness_record r;
		assert_int_equal(take(good[i], &r, &v), 1);
		assert_string_equal(r.state, "alive");
		assert_string_equal(r.org_id, "o");
		assert_string_equal(r.user_id, "u");
	}
}

static void a_run_that_is_gone_may_have_lost_its_owners(void **state)
{
	static const char *const good[] = {
		"{\"id\":\"" ID "\",\"state\":\"gone\"}\n",
		"{\"id\":\"" ID "\",\"state\":\"gone\",\"orgId\":null,\"userId\":null}\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		auto_json json_t *v = NULL;
		struct liveness_record r;
		assert_int_equal(take(good[i], &r, &v), 1);
		assert_string_equal(r.state, "gone");
		assert_null(r.org_id);
		assert_null(r.user_id);
	}
}

static void whatever_else_is_no_answer(void **state)
{
	static const char *const bad[] = {
		"\n",
		"alive\n",
		"null\n",
		"[]\n",
		"\"alive\"\n",
		"{}\n",
		"{\"id\":\"" ID "\"," OWNERS "}\n",
		"{\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":\"0123456789abcdee\",\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":\"0123456789abcde\",\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":\"" ID "0\",\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":\"\",\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":null,\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":1,\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":\"" ID "\",\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":\"" ID "\",\"state\":\"gone\",\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":\"" ID "\",\"state\":true," OWNERS "}\n",
		"{\"id\":\"" ID "\",\"state\":[\"alive\"]," OWNERS "}\n",
		"{\"id\":\"" ID "\",\"state\":\"alive\",\"orgId\":1,\"userId\":\"u\"}\n",
		"{\"id\":\"" ID "\",\"state\":\"alive\",\"orgId\":\"o\",\"userId\":{}}\n",
		"{\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS ",\"more\":1}\n",
		"{\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS "}\n\n",
		"{\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS "}\n{}\n",
		"{\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS "}{}\n",
		"{\"id\":\"" ID "\",\"state\":\"al\\u0000ive\"," OWNERS "}\n",
		"{\"id\":\"" ID "\",\"state\":\"\xff\"," OWNERS "}\n",
		"\xef\xbb\xbf{\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS "}\n",
		"{\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS "\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json_t *v = NULL;
		struct liveness_record r;
		if (take(bad[i], &r, &v) >= 0)
			fail_msg("taken: %s", bad[i]);
		assert_null(v);
	}
}

static void a_line_that_is_not_over_is_waited_for_up_to_its_bound(void **state)
{
	static const char whole[] = "{\"id\":\"" ID "\",\"state\":\"alive\"," OWNERS "}\n";
	char big[PROBE_ANSWER_MAX + 1];
	struct liveness_record r;
	struct err e = { 0 };
	json_t *v = NULL;

	(void)state;
	for (size_t n = 0; n + 1 < sizeof(whole) - 1; n++)
		assert_int_equal(probe_line_read(whole, n, ID, &v, &r, &e), 0);
	memset(big, ' ', sizeof(big));
	assert_int_equal(probe_line_read(big, PROBE_ANSWER_MAX - 1, ID, &v, &r, &e), 0);
	assert_true(probe_line_read(big, PROBE_ANSWER_MAX, ID, &v, &r, &e) < 0);
	/* An answer may be as long as the bound, and not one byte longer. */
	for (size_t more = 0; more < 2; more++) {
		size_t len = PROBE_ANSWER_MAX + more;
		memset(big, ' ', sizeof(big));
		memcpy(big + len - (sizeof(whole) - 1), whole, sizeof(whole) - 1);
		int rc = probe_line_read(big, len, ID, &v, &r, &e);
		assert_int_equal(rc == 1, more == 0);
	}
	json_decref(v);
}

static void the_question_is_one_line_whatever_the_names_are(void **state)
{
	const struct probe_subject s = { "r\n\"1", "o\\\t", "\xc3\xbc\xe2\x80\xa8", "chat" };
	size_t len = 0;
	autofree char *text = probe_line_ask(ID, &s, &len);
	struct err e;

	(void)state;
	assert_non_null(text);
	assert_ptr_equal(memchr(text, '\n', len), text + len - 1);
	auto_json json_t *v = json_parse_strict(text, len - 1, 1, &e);
	assert_non_null(v);
	assert_int_equal(json_object_size(v), 5);
	assert_string_equal(json_string_value(json_object_get(v, "id")), ID);
	assert_string_equal(json_string_value(json_object_get(v, "runId")), s.run_id);
	assert_string_equal(json_string_value(json_object_get(v, "orgId")), s.org_id);
	assert_string_equal(json_string_value(json_object_get(v, "userId")), s.user_id);
	assert_string_equal(json_string_value(json_object_get(v, "surface")), s.surface);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_answer_is_read),
		cmocka_unit_test(a_run_that_is_gone_may_have_lost_its_owners),
		cmocka_unit_test(whatever_else_is_no_answer),
		cmocka_unit_test(a_line_that_is_not_over_is_waited_for_up_to_its_bound),
		cmocka_unit_test(the_question_is_one_line_whatever_the_names_are),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
