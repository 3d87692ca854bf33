/* SPDX-License-Identifier: Apache-2.0 */
/* Heads and bodies: what is read, what goes on, what is refused (E13). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "gateway/body.h"
#include "gateway/request.h"

/* NULL head: refused by scanning or parsing. */
static bool parse(const char *text, struct head *ret)
{
	size_t scanned = 0;

	return head_scan(text, strlen(text), &scanned) == HEAD_DONE &&
	       head_parse_request(text, scanned, ret);
}

static bool read_request(const char *text, struct request *ret)
{
	static struct head h;

	return parse(text, &h) && request_read(&h, ret);
}

static void a_head_is_found_however_it_comes(void **state)
{
	static const char text[] = "GET http://a.example/ HTTP/1.1\r\nHost: a\r\n\r\nbody";

	(void)state;
	for (size_t step = 1; step < sizeof(text); step++) {
		enum head_result r = HEAD_MORE;
		size_t scanned = 0;

		for (size_t have = step; r == HEAD_MORE && have < sizeof(text) + step; have += step)
			r = head_scan(text, have < sizeof(text) - 1 ? have : sizeof(text) - 1, &scanned);
		assert_int_equal(r, HEAD_DONE);
		assert_int_equal(scanned, sizeof(text) - 1 - 4);
	}
}

static void a_head_has_an_end_or_is_refused(void **state)
{
	static char text[HEAD_MAX + 10];
	size_t scanned = 0;

	(void)state;
	memset(text, 'a', sizeof(text));
	assert_int_equal(head_scan(text, HEAD_MAX - 1, &scanned), HEAD_MORE);
	assert_int_equal(head_scan(text, sizeof(text), &scanned), HEAD_BAD);
}

static void broken_lines_are_refused_as_soon_as_they_are_seen(void **state)
{
	static const char *const bad[] = { "GET\n", "G\r\r", "\r\n", "\n", "G\x01", "G\x7f", "a\r\n\rX" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		size_t scanned = 0;
		assert_int_equal(head_scan(bad[i], strlen(bad[i]), &scanned), HEAD_BAD);
	}
	size_t scanned = 0;
	assert_int_equal(head_scan("G\0", 2, &scanned), HEAD_BAD);
}

