/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: a should-fail list, and what a good one becomes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/request.h"
#include "proto/worker.h"

static enum reason parse(const char *text, enum request_kind kind, struct exec_request *r,
			 struct err *e)
{
	memset(e, 0, sizeof(*e));
	return request_parse(text, strlen(text), kind, r, e);
}

static void malformed_requests_are_refused_by_name(void **state)
{
	static const struct {
		const char *body, *names;
	} cases[] = {
		{ "", "malformed" },
		{ "[]", "not an object" },
		{ "{}", "argv" },
		{ "{\"argv\":[]}", "argv" },
		{ "{\"argv\":[1]}", "element 0" },
		{ "{\"argv\":[\"a\\u0000b\"]}", "malformed" },
		{ "{\"argv\":\"ls\"}", "argv" },
		{ "{\"argv\":[\"ls\"],\"command\":\"ls\"}", "exactly one" },
		{ "{\"argv\":[\"ls\"],\"argv\":[\"rm\"]}", "malformed" },
		{ "{\"argv\":[\"ls\"]} x", "malformed" },
		{ "\xef\xbb\xbf{\"argv\":[\"ls\"]}", "malformed" },
		{ "{\"argv\":[\"\xff\"]}", "malformed" },
		{ "{\"argv\":[\"ls\"],\"wat\":1}", "wat" },
		{ "{\"argv\":[\"ls\"],\"session\":{}}", "session" },
		{ "{\"argv\":[\"ls\"],\"timeoutMs\":0}", "timeoutMs" },
		{ "{\"argv\":[\"ls\"],\"timeoutMs\":-1}", "timeoutMs" },
		{ "{\"argv\":[\"ls\"],\"timeoutMs\":1.5}", "timeoutMs" },
		{ "{\"argv\":[\"ls\"],\"timeoutMs\":1e3}", "timeoutMs" },
		{ "{\"argv\":[\"ls\"],\"timeoutMs\":\"1\"}", "timeoutMs" },
		{ "{\"argv\":[\"ls\"],\"timeoutMs\":99999999999999999999}", "malformed" },
		{ "{\"argv\":[\"ls\"],\"cpuMilli\":4294967296}", "cpuMilli" },
		{ "{\"argv\":[\"ls\"],\"pids\":0}", "pids" },
		{ "{\"argv\":[\"ls\"],\"memoryBytes\":0}", "memoryBytes" },
		{ "{\"argv\":[\"ls\"],\"outputBytes\":0}", "outputBytes" },
		{ "{\"argv\":[\"ls\"],\"workspaceBytes\":null}", "workspaceBytes" },
		{ "{\"argv\":[\"ls\"],\"cwd\":\"/etc\"}", "cwd" },
		{ "{\"argv\":[\"ls\"],\"cwd\":\"/workspacex\"}", "cwd" },
		{ "{\"argv\":[\"ls\"],\"cwd\":\"../x\"}", "cwd" },
		{ "{\"argv\":[\"ls\"],\"cwd\":\"a/./b\"}", "cwd" },
		{ "{\"argv\":[\"ls\"],\"cwd\":\"/proc/self/fd/7\"}", "cwd" },
		{ "{\"argv\":[\"ls\"],\"image\":\"\"}", "image" },
		{ "{\"argv\":[\"ls\"],\"image\":\"-rf\"}", "image" },
		{ "{\"argv\":[\"ls\"],\"image\":\"a b\"}", "image" },
		{ "{\"argv\":[\"ls\"],\"image\":\"../x\"}", "image" },
		{ "{\"argv\":[\"ls\"],\"commandId\":\"\"}", "commandId" },
		{ "{\"argv\":[\"ls\"],\"commandId\":\"a/b\"}", "commandId" },
		{ "{\"argv\":[\"ls\"],\"commandId\":\"..\"}", "commandId" },
		{ "{\"argv\":[\"ls\"],\"commandId\":\"auto.1\"}", "reserved" },
		{ "{\"argv\":[\"ls\"],\"stdin\":\"file\"}", "stdin" },
		{ "{\"argv\":[\"ls\"],\"stdin\":\"stream\",\"stdinB64\":\"\"}", "stdinB64" },
		{ "{\"argv\":[\"ls\"],\"stdinB64\":\"YQ\"}", "stdinB64" },
		{ "{\"argv\":[\"ls\"],\"stdinB64\":\"YQ==\\n\"}", "stdinB64" },
		{ "{\"argv\":[\"ls\"],\"stream\":1}", "stream" },
		{ "{\"argv\":[\"ls\"],\"egress\":\"none\"}", "egress" },
		{ "{\"argv\":[\"ls\"],\"egress\":{\"mode\":\"all\"}}", "egress.mode" },
		{ "{\"argv\":[\"ls\"],\"egress\":{\"mode\":\"none\",\"allow\":[\"a.example\"]}}",
		  "egress.allow" },
		{ "{\"argv\":[\"ls\"],\"egress\":{\"mode\":\"allowlist\",\"allow\":[\"a b\"]}}",
		  "element 0" },
		{ "{\"argv\":[\"ls\"],\"egress\":{\"mode\":\"none\",\"maxBytes\":-1}}", "maxBytes" },
		{ "{\"argv\":[\"ls\"],\"egress\":{\"mode\":\"none\",\"maxBytes\":\"1\"}}",
		  "maxBytes" },
		{ "{\"argv\":[\"ls\"],\"egress\":{\"mode\":\"none\",\"maxBytes\":1e300}}",
		  "maxBytes" },
		{ "{\"argv\":[\"ls\"],\"egress\":{\"mode\":\"none\",\"x\":[[[[[[[[]]]]]]]]}}",
		  "nested" },
	};
	struct exec_request r;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum reason why = parse(cases[i].body, REQUEST_EXEC, &r, &e);
		if (why != REASON_INVALID_REQUEST || !strstr(e.msg, cases[i].names))
			fail_msg("%s: %d '%s'", cases[i].body, why, e.msg);
		request_done(&r);
	}
}

