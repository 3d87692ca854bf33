/* SPDX-License-Identifier: Apache-2.0 */
/* The options engine, and the words of its refusals. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "cli/options.h"

struct got {
	bool flag;
	const char *text, *command;
	struct option_list list;
	struct option_number size, milli, count;
};

static const struct option rows[] = {
	OPTION(struct got, flag, "flag", 'f', OPTION_FLAG, NULL, ""),
	OPTION(struct got, text, "text", 0, OPTION_TEXT, "T", ""),
	OPTION(struct got, list, "list", 0, OPTION_LIST, "L", ""),
	OPTION(struct got, size, "size", 0, OPTION_SIZE, "SIZE", ""),
	OPTION(struct got, milli, "milli", 0, OPTION_MILLI, "S", ""),
	OPTION(struct got, count, "count", 0, OPTION_COUNT, "N", ""),
	OPTION(struct got, text, "soon", 0, OPTION_LATER, "X", ""),
	{ "command", 'c', OPTION_TEXT, offsetof(struct got, command), "COMMAND", "", true },
};

struct parsed {
	struct got got;
	struct common common;
	struct rest rest;
	char *args[32];
	struct err e;
};

#define PARSE(p, ...) parse(p, OPTIONS_MIXED, (const char *const[]){ __VA_ARGS__, NULL })
#define PARSE_STOP(p, ...) parse(p, OPTIONS_STOP, (const char *const[]){ __VA_ARGS__, NULL })

static int parse(struct parsed *p, enum option_mode mode, const char *const *args)
{
	memset(p, 0, sizeof(*p));
	for (; args[p->rest.argc]; p->rest.argc++)
		p->args[p->rest.argc] = (char *)(uintptr_t)args[p->rest.argc];
	p->rest.argv = p->args;
	return options_parse(rows, ARRAY_SIZE(rows), mode, &p->rest, &p->got, &p->common, &p->e);
}

static void every_kind_is_read(void **state)
{
	struct parsed p;

	(void)state;
	assert_int_equal(PARSE(&p, "-f", "--text=a=b", "--list", "1", "--list=2", "--size", "3K",
			       "--milli", "1.5", "--count", "0", "--json", "--root", "/r", "--",
			       "--flag"),
			 0);
	assert_true(p.got.flag);
	assert_string_equal(p.got.text, "a=b");
	assert_int_equal(p.got.list.n, 2);
	assert_int_equal(p.got.size.value, 3072);
	assert_int_equal(p.got.milli.value, 1500);
	assert_true(p.got.count.is_given);
	assert_int_equal(p.got.count.value, 0);
	assert_true(p.common.is_json);
	assert_string_equal(p.common.root, "/r");
	assert_true(p.rest.has_dashes);
	assert_int_equal(p.rest.operands, 0);
	assert_int_equal(p.rest.argc, 1);
	assert_string_equal(p.rest.argv[0], "--flag");
}

static void a_verb_ends_it(void **state)
{
	struct parsed p;

	(void)state;
	assert_int_equal(PARSE_STOP(&p, "-f", "job", "--text", "x"), 0);
	assert_int_equal(p.rest.argc, 3);
	assert_string_equal(p.rest.argv[0], "job");
	assert_false(p.rest.has_dashes);
	assert_null(p.got.text);
}

static void operands_stand_anywhere_before_the_dashes(void **state)
{
	struct parsed p;

	(void)state;
	assert_int_equal(PARSE(&p, "one", "-f", "two", "--text", "x", "-", "--", "-f", "three"), 0);
	assert_int_equal(p.rest.operands, 3);
	assert_int_equal(p.rest.argc, 5);
	assert_string_equal(p.rest.argv[0], "one");
	assert_string_equal(p.rest.argv[1], "two");
	assert_string_equal(p.rest.argv[2], "-");
	assert_string_equal(p.rest.argv[3], "-f");
	assert_string_equal(p.rest.argv[4], "three");
	assert_string_equal(p.got.text, "x");
	assert_int_equal(PARSE(&p, "--"), 0);
	assert_true(p.rest.has_dashes);
	assert_int_equal(p.rest.argc, 0);
}

static void a_command_ends_it_too(void **state)
{
	struct parsed p;

	(void)state;
	assert_int_equal(PARSE(&p, "job", "-c", "--flag", "--text", "x"), 0);
	assert_string_equal(p.got.command, "--flag");
	assert_int_equal(p.rest.operands, 1);
	assert_int_equal(p.rest.argc, 3);
	assert_string_equal(p.rest.argv[1], "--text");
	assert_int_equal(PARSE(&p, "-cexit 3"), 0);
	assert_string_equal(p.got.command, "exit 3");
}

static void a_refusal_names_the_option(void **state)
{
	static const struct {
		const char *args[4];
		int code;
		const char *words;
	} bad[] = {
		{ { "--nope" }, EINVAL, "unknown option '--nope'" },
		{ { "-x" }, EINVAL, "unknown option '-x'" },
		{ { "--tex", "a" }, EINVAL, "unknown option '--tex'" },
		{ { "--flag=1" }, EINVAL, "'--flag' takes no value" },
		{ { "--text" }, EINVAL, "'--text' wants T" },
		{ { "--size", "-1" }, EINVAL, "'--size' wants an integer" },
		{ { "--size", "1.5G" }, EINVAL, "'--size' wants an integer" },
		{ { "--size", "99999999999G" }, EINVAL, "'--size' wants" },
		{ { "--size", "" }, EINVAL, "'--size' wants" },
		{ { "--milli", "-1" }, EINVAL, "'--milli' wants a decimal" },
		{ { "--milli", "1e3" }, EINVAL, "'--milli' wants a decimal" },
		{ { "--milli", "inf" }, EINVAL, "'--milli' wants" },
		{ { "--count", "18446744073709551616" }, EINVAL, "'--count' wants" },
		{ { "--count", "9223372036854775808" }, EINVAL, "'--count' wants" },
		{ { "--count", "+1" }, EINVAL, "'--count' wants" },
		{ { "--soon", "x" }, ENOSYS, "'--soon' is not built yet" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct parsed p;
		assert_int_equal(parse(&p, OPTIONS_MIXED, bad[i].args), -bad[i].code);
		if (!strstr(p.e.msg, bad[i].words))
			fail_msg("%s: %s", bad[i].args[0], p.e.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_read),
		cmocka_unit_test(a_verb_ends_it),
		cmocka_unit_test(operands_stand_anywhere_before_the_dashes),
		cmocka_unit_test(a_command_ends_it_too),
		cmocka_unit_test(a_refusal_names_the_option),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