static void what_was_not_scanned_is_no_head(void **state)
{
	static const char request[] = "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";
	static const char response[] = "HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
	static const char *const requests[] = { "GET http://a/ HTTP/1.1\n\r\n",
						"GET http://a/ HTTP/1.1\r\nHost: a\n\r\n",
						"GET http://a/ HTTP/1.1\r\nHost: a\x01z\r\n\r\n",
						"\nGET http://a/ HTTP/1.1\r\n\r\n" };
	static const char *const responses[] = { "HTTP/1.1 200 O\x7fK\r\n\r\n",
						 "HTTP/1.1 200 OK\r\nA: \x1b[0m\r\n\r\n" };
	struct head h;

	(void)state;
	/* Cut anywhere, or longer than its empty line says. */
	for (size_t n = 0; n < sizeof(request) + 1; n++)
		assert_int_equal(head_parse_request(request, n, &h), n == sizeof(request) - 1);
	for (size_t n = 0; n < sizeof(response) + 1; n++)
		assert_int_equal(head_parse_response(response, n, &h), n == sizeof(response) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		assert_false(head_parse_request(requests[i], strlen(requests[i]), &h));
	for (size_t i = 0; i < ARRAY_SIZE(responses); i++)
		assert_false(head_parse_response(responses[i], strlen(responses[i]), &h));
}

static void start_lines_have_three_parts_of_the_right_bytes(void **state)
{
	static const char *const bad[] = {
		"GET\r\n\r\n",	     "GET http://a/\r\n\r\n",	" GET http://a/ HTTP/1.1\r\n\r\n",
		"GET  HTTP/1.1\r\n\r\n", "G(T http://a/ HTTP/1.1\r\n\r\n",
		"GET http://a/\tb HTTP/1.1\r\n\r\n", "GET http://a/\xe9 HTTP/1.1\r\n\r\n",
	};
	struct head h;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (parse(bad[i], &h))
			fail_msg("taken: %s", bad[i]);
	assert_true(parse("G|T http://a/b HTTP/1.1\r\n\r\n", &h));
}

/* A request with @byte in place of the one at @at is taken exactly where @allowed has it. */
static void only_these_at(const char *text, size_t at, const char *allowed)
{
	char copy[128];
	struct head h;

	for (int byte = 1; byte < 256; byte++) {
		snprintf(copy, sizeof(copy), "%s", text);
		copy[at] = (char)byte;
		if (parse(copy, &h) != (strchr(allowed, byte) != NULL))
			fail_msg("byte %d at %zu of %s", byte, at, text);
	}
}

static void every_byte_of_a_start_line_is_one_that_may_stand_there(void **state)
{
	static const char tokens[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char request[] = "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n";
	static const char version[] = "HTTP/1.";
	char visible[0x7f - 0x21 + 1] = "";
	struct head h;

	(void)state;
	for (int i = 0; i < 0x7f - 0x21; i++)
		visible[i] = (char)(0x21 + i);
	only_these_at(request, 1, tokens);
	only_these_at(request, 12, visible);
	for (size_t i = 0; i < sizeof(version) - 1; i++)
		only_these_at(request, 15 + i, (char[]){ version[i], '\0' });
	only_these_at(request, 22, "01");
	assert_false(parse("GET http://a/b HTTP/1.11\r\nHost: a\r\n\r\n", &h));
	assert_false(parse("GET http://a/b HTTP/1.\r\nHost: a\r\n\r\n", &h));
	assert_false(parse("GET http://a/b \r\nHost: a\r\n\r\n", &h));
}

static void a_length_is_digits_and_no_more_than_fit(void **state)
{
	static const struct {
		const char *text;
		enum framing want;
		uint64_t length;
	} rows[] = {
		{ "0", FRAMING_NONE, 0 },
		{ "7", FRAMING_LENGTH, 7 },
		{ "999999999999999999", FRAMING_LENGTH, 999999999999999999u },
		{ "1000000000000000000", FRAMING_BAD, 0 },
		{ "/1", FRAMING_BAD, 0 },
		{ "1:", FRAMING_BAD, 0 },
		{ "+1", FRAMING_BAD, 0 },
		{ "1 1", FRAMING_BAD, 0 },
		{ "", FRAMING_BAD, 0 },
	};
	char text[128];
	struct head h;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t length = 0;
		snprintf(text, sizeof(text), "POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: %s\r\n\r\n",
			 rows[i].text);
		assert_true(parse(text, &h));
		assert_int_equal(head_request_framing(&h, &length), rows[i].want);
		assert_int_equal(length, rows[i].length);
	}
	for (int byte = 1; byte < 256; byte++) /* a status is three digits */
		for (size_t at = 9; at < 12; at++) {
			static const char answer[] = "HTTP/1.1 222 Fine\r\n\r\n";
			memcpy(text, answer, sizeof(answer));
			text[at] = (char)byte;
			assert_int_equal(head_parse_response(text, sizeof(answer) - 1, &h),
					 byte >= '0' + (at == 9) && byte <= '9');
		}
}

static void blanks_around_a_value_are_not_of_it(void **state)
{
	struct head h;
	unsigned count;

	(void)state;
	assert_true(parse("GET http://a/ HTTP/1.1\r\nX: \t a b\t \r\nY: \t \r\n\r\n", &h));
	assert_true(span_is(head_find(&h, "x", &count)->value, "a b"));
	assert_int_equal(head_find(&h, "y", &count)->value.len, 0);
}

static void the_target_and_the_credential_are_read(void **state)
{
	struct request r;

	(void)state;
	assert_true(read_request("CONNECT A.example.:443 HTTP/1.0\r\n"
				 "Proxy-Authorization: basic MDEyMzQ1Njc4OWFiY2RlZjp4\r\n\r\n", &r));
	assert_true(r.is_connect && r.has_credential && !r.keep_alive);
	assert_string_equal(r.target.host.name, "a.example");
	assert_int_equal(r.target.port, 443);
	assert_string_equal(r.token, "0123456789abcdef");
	assert_true(read_request("HEAD HTTP://[2001:DB8::1]/x HTTP/1.1\r\nHost: y\r\n\r\n", &r));
	assert_true(r.is_head && r.keep_alive && !r.has_credential);
	assert_int_equal(r.target.port, 80);
	assert_int_equal(r.target.host.address.family, 6);
	assert_true(read_request("GET http://a/ HTTP/1.1\r\nHost:\r\nConnection: x , Close\r\n\r\n", &r));
	assert_false(r.keep_alive);
}

static void only_a_basic_credential_with_a_token_is_one(void **state)
{
	static const struct {
		const char *value;
		bool want;
	} rows[] = {
		{ "Basic MDEyMzQ1Njc4OWFiY2RlZjp4", true },
		{ "Basic   MDEyMzQ1Njc4OWFiY2RlZjp4", true },
		{ "Bearer MDEyMzQ1Njc4OWFiY2RlZjp4", false },
		{ "Basic", false },
		{ "Basic ", false },
		{ "Basic !!!!", false },
		{ "Basic MDEyMzQ1Njc4OWFiY2RlZg==", false }, /* no colon */
		{ "Basic YSBiOng=", false },		     /* "a b:x" */
	};
	struct request r;
	char text[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(text, sizeof(text),
			 "GET http://a/ HTTP/1.1\r\nHost: a\r\nProxy-Authorization: %s\r\n\r\n",
			 rows[i].value);
		assert_true(read_request(text, &r));
		if (r.has_credential != rows[i].want)
			fail_msg("%s: %d", rows[i].value, r.has_credential);
		assert_string_equal(r.token, rows[i].want ? "0123456789abcdef" : "");
	}
}

static void a_target_is_absolute_http_without_a_fragment(void **state)
{
	static const char *const bad[] = { "/", "*", "a:80", "https://a/", "ftp://a/", "http:/a/",
					   "http://a/#f", "http://a#f", "http://", "http://u@a/" };
	struct request r;
	char text[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", bad[i]);
		if (read_request(text, &r))
			fail_msg("taken: %s", bad[i]);
		assert_false(r.has_target && strchr(bad[i], '#'));
	}
}

static void what_could_be_read_otherwise_is_refused(void **state)
{
	static const char *const fields[] = {
		"Host: a\r\nHost: a",	   "Host: a b",		       "X: 1",
		"Host: a\r\nBad Name: x",  "Host: a\r\nName : x",	       "Host: a\r\n: x",
		"Host: a\r\nNoColon",	   "Host: a\r\nContent-Length:", "Host: a\r\nContent-Length: +1",
		"Host: a\r\nContent-Length: 0000000000000000001",
		"Host: a\r\nContent-Length: 99999999999999999999",
		"Host: a\r\nContent-Length: 1\r\nContent-Length: 1",
		"Host: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
	};
	struct request r;
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		snprintf(text, sizeof(text), "POST http://a/ HTTP/1.1\r\n%s\r\n\r\n", fields[i]);
		if (read_request(text, &r))
			fail_msg("taken: %s", fields[i]);
	}
	assert_true(read_request("POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", &r));
}