static void what_is_not_built_is_refused_never_ignored(void **state)
{
	static const char *const cases[] = {
		"{\"argv\":[\"ls\"],\"environment\":{\"pip\":[\"x\"]}}",
		"{\"argv\":[\"ls\"],\"environment\":\"x\"}",
	};
	struct exec_request r;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i], REQUEST_EXEC, &r, &e), REASON_NOT_AVAILABLE);
		assert_int_equal(r.argc, 1); /* understood: it gets its receipt */
		request_done(&r);
	}
	assert_int_equal(parse("{\"argv\":[\"ls\"],\"skills\":[]}", REQUEST_EXEC, &r, &e),
			 REASON_NONE);
	request_done(&r);
}

static void a_command_string_is_bash_dash_c(void **state)
{
	struct exec_request r;
	struct err e;

	(void)state;
	assert_int_equal(parse("{\"command\":\"a 'b' $c\"}", REQUEST_EXEC, &r, &e), REASON_NONE);
	assert_int_equal(r.argc, 3);
	assert_memory_equal(r.args, "bash\0-c\0a 'b' $c", 17);
	assert_int_equal(r.args_len, 17);
	request_done(&r);
}

static void a_full_request_is_read(void **state)
{
	struct exec_request r;
	struct err e;

	(void)state;
	assert_int_equal(
		parse("{\"session\":{\"orgId\":\"o\",\"userId\":\"u\",\"surface\":\"chat\"},"
		      "\"argv\":[\"cat\",\"\"],\"cwd\":\"/workspace/a/b\",\"timeoutMs\":1,"
		      "\"memoryBytes\":4294967296,\"cpuMilli\":1500,\"pids\":9,\"stream\":true,"
		      "\"egress\":{\"mode\":\"allowlist\",\"allow\":[\"B.example\",\"a.example:80\"],"
		      "\"maxBytes\":0.25},\"image\":\"sha256:ab\",\"commandId\":\"x-1\","
		      "\"stdinB64\":\"aGk=\"}",
		      REQUEST_RUN, &r, &e),
		REASON_NONE);
	assert_string_equal(r.org_id, "o");
	assert_null(r.run_id);
	assert_int_equal(r.args_len, 5);
	assert_string_equal(r.cwd, "a/b");
	assert_int_equal(r.asked.memory_bytes, 4294967296);
	assert_int_equal(r.asked.cpu_milli, 1500);
	assert_true(r.is_stream);
	assert_int_equal(r.egress->tier, EGRESS_TIER_ALLOWLIST);
	assert_int_equal(r.egress->nhosts, 2);
	assert_int_equal(r.egress->max_bytes, 1); /* a fraction never becomes none */
	assert_int_equal(r.stdin_kind, STDIN_INLINE);
	assert_memory_equal(r.stdin_buf, "hi", 2);
	request_done(&r);
}

/* {"argv":["aaa...a", ...]} with @n elements of @len bytes each. */
static char *big_argv(size_t n, size_t len)
{
	char *text = malloc(n * (len + 3) + 32), *p = text;

	p += sprintf(p, "{\"argv\":[");
	for (size_t i = 0; i < n; i++) {
		*p++ = '"';
		memset(p, 'a', len);
		p += len;
		*p++ = '"';
		*p++ = i + 1 < n ? ',' : ']';
	}
	strcpy(p, "}");
	return text;
}

static void argv_has_its_named_maximum(void **state)
{
	const struct {
		size_t n, len;
		enum reason why;
	} cases[] = {
		{ 1, ARGV_ELEMENT_MAX, REASON_NONE },
		{ 1, ARGV_ELEMENT_MAX + 1, REASON_INVALID_REQUEST },
		{ ARGV_COUNT_MAX, 1, REASON_NONE },
		{ ARGV_COUNT_MAX + 1, 1, REASON_INVALID_REQUEST },
		{ 16, 64 * 1024 - 1, REASON_NONE }, /* exactly 1 MiB with the NULs */
		{ 16, 64 * 1024, REASON_INVALID_REQUEST },
		{ 20, 100 * 1024, REASON_INVALID_REQUEST },
	};
	struct exec_request r;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = big_argv(cases[i].n, cases[i].len);
		assert_int_equal(parse(text, REQUEST_EXEC, &r, &e), cases[i].why);
		request_done(&r);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_requests_are_refused_by_name),
		cmocka_unit_test(what_is_not_built_is_refused_never_ignored),
		cmocka_unit_test(a_command_string_is_bash_dash_c),
		cmocka_unit_test(a_full_request_is_read),
		cmocka_unit_test(argv_has_its_named_maximum),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
