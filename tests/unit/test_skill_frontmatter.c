/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front matter as real skills write it, and everything that only looks like
 * it. What is refused leaves no field behind; what is read is read whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "skill/frontmatter.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *text, *name, *description;
	bool is_present, requires_execution;
} good[] = {
	{ "", "", "", false, false },
	{ "# Just a document\n", "", "", false, false },
	{ "--- \nname: a\n---\n", "a", "", true, false },
	{ "---\n---\n", "", "", true, false },
	{ "----\nname: a\n---\n", "", "", false, false },
	{ " ---\nname: a\n---\n", "", "", false, false },
	{ "---\nname: pdf\ndescription: Read and fill PDF forms. Use when a PDF is mentioned\n---\n# PDF\n",
	  "pdf", "Read and fill PDF forms. Use when a PDF is mentioned", true, false },
	{ "---\r\nname: win\r\ndescription: crlf\r\n---\r\nbody\r\n", "win", "crlf", true, false },
	{ "\xef\xbb\xbf---\nname: bom\n---\n", "bom", "", true, false },
	{ "---\nname: \"double \\\"quoted\\\" \\u00e9 \\x41\\n\"\n---\n", "double \"quoted\" \xc3\xa9 A\n", "", true, false },
	{ "---\nname: \"\\u4F60 \\u20ac \\uFFFD\"\n---\n", "\xe4\xbd\xa0 \xe2\x82\xac \xef\xbf\xbd", "", true, false },
	{ "---\nlicense:\nversion: # none\nname: a\n---\n", "a", "", true, false },
	{ "---\nname: 'single ''quoted'' \\n'\n---\n", "single 'quoted' \\n", "", true, false },
	{ "---\ndescription: |\n  first\n  second\n\n  after a gap\n---\n", "", "first\nsecond\n\nafter a gap", true, false },
	{ "---\ndescription: |\n  first\n    indented\n---\n", "", "first\n  indented", true, false },
	{ "---\ndescription: >-\n  folded\n  text\n\n  next\nname: n\n---\n", "n", "folded text\nnext", true, false },
	{ "---\ndescription: >2\n  digits\n---\n", "", "digits", true, false },
	{ "---\ndescription:\n  on the next\n  lines\nname: n\n---\n", "n", "on the next lines", true, false },
	{ "---\ndescription: plain\n  goes on\n---\n", "", "plain goes on", true, false },
	{ "---\ndescription: \"quoted\n  goes on\"\n---\n", "", "quoted goes on", true, false },
	{ "---\nname: a # a comment\n# another\n\ndescription: b#no comment\n---\n", "a", "b#no comment", true, false },
	{ "---\nname: https://example.org/x?a=b\n---\n", "https://example.org/x?a=b", "", true, false },
	{ "---\nrequiresExecution: true\n---\n", "", "", true, true },
	{ "---\nrequiresExecution: false\n---\n", "", "", true, false },
	{ "---\nname: a\nmetadata:\n  author: me\n  requiresExecution: true\n  tags: [a, b]\n---\n", "a", "", true, false },
	{ "---\nx-unknown: [1, {a: b}, \"c, d\"]\nname: a\n...\n", "a", "", true, false },
	{ "---\nlist:\n- one\n- two: 2\n  deeper: 3\n-\nname: a\n---\n", "a", "", true, false },
	{ "---\nlist:\n  - one\n  - 'two'\nname: a\n---\n", "a", "", true, false },
	{ "---\nflow: [a,\n  b]\nname: a\n---\n", "a", "", true, false },
	{ "---\nname: caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80\n---\n", "caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80", "", true, false },
	{ "---\nname: a\n---\nrequiresExecution: true\n\xff\xfe binary", "a", "", true, false },
};