static const char *render(const char *text)
{
	static char out[4096];
	static struct head h;
	struct request r;

	assert_true(parse(text, &h));
	assert_true(request_read(&h, &r));
	size_t n = request_render(&h, &r, out, sizeof(out) - 1);
	assert_true(n > 0);
	out[n] = '\0';
	assert_int_equal(request_render(&h, &r, out + n + 1, n - 1), 0); /* too small: nothing */
	return out;
}

static void what_goes_upstream_is_written_anew(void **state)
{
	(void)state;
	assert_string_equal(
		render("POST http://a.example:8080?q HTTP/1.1\r\nHost: evil\r\nX: 1\r\nTE: t\r\n"
		       "Connection: y, content-length, host\r\nY: 2\r\nContent-Length: 3\r\n"
		       "Proxy-Authorization: Basic x\r\n\r\n"),
		"POST /?q HTTP/1.1\r\nHost: a.example:8080\r\nX: 1\r\nContent-Length: 3\r\n"
		"Connection: close\r\n\r\n");
	assert_string_equal(render("OPTIONS http://a.example HTTP/1.0\r\nContent-Length: 0\r\n\r\n"),
			    "OPTIONS * HTTP/1.0\r\nHost: a.example\r\nContent-Length: 0\r\n"
			    "Connection: close\r\n\r\n");
	assert_string_equal(render("PUT http://[2001:db8::1]/ HTTP/1.1\r\nHost: x\r\n"
				   "Transfer-Encoding: CHUNKED\r\n\r\n"),
			    "PUT / HTTP/1.1\r\nHost: [2001:db8::1]\r\n"
			    "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
}

static void a_refusal_is_a_whole_answer(void **state)
{
	struct target t = { .port = 443 };
	char out[1024];

	(void)state;
	assert_true(host_parse("a.example", 9, &t.host));
	out[refusal_render(EGRESS_UNREGISTERED_TOKEN, &t, out, sizeof(out))] = '\0';
	assert_string_equal(out, "HTTP/1.1 407 Proxy Authentication Required\r\n"
				 "Cordon-Reason: unregistered_token\r\n"
				 "Proxy-Authenticate: Basic realm=\"cordon\"\r\n"
				 "Content-Type: application/json\r\nContent-Length: 62\r\n"
				 "Connection: close\r\n\r\n"
				 "{\"reason\":\"unregistered_token\",\"host\":\"a.example\",\"port\":443}\n");
	assert_int_equal(refusal_render(EGRESS_BAD_REQUEST, NULL, out, 20), 0);
}

static void a_refusal_says_its_status_in_words(void **state)
{
	static const struct {
		enum egress_verdict verdict;
		const char *line;
	} rows[] = {
		{ EGRESS_BAD_REQUEST, "HTTP/1.1 400 Bad Request\r\n" },
		{ EGRESS_BYTE_QUOTA_EXCEEDED, "HTTP/1.1 403 Forbidden\r\n" },
		{ EGRESS_UPSTREAM_FAILED, "HTTP/1.1 502 Bad Gateway\r\n" },
	};
	char out[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		out[refusal_render(rows[i].verdict, NULL, out, sizeof(out) - 1)] = '\0';
		assert_memory_equal(out, rows[i].line, strlen(rows[i].line));
		assert_null(strstr(out, "Proxy-Authenticate"));
		assert_non_null(strstr(out, "\"host\":null,\"port\":null}\n"));
	}
}

static void an_answer_goes_to_the_client_without_its_hops(void **state)
{
	static const char text[] = "HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nX: 1\r\n"
				   "Connection: close, y\r\nY: 2\r\nKeep-Alive: 5\r\n\r\n";
	static const char early[] = "HTTP/1.1 103 Early\r\nX: 1\r\n\r\n";
	struct head h;
	char out[1024];
	size_t n;

	(void)state;
	assert_true(head_parse_response(text, sizeof(text) - 1, &h));
	n = response_render(&h, FRAMING_CHUNKED, true, out, sizeof(out) - 1);
	out[n] = '\0';
	assert_string_equal(out, "HTTP/1.1 200 Fine\r\nX: 1\r\nTransfer-Encoding: chunked\r\n"
				 "Connection: keep-alive\r\n\r\n");
	assert_int_equal(response_render(&h, FRAMING_CHUNKED, true, out, n), n);
	assert_int_equal(response_render(&h, FRAMING_CHUNKED, true, out, n - 1), 0);
	assert_true(head_parse_response(early, sizeof(early) - 1, &h));
	out[response_render(&h, FRAMING_NONE, true, out, sizeof(out) - 1)] = '\0';
	assert_string_equal(out, early);
}

static void responses_are_framed_or_refused(void **state)
{
	static const struct {
		const char *text;
		bool is_head;
		enum framing want;
	} rows[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, FRAMING_LENGTH },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, FRAMING_NONE },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, FRAMING_NONE },
		{ "HTTP/1.1 200\r\n\r\n", false, FRAMING_UNTIL_CLOSE },
		{ "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", false, FRAMING_NONE },
		{ "HTTP/1.1 304 No\r\n\r\n", false, FRAMING_NONE },
		{ "HTTP/1.1 100 Go\r\n\r\n", false, FRAMING_NONE },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, FRAMING_CHUNKED },
		{ "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, FRAMING_BAD },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", false, FRAMING_BAD },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", false, FRAMING_BAD },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct head h;
		uint64_t length;
		assert_true(head_parse_response(rows[i].text, strlen(rows[i].text), &h));
		assert_int_equal(head_response_framing(&h, rows[i].is_head, &length), rows[i].want);
	}
	static const char *const bad[] = { "HTTP/1.1 99 X\r\n\r\n", "HTTP/1.1 20 X\r\n\r\n",
					   "HTTP/1.1  200 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n",
					   "ICY 200 OK\r\n\r\n", "HTTP/1.1 200OK\r\n\r\n" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct head h;
		assert_false(head_parse_response(bad[i], strlen(bad[i]), &h));
	}
}

