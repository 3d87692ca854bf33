/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: what is refused, and by which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "config/config.h"

static int parse(const char *text, struct config *c, struct err *e)
{
	return config_parse(text, strlen(text), c, e);
}

static void the_presets_parse_and_are_q1(void **state)
{
	struct config c;
	struct limits q1 = LIMITS_DEFAULT;

	(void)state;
	config_default(&c);
	assert_memory_equal(&c.dflt, &q1, sizeof(q1));
	assert_false(c.rollout);
	assert_int_equal(c.pool, 2);
	assert_int_equal(c.running_per_org, 2);
	assert_int_equal(c.running, 8);
	assert_int_equal(c.queued_per_org, 16);
	assert_int_equal(c.queued, 128);
	assert_int_equal(c.open_jobs_per_org, 32);
	assert_int_equal(c.carrier_ttl_ms, 900000);
	assert_int_equal(c.egress_default, EGRESS_DEFAULT_INTERNET);
}

/* A preset that its own row refuses would silently leave a zero. */
static void every_preset_is_accepted_as_a_line(void **state)
{
	size_t n;
	const struct config_key *k = config_keys(&n);
	struct config c, dflt;
	struct err e;
	char line[CONFIG_VALUE_MAX];

	(void)state;
	config_default(&dflt);
	for (size_t i = 0; i < n; i++) {
		snprintf(line, sizeof(line), "%s = %s\n", k[i].name, k[i].preset);
		if (parse(line, &c, &e) < 0)
			fail_msg("%s: %s", k[i].name, e.msg);
		assert_memory_equal(&c, &dflt, sizeof(c));
		assert_true(strlen(k[i].help) > 10);
		assert_true(k[i].readers != 0);
	}
}

/* One byte more than a socket's address takes, with the slash and the NUL. */
#define TEN "0123456789"
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "0123456"

static const struct {
	const char *text, *words;
} refusals[] = {
	{ "colour = red\n", "line 1: unknown key 'colour'" },
	{ "pool = 1\n# x\npool = 2\n", "line 3: 'pool' given twice, first on line 1" },
	{ "pool\n", "line 1: not 'key = value': 'pool'" },
	{ "= 1\n", "line 1: no usable key" },
	{ "pool = -1\n", "'pool' wants a decimal integer" },
	{ "pool = 1x\n", "'pool' wants" },
	{ "pool = 01\n", "'pool' wants" },
	{ "pool =\n", "'pool' wants" },
	{ "pool = 257\n", "'pool' is out of range: '257'" },
	{ "pool = 4294967297\n", "'pool' is out of range" },
	{ "default.memory = 0\n", "'default.memory' is out of range" },
	{ "default.memory = 1T\n", "'default.memory' wants an integer with optional K, M or G" },
	{ "default.memory = 99999999999G\n", "'default.memory' wants" },
	{ "default.memory = 9G\n", "'default.memory' is above 'maximum.memory'" },
	{ "maximum.pids = 10\n", "'default.pids' is above 'maximum.pids'" },
	{ "default.timeout = 1,5\n", "'default.timeout' wants seconds" },
	{ "default.cpus = 0\n", "'default.cpus' is out of range" },
	{ "audit = Required\n", "'audit' wants one of its words" },
	{ "image = debian\n", "'image' wants sha256:" },
	{ "image = sha256:ABCDEF\n", "'image' wants sha256:" },
	{ "image_store = images\n", "'image_store' wants an absolute path" },
	{ "host_ids = 0:4096\n", "'host_ids' is out of range" },
	{ "host_ids = 2000000000\n", "'host_ids' wants auto or BASE:COUNT" },
	{ "host_ids = 2147483000:4096\n", "'host_ids' is out of range" },
	{ "egress.maximum = all\n", "'egress.maximum' wants" },
	{ "retain = /run/sink\n", "'retain' needs 'redact'" },
	{ "retain = /run/sink\nredact =\n", "'retain' needs 'redact'" },
	{ "retain = sink\nredact = none\n", "'retain' wants an absolute path" },
	{ "run_probe = /run/probe\nrun_registry = on\n", "'run_probe' and 'run_registry'" },
	{ "run_probe = probe\n", "'run_probe' wants an absolute path" },
	{ "run_probe = /" LONG "\n", "'run_probe' is out of range" },
	{ "run_probe_timeout = 0\n", "'run_probe_timeout' is out of range" },
	{ "run_probe_timeout = 61\n", "'run_probe_timeout' is out of range" },
	{ "retain = /run/sink\nredact = off\n", "'redact' wants an absolute path or none" },
	{ "redact = redactor\n", "'redact' wants an absolute path or none" },
	{ "redact = none\nretain = /" LONG "\n", "'retain' is out of range" },
	{ "redact = /" LONG "\n", "'redact' is out of range" },
};