static const struct {
	const char *text, *fault;
	unsigned line;
} bad[] = {
	{ "---\nname: a\n", "closing", 3 },
	{ "---", "closing", 2 },
	{ "---\nname: a\nname: b\n---\n", "given twice", 3 },
	{ "---\nx: 1\ny: 2\nx: 3\n---\n", "given twice", 4 },
	{ "---\n\tname: a\n---\n", "tab", 2 },
	{ "---\nm:\n\ta: b\n---\n", "tab", 3 },
	{ "---\nname: &anchor a\n---\n", "anchors", 3 },
	{ "---\nname: *alias\n---\n", "anchors", 3 },
	{ "---\nname: !tag a\n---\n", "anchors", 3 },
	{ "---\nname: @a\n---\n", "anchors", 3 },
	{ "---\nname: - a\n---\n", "anchors", 3 },
	{ "---\nname: a: b\n---\n", "in quotes", 3 },
	{ "---\nname: a:\n---\n", "in quotes", 3 },
	{ "---\nname: \"open\n---\n", "not closed", 3 },
	{ "---\nname: 'open\nb: c\n---\n", "not closed", 3 },
	{ "---\nname: \"a\" b\n---\n", "after the value", 3 },
	{ "---\nname: \"a\"#b\n---\n", "after the value", 3 },
	{ "---\nname: \"\\q\"\n---\n", "escape", 3 },
	{ "---\nname: \"\\u12\"\n---\n", "escape", 3 },
	{ "---\nname: \"\\xg1\"\n---\n", "escape", 3 },
	{ "---\nname: \"\\u004/\"\n---\n", "escape", 3 },
	{ "---\nname: \"\\ud800\"\n---\n", "escape", 3 },
	{ "---\nname: \"\\x00\"\n---\n", "escape", 3 },
	{ "---\nx: [a\n---\n", "bracket", 3 },
	{ "---\nx: [\"a\n  b\"]\n---\n", "not closed", 3 },
	{ "---\nx: ['a]\n---\n", "not closed", 3 },
	{ "---\nx: [\"\\q\"]\n---\n", "escape", 3 },
	{ "---\nx:\n- \"a\n- b\n---\n", "not closed", 4 },
	{ "---\nx:\n  - '\n---\n", "not closed", 4 },
	{ "---\nx:\n- \"a\" b\n---\n", "after the value", 4 },
	{ "---\nx:\n  - a\n - b\n---\n", "unevenly", 4 },
	{ "---\nx: [a}\n---\n", "match", 3 },
	{ "---\nx: [a] b\n---\n", "after the value", 3 },
	{ "---\nx: [[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]\n---\n", "deeply", 3 },
	{ "---\nname: [a]\n---\n", "wrong type", 3 },
	{ "---\nname:\n  a: b\n---\n", "wrong type", 4 },
	{ "---\nname:\n---\n", "wrong type", 3 },
	{ "---\ndescription: [a, b]\n---\n", "wrong type", 3 },
	{ "---\nrequiresExecution: yes\n---\n", "requiresExecution", 3 },
	{ "---\nrequiresExecution: True\n---\n", "requiresExecution", 3 },
	{ "---\nrequiresExecution: \"true\"\n---\n", "requiresExecution", 3 },
	{ "---\nrequiresExecution: 1\n---\n", "requiresExecution", 3 },
	{ "---\nrequiresExecution:\n---\n", "requiresExecution", 3 },
	{ "---\nrequiresExecution: [true]\n---\n", "requiresExecution", 3 },
	{ "---\n  name: a\n---\n", "indentation", 2 },
	{ "---\nname a\n---\n", "not a key", 2 },
	{ "---\n: a\n---\n", "not a key", 2 },
	{ "---\n- a\n---\n", "not a key", 2 },
	{ "---\nname:a\n---\n", "not a key", 2 },
	{ "---\nm:\n  a: b\n c: d\n---\n", "unevenly", 4 },
	{ "---\nm:\n  just words\n  a: b\n---\n", "in quotes", 5 },
	{ "---\nm:\n  a: b\n  just words\n---\n", "not a key", 4 },
	{ "---\nx: |\n  a\n b\n---\n", "unevenly", 5 },
	{ "---\nx: |q\n  a\n---\n", "malformed block", 3 },
	{ "---\nname: \xff\n---\n", "UTF-8", 3 },
	{ "---\nname: \xc3(\n---\n", "UTF-8", 3 },
	{ "---\nname: \xe4\xbd(\n---\n", "UTF-8", 3 },
	{ "---\nname: \xc0\xaf\n---\n", "UTF-8", 3 },
	{ "---\nname: \xed\xa0\x80\n---\n", "UTF-8", 3 },
	{ "---\nname: a\x01\n---\n", "control", 3 },
	{ "---\nname: a\x7f\n---\n", "control", 3 },
};