static void lengths_are_counted_down(void **state)
{
	struct body b;
	size_t used;

	(void)state;
	body_init(&b, FRAMING_LENGTH, 5, true);
	assert_false(body_is_done(&b));
	assert_true(body_walk(&b, "abc", 3, &used));
	assert_int_equal(used, 3);
	assert_true(body_walk(&b, "deXY", 4, &used));
	assert_int_equal(used, 2);
	assert_true(body_is_done(&b));
	body_init(&b, FRAMING_NONE, 0, true);
	assert_true(body_is_done(&b));
	assert_true(body_walk(&b, "X", 1, &used));
	assert_int_equal(used, 0);
}

static void what_ends_with_the_connection_is_never_done(void **state)
{
	struct body b;
	size_t used;

	(void)state;
	body_init(&b, FRAMING_UNTIL_CLOSE, 0, false);
	assert_false(body_is_done(&b));
	assert_true(body_walk(&b, "0\r\n\r\n", 5, &used));
	assert_int_equal(used, 5);
	assert_false(body_is_done(&b));
}

/* What walking over a chunked body gives, byte by byte as much as at once. */
static bool walks(const char *text, size_t len, bool is_request, bool *ret_done)
{
	struct body b, pieces;
	size_t used;
	bool ok, ok_pieces = true;

	body_init(&b, FRAMING_CHUNKED, 0, is_request);
	pieces = b;
	ok = body_walk(&b, text, len, &used);
	for (size_t i = 0; i < len && ok_pieces; i++)
		ok_pieces = body_walk(&pieces, text + i, 1, &used);
	assert_int_equal(ok, ok_pieces);
	assert_int_equal(body_is_done(&b), body_is_done(&pieces));
	*ret_done = ok && body_is_done(&b);
	return ok;
}

