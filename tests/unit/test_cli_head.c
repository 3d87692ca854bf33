/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an answer: what is taken, and what is not. */
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
#include "cli/http.h"

static void a_plain_answer_is_read(void **state)
{
	const char *text = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
			   "Content-Length: 12\r\n\r\n{}";
	struct http_head h;

	(void)state;
	assert_int_equal(http_parse_head(text, strlen(text), &h), strlen(text) - 2);
	assert_int_equal(h.status, 200);
	assert_int_equal(h.length, 12);
	assert_false(h.is_stream);
}

static void a_stream_is_told_by_its_type_alone(void **state)
{
	const char *text = "HTTP/1.0 200 OK\r\ncontent-type:\tapplication/vnd.cordon.stream \r\n\r\n";
	struct http_head h;

	(void)state;
	assert_int_equal(http_parse_head(text, strlen(text), &h), strlen(text));
	assert_int_equal(h.length, -1);
	assert_true(h.is_stream);
}

static void every_prefix_wants_more(void **state)
{
	const char *text = "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n";
	struct http_head h;

	(void)state;
	for (size_t i = 0; i < strlen(text); i++)
		assert_int_equal(http_parse_head(text, i, &h), 0);
	assert_int_equal(http_parse_head(text, strlen(text), &h), strlen(text));
}

static void strange_heads_are_refused(void **state)
{
	static const char *const heads[] = {
		"HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\n folded: yes\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0x10\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\nc: d\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\rc: d\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		struct http_head h;
		if (http_parse_head(heads[i], strlen(heads[i]), &h) != -EPROTO)
			fail_msg("taken: %s", heads[i]);
	}
}

static void a_name_as_long_as_a_known_one_is_another(void **state)
{
	const char *text = "HTTP/1.1 200 OK\r\nContent-Digest: 12\r\n\r\n";
	struct http_head h;

	(void)state;
	assert_int_equal(http_parse_head(text, strlen(text), &h), strlen(text));
	assert_int_equal(h.length, -1);
}

/* An answer whose receipt has @n bytes; gives what parsing it gave. */
static int parse_receipt(int n, struct http_head *ret)
{
	char text[HTTP_RECEIPT_MAX + 100];

	snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nCordon-Receipt: %0*d\r\n\r\n", n, 7);
	return http_parse_head(text, strlen(text), ret);
}

static void a_receipt_is_kept_whole_and_comes_once(void **state)
{
	const char *one = "HTTP/1.1 200 OK\r\ncordon-receipt: {\"a\":1} \r\n\r\n";
	const char *two = "HTTP/1.1 200 OK\r\nCordon-Receipt: {}\r\nCordon-Receipt: {}\r\n\r\n";
	struct http_head h;

	(void)state;
	assert_int_equal(http_parse_head(one, strlen(one), &h), strlen(one));
	assert_string_equal(h.receipt, "{\"a\":1}");
	assert_int_equal(http_parse_head(two, strlen(two), &h), -EPROTO);
	assert_true(parse_receipt(HTTP_RECEIPT_MAX - 1, &h) > 0);
	assert_int_equal(strlen(h.receipt), HTTP_RECEIPT_MAX - 1);
	assert_int_equal(parse_receipt(HTTP_RECEIPT_MAX, &h), -EPROTO); /* refused, not cut */
}

static void an_endless_head_is_refused(void **state)
{
	char big[HTTP_HEAD_MAX];
	struct http_head h;

	(void)state;
	memset(big, 'a', sizeof(big));
	memcpy(big, "HTTP/1.1 200 OK\r\n", 17);
	assert_int_equal(http_parse_head(big, sizeof(big), &h), -EPROTO);
}

static void parts_of_a_path_are_encoded(void **state)
{
	char path[HTTP_PATH_MAX] = "/v1/";
	struct err e;

	(void)state;
	assert_int_equal(http_add_part(path, "a b/../%?#\x80", &e), 0);
	assert_string_equal(path, "/v1/a%20b%2F..%2F%25%3F%23%80");
	assert_int_equal(http_add_part(path, "..", &e), -EINVAL);
	assert_int_equal(http_add_part(path, "", &e), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_answer_is_read),
		cmocka_unit_test(a_stream_is_told_by_its_type_alone),
		cmocka_unit_test(every_prefix_wants_more),
		cmocka_unit_test(strange_heads_are_refused),
		cmocka_unit_test(a_name_as_long_as_a_known_one_is_another),
		cmocka_unit_test(a_receipt_is_kept_whole_and_comes_once),
		cmocka_unit_test(an_endless_head_is_refused),
		cmocka_unit_test(parts_of_a_path_are_encoded),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