static void what_skills_write_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(good); i++) {
		struct front_matter fm;
		uint32_t line = 0;
		const char *fault = front_matter_read(good[i].text, strlen(good[i].text), &fm, &line);
		if (fault)
			fail_msg("case %zu: line %u: %s\n%s", i, line, fault, good[i].text);
		assert_int_equal(fm.is_present, good[i].is_present);
		assert_string_equal(fm.name, good[i].name);
		assert_string_equal(fm.description, good[i].description);
		assert_int_equal(fm.requires_execution, good[i].requires_execution);
	}
}

static void what_only_looks_like_it_is_refused_whole(void **state)
{
	static const struct front_matter none;

	(void)state;
	for (size_t i = 0; i < LEN(bad); i++) {
		struct front_matter fm;
		uint32_t line = 0;
		const char *fault = front_matter_read(bad[i].text, strlen(bad[i].text), &fm, &line);
		if (!fault || !strstr(fault, bad[i].fault) || line != bad[i].line)
			fail_msg("case %zu: line %u: %s\n%s", i, line, fault ? fault : "accepted",
				 bad[i].text);
		assert_memory_equal(&fm, &none, sizeof(fm));
	}
}

static void a_nul_is_refused(void **state)
{
	static const char text[] = "---\nname: a\0b\n---\n";
	struct front_matter fm;
	uint32_t line;

	(void)state;
	assert_non_null(front_matter_read(text, sizeof(text) - 1, &fm, &line));
}

static void all_known_keys_are_kept(void **state)
{
	static const char text[] = "---\nname: n\ndescription: d\nlicense: Apache-2.0\nversion: 1.2\n"
				   "compatibility: python>=3.9\nallowed-tools:\n  - Bash(git *)\n  - Read\n---\n";
	struct front_matter fm;
	uint32_t line;

	(void)state;
	assert_null(front_matter_read(text, sizeof(text) - 1, &fm, &line));
	assert_string_equal(fm.license, "Apache-2.0");
	assert_string_equal(fm.version, "1.2");
	assert_string_equal(fm.compatibility, "python>=3.9");
	assert_string_equal(fm.allowed_tools, "Bash(git *), Read");
}

static void what_is_too_long_is_refused(void **state)
{
	static char text[FRONT_MATTER_MAX + 100];
	struct front_matter fm;
	uint32_t line;

	(void)state;
	strcpy(text, "---\nname: ");
	memset(text + strlen(text), 'x', 256);
	strcat(text, "\n---\n");
	assert_string_equal(front_matter_read(text, strlen(text), &fm, &line), "a value is too long");
	memset(text, 'x', sizeof(text));
	memcpy(text, "---\nunknown: ", 13);
	assert_string_equal(front_matter_read(text, sizeof(text), &fm, &line), "the closing --- is missing");
	char many[FRONT_MATTER_KEYS_MAX * 10 + 100] = "---\n";
	for (int i = 0; i <= FRONT_MATTER_KEYS_MAX; i++) {
		char key[8] = { 'k', (char)('a' + i / 26), (char)('a' + i % 26), ':', ' ', '1', '\n' };
		strcat(many, key);
	}
	assert_string_equal(front_matter_read(many, strlen(many), &fm, &line), "too many keys");
}

static void the_advice_looks_at_the_rollout_alone(void **state)
{
	(void)state;
	assert_non_null(front_matter_advice(true, false));
	assert_null(front_matter_advice(true, true));
	assert_null(front_matter_advice(false, false));
	assert_null(front_matter_advice(false, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_skills_write_is_read),
		cmocka_unit_test(what_only_looks_like_it_is_refused_whole),
		cmocka_unit_test(a_nul_is_refused),
		cmocka_unit_test(all_known_keys_are_kept),
		cmocka_unit_test(what_is_too_long_is_refused),
		cmocka_unit_test(the_advice_looks_at_the_rollout_alone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("skill_frontmatter", tests, NULL, NULL);
}