static void chunks_of_another_grammar_are_refused(void **state)
{
	static const char *const of_both[] = {
		"\r\n", ";x\r\n", "g\r\n", "-1\r\n", "0x1\r\n", "1\n", "1\rx", "1\r\nab", "1\r\na\rb",
		"0\r\n\rx", "1000000000000000\r\n",
	};
	static const char *const of_requests[] = { "1;x\r\n", "1 \r\n", "0\r\nT: 1\r\n\r\n" };
	static const char *const of_answers[] = { "1;\x01\r\n", "1;x\rx", "0\r\nT: \x1b\r\n", "0\r\nT: 1\rx" };
	bool done;

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(of_both); i++)
		if (walks(of_both[i / 2], strlen(of_both[i / 2]), i & 1, &done))
			fail_msg("taken: %s", of_both[i / 2]);
	for (size_t i = 0; i < ARRAY_SIZE(of_requests); i++) {
		assert_false(walks(of_requests[i], strlen(of_requests[i]), true, &done));
		assert_true(walks(of_requests[i], strlen(of_requests[i]), false, &done));
	}
	for (size_t i = 0; i < ARRAY_SIZE(of_answers); i++)
		if (walks(of_answers[i], strlen(of_answers[i]), false, &done))
			fail_msg("taken: %s", of_answers[i]);
	assert_true(walks("000000000000001\r\nx\r\n", 20, true, &done)); /* 15 digits, and no more */
	assert_false(walks("0000000000000001\r\nx\r\n", 21, true, &done));
	assert_true(walks("a\r\n0123456789\r\nF\r\n0123456789abcde\r\n0\r\n\r\n", 40, true, &done));
	assert_true(done);
}