static void a_refusal_names_line_and_key(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct config c;
		struct err e = { 0 };
		memset(&c, 0xa5, sizeof(c));
		struct config before = c;
		assert_int_equal(parse(refusals[i].text, &c, &e), -22);
		if (!strstr(e.msg, refusals[i].words))
			fail_msg("'%s' says '%s'", refusals[i].text, e.msg);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void only_the_exact_on_turns_it_on(void **state)
{
	static const struct {
		const char *text;
		int on;
	} rows[] = {
		{ "rollout = on\n", 1 },	{ "rollout=on", 1 },
		{ "  rollout = on # yes\n", 1 }, { "rollout = on \n", 0 },
		{ "rollout = ON\n", 0 },	{ "rollout = true\n", 0 },
		{ "rollout = 1\n", 0 },		{ "rollout =\n", 0 },
		{ "rollout = on\r\n", 0 },	{ "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct config c;
		struct err e;
		assert_int_equal(parse(rows[i].text, &c, &e), 0);
		if (c.rollout != rows[i].on)
			fail_msg("'%s' gives %d", rows[i].text, c.rollout);
	}
}

static void comments_blanks_and_crlf_are_tolerated(void **state)
{
	struct config c;
	struct err e;

	(void)state;
	assert_int_equal(parse("# a\n\n  # b = c\n\tpool\t=\t7 \r\n"
			       "default.timeout = 1.5 # seconds\nimage_store = /a#b\n",
			       &c, &e),
			 0);
	assert_int_equal(c.pool, 7);
	assert_int_equal(c.dflt.timeout_ms, 1500);
	assert_string_equal(c.image_store, "/a#b");
}

static void a_nul_byte_and_an_endless_value_are_refused(void **state)
{
	struct config c;
	struct err e;
	char big[CONFIG_VALUE_MAX + 64];

	(void)state;
	assert_int_equal(config_parse("pool = 1\0\n", 10, &c, &e), -22);
	assert_non_null(strstr(e.msg, "NUL"));
	memset(big, 'x', sizeof(big));
	memcpy(big, "group = ", 8);
	assert_int_equal(config_parse(big, sizeof(big), &c, &e), -22);
	assert_non_null(strstr(e.msg, "longer than"));
}

static void a_slice_holds_only_its_readers_keys(void **state)
{
	const char *text = "rollout = on\npool = 3\naudit = required\n"
			   "egress.maximum = none\ncarrier_ttl = 60\n";
	autofree char *worker = NULL, *ledger = NULL;
	struct config c;
	struct err e;

	(void)state;
	assert_int_equal(config_slice(text, strlen(text), FOR_WORKER, "cordon-00000001", &worker,
				      &e),
			 0);
	assert_string_equal(worker, "pool = 3\nhost_ids = 1073745920:4096\n");
	assert_int_equal(parse(worker, &c, &e), 0);
	assert_int_equal(c.host_ids.base, 1073745920);
	assert_int_equal(config_slice(text, strlen(text), FOR_LEDGER, "cordon-00000001", &ledger,
				      &e),
			 0);
	assert_string_equal(ledger, "audit = required\n");
}

static void blocks_of_ids_never_meet_those_of_images_and_daemons(void **state)
{
	static const char *const names[] = { "cordon-00000000", "cordon-ffffffff",
					     "cordon-0003f79f", "cordon-0003f7a0" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct config c;
		config_default(&c);
		config_resolve_ids(&c, names[i]);
		assert_true(c.host_ids.base >= 1u << 30);
		assert_true(c.host_ids.base + c.host_ids.count <= c.daemon_ids);
		assert_true(c.daemon_ids + 16 <= c.image_ids);
		assert_true((uint64_t)c.image_ids + 65536 < 0x7fffffff);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_presets_parse_and_are_q1),
		cmocka_unit_test(every_preset_is_accepted_as_a_line),
		cmocka_unit_test(a_refusal_names_line_and_key),
		cmocka_unit_test(only_the_exact_on_turns_it_on),
		cmocka_unit_test(comments_blanks_and_crlf_are_tolerated),
		cmocka_unit_test(a_nul_byte_and_an_endless_value_are_refused),
		cmocka_unit_test(a_slice_holds_only_its_readers_keys),
		cmocka_unit_test(blocks_of_ids_never_meet_those_of_images_and_daemons),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