static void extensions_and_trailers_have_an_end(void **state)
{
	char text[3 + 5000];
	bool done;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "1;", 2);
	assert_true(walks(text, 4000, false, &done));
	assert_false(walks(text, sizeof(text), false, &done));
	memcpy(text, "0\r\n", 3);
	assert_true(walks(text, 4000, false, &done));
	assert_false(walks(text, sizeof(text), false, &done));
}

static void a_state_that_is_none_lets_nothing_pass(void **state)
{
	struct body b;
	size_t used;

	(void)state;
	body_init(&b, FRAMING_CHUNKED, 0, true);
	b.state = UINT8_MAX;
	assert_false(body_walk(&b, "\n", 1, &used));
	assert_int_equal(b.framing, FRAMING_BAD);
}

static void chunks_end_where_they_say(void **state)
{
	static const char text[] = "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\nGET";
	struct body b;
	size_t used;

	(void)state;
	body_init(&b, FRAMING_CHUNKED, 0, true);
	assert_true(body_walk(&b, text, sizeof(text) - 1, &used));
	assert_true(body_is_done(&b));
	assert_int_equal(used, sizeof(text) - 1 - 3);
	/* an answer may have extensions and trailers */
	static const char loose[] = "5;x=y\r\nhello\r\n0\r\nT: 1\r\n\r\n";
	body_init(&b, FRAMING_CHUNKED, 0, false);
	assert_true(body_walk(&b, loose, sizeof(loose) - 1, &used));
	assert_true(body_is_done(&b));
	body_init(&b, FRAMING_CHUNKED, 0, true);
	assert_false(body_walk(&b, loose, sizeof(loose) - 1, &used));
	assert_false(body_walk(&b, "0", 1, &used)); /* and nothing passes any more */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_is_found_however_it_comes),
		cmocka_unit_test(a_head_has_an_end_or_is_refused),
		cmocka_unit_test(broken_lines_are_refused_as_soon_as_they_are_seen),
		cmocka_unit_test(what_was_not_scanned_is_no_head),
		cmocka_unit_test(start_lines_have_three_parts_of_the_right_bytes),
		cmocka_unit_test(every_byte_of_a_start_line_is_one_that_may_stand_there),
		cmocka_unit_test(a_length_is_digits_and_no_more_than_fit),
		cmocka_unit_test(blanks_around_a_value_are_not_of_it),
		cmocka_unit_test(the_target_and_the_credential_are_read),
		cmocka_unit_test(only_a_basic_credential_with_a_token_is_one),
		cmocka_unit_test(a_target_is_absolute_http_without_a_fragment),
		cmocka_unit_test(what_could_be_read_otherwise_is_refused),
		cmocka_unit_test(what_goes_upstream_is_written_anew),
		cmocka_unit_test(a_refusal_is_a_whole_answer),
		cmocka_unit_test(a_refusal_says_its_status_in_words),
		cmocka_unit_test(an_answer_goes_to_the_client_without_its_hops),
		cmocka_unit_test(responses_are_framed_or_refused),
		cmocka_unit_test(lengths_are_counted_down),
		cmocka_unit_test(what_ends_with_the_connection_is_never_done),
		cmocka_unit_test(chunks_end_where_they_say),
		cmocka_unit_test(chunks_of_another_grammar_are_refused),
		cmocka_unit_test(extensions_and_trailers_have_an_end),
		cmocka_unit_test(a_state_that_is_none_lets_nothing_pass),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gateway_head", tests, NULL, NULL);
}
