/* SPDX-License-Identifier: Apache-2.0 */
/* Names, targets, entries and their match (E11; ESCAPES e 48, e 56; CASES G33, G35). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "policy/host.h"

struct match_row {
	const char *entry, *host;
	uint16_t port;
	bool want;
};

static const struct match_row match_rows[] = {
	{ "pypi.org", "pypi.org", 443, true },
	{ "pypi.org", "files.pypi.org", 443, true },
	{ "pypi.org", "a.b.files.pypi.org", 443, true },
	{ "pypi.org", "notpypi.org", 443, false },
	{ "pypi.org", "pypi.org.evil.example", 443, false },
	{ "pypi.org", "pypi.orgx", 443, false },
	{ "pypi.org", "org", 443, false },
	{ "PyPI.Org", "FILES.pypi.ORG", 443, true },
	{ "*.example.com", "example.com", 1, true },
	{ "*.example.com", "a.example.com", 1, true },
	{ "*.example.com", "evilexample.com", 1, false },
	{ "*.example.com.", "a.example.com.", 1, true },
	{ "example.com.", "example.com", 1, true },
	{ "example.com", "example.com.", 443, true },
	{ "example.com", "example.com..", 443, false },
	{ "*.com", "example.com", 1, true },
	{ "com", "example.com", 1, true },
	{ "trusted.net", "untrusted.net", 1, false },
	{ "", "example.com", 1, false },
	{ "*.", "example.com", 1, false },
	{ "*", "example.com", 1, false },
	{ ".", "example.com", 1, false },
	{ "..", "example.com", 1, false },
	{ "*..", "example.com", 1, false },
	{ ".example.com", "a.example.com", 1, false },
	{ "*.*.example.com", "a.b.example.com", 1, false },
	{ "a.*.com", "a.b.com", 1, false },
	{ "ex*mple.com", "example.com", 1, false },
	{ "example.com:443", "example.com", 443, true },
	{ "example.com:443", "a.example.com", 443, true },
	{ "example.com:443", "example.com", 80, false },
	{ "*.example.com:8443", "a.example.com", 8443, true },
	{ "example.com:0", "example.com", 80, false },
	{ "example.com:65536", "example.com", 80, false },
	{ "example.com:65616", "example.com", 80, false },
	{ "example.com:", "example.com", 80, false },
	{ "example.com:080", "example.com", 80, false },
	{ "example.com:+80", "example.com", 80, false },
	{ "example.com:80x", "example.com", 80, false },
	{ "example.com:80:80", "example.com", 80, false },
	{ "https://example.com", "example.com", 443, false },
	{ "example.com/", "example.com", 443, false },
	{ "user@example.com", "example.com", 443, false },
	{ " example.com", "example.com", 443, false },
	{ "example.com ", "example.com", 443, false },
	{ "ex\u00e4mple.com", "ex\u00e4mple.com", 443, false },
	{ "\uff45xample.com", "example.com", 443, false },
	{ "192.0.2.1", "192.0.2.1", 443, true },
	{ "192.0.2.1:443", "192.0.2.1", 443, true },
	{ "192.0.2.1:443", "192.0.2.1", 80, false },
	{ "192.0.2.1", "1.192.0.2.1", 443, false },
	{ "2.1", "192.0.2.1", 443, false },
	{ "*.192.0.2.1", "192.0.2.1", 443, false },
	{ "192.0.2.1", "192.0.2.10", 443, false },
	{ "192.0.2.1", "::ffff:192.0.2.1", 443, false },
	{ "2001:db8::1", "2001:db8::1", 443, true },
	{ "2001:db8::1", "[2001:DB8:0::1]", 443, true },
	{ "[2001:db8::1]", "2001:db8::1", 443, true },
	{ "[2001:db8::1]:443", "2001:db8::1", 443, true },
	{ "[2001:db8::1]:443", "2001:db8::1", 80, false },
	{ "2001:db8::1", "2001:db8::2", 443, false },
	{ "[2001:db8::1", "2001:db8::1", 443, false },
	{ "az.example", "AZ.Example", 443, true },
	{ "::1", "::1.", 443, false },
	{ "::1", "x::1]", 443, false },
	{ "::1", "[::1x", 443, false },
	{ "localhost", "localhost", 80, true },
	{ "localhost", "localhost.localdomain", 80, false },
};

static bool match(const struct match_row *r)
{
	struct host_entry entry;
	struct host host;

	host_entry_parse(r->entry, strlen(r->entry), &entry);
	return host_parse(r->host, strlen(r->host), &host) &&
	       host_entry_matches(&entry, &host, r->port);
}

static void entries_match_what_they_name(void **state)
{
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(match_rows); i++)
		if (match(&match_rows[i]) != match_rows[i].want) {
			print_error("%s on %s:%u\n", match_rows[i].entry, match_rows[i].host,
				    match_rows[i].port);
			wrong++;
		}
	assert_int_equal(wrong, 0);
}

/* Targets: NULL is refused, else the host:port it stands for. */
static const struct {
	const char *text, *want;
} target_rows[] = {
	{ "example.com:443", "example.com:443" },
	{ "EXAMPLE.com.:443", "example.com:443" },
	{ "a_b.example.com:1", "a_b.example.com:1" },
	{ "8.8.8.8:53", "8.8.8.8:53" },
	{ "8.8.8.8.:53", "8.8.8.8:53" },
	{ "[2001:DB8::1]:443", "[2001:db8::1]:443" },
	{ "[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80" },
	{ "xn--bcher-kva.example:443", "xn--bcher-kva.example:443" },
	{ "example.com:65535", "example.com:65535" },
	{ "EXAMPLE.ZZ:1", "example.zz:1" },
	/* no numbers, though they look a little like it */
	{ "host.abc:1", "host.abc:1" },
	{ "host.0a:1", "host.0a:1" },
	{ "host.axf:1", "host.axf:1" },
	{ "example.com", NULL }, { "example.com:", NULL }, { ":443", NULL }, { "", NULL },
	{ ":", NULL }, { "example.com:0", NULL }, { "example.com:65536", NULL },
	{ "example.com:65616", NULL }, { "example.com:4294967376", NULL },
	{ "example.com:99999999999999999999", NULL }, { "example.com:-1", NULL },
	{ "example.com:+443", NULL }, { "example.com: 443", NULL }, { "example.com:443 ", NULL },
	{ "example.com:0443", NULL }, { "example.com:0x1bb", NULL }, { "example.com:443/", NULL },
	{ "example.com:80:443", NULL }, { "example.com.:", NULL }, { "example.com..:443", NULL },
	{ ".:443", NULL }, { "..:443", NULL }, { ".example.com:443", NULL },
	{ "a..example.com:443", NULL }, { "user@example.com:443", NULL },
	{ "user:pw@example.com:443", NULL }, { "example.com@127.0.0.1:80", NULL },
	{ "http://example.com:80", NULL }, { "exa mple.com:443", NULL },
	{ "example.com\t:443", NULL }, { "example.com\r\n:443", NULL },
	{ "example%2ecom:443", NULL }, { "127%2e0.0.1:80", NULL }, { "*.example.com:443", NULL },
	{ "2001:db8::1:443", NULL }, { "[2001:db8::1]", NULL }, { "[2001:db8::1]443", NULL },
	{ "[2001:db8::1:443", NULL }, { "2001:db8::1]:443", NULL }, { "[]:443", NULL },
	{ "[8.8.8.8]:443", NULL }, { "[example.com]:443", NULL }, { "[fe80::1%eth0]:443", NULL },
	{ "[::1]]:443", NULL }, { "[[::1]]:443", NULL },
	{ "2130706433:80", NULL }, { "0x7f000001:80", NULL }, { "0X7F.1:80", NULL },
	{ "017700000001:80", NULL }, { "127.1:80", NULL }, { "127.0.1:80", NULL },
	{ "0177.0.0.1:80", NULL }, { "0x7f.0.0.1:80", NULL }, { "127.0.0.1.1:80", NULL },
	{ "1.2.3.256:80", NULL }, { "example.123:80", NULL }, { "example.0x7f:80", NULL },
	{ "example.0xa:80", NULL }, { "example.0xf:80", NULL }, { "[:443", NULL }, { "[", NULL },
	{ "example.0xfg:80", "example.0xfg:80" }, /* no number to any resolver */
	{ "0:80", NULL }, { "0x:80", NULL }, { "127.0.0.1..:80", NULL },
	{ "\uff11\uff12\uff17.0.0.1:80", NULL }, { "127\u30020\u30020\u30021:80", NULL },
	{ "exam\u00adple.com:443", NULL }, { "b\u00fccher.example:443", NULL },
	{ "\u24d4xample.com:443", NULL }, { "localhost\u200b:80", NULL },
};

static void targets_are_canonical_or_refused(void **state)
{
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(target_rows); i++) {
		char got[HOST_TEXT_MAX] = "";
		struct target t;
		bool ok = target_parse(target_rows[i].text, strlen(target_rows[i].text), 0, &t);

		if (ok)
			target_format(&t, 0, got);
		if (ok == !target_rows[i].want || (ok && strcmp(got, target_rows[i].want) != 0)) {
			print_error("%s -> %s\n", target_rows[i].text, ok ? got : "refused");
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static void a_nul_is_never_part_of_a_name(void **state)
{
	struct target t;

	(void)state;
	assert_false(target_parse("example.com\0.evil:80", 20, 0, &t));
	assert_false(target_parse("example.com:80\0", 15, 0, &t));
	assert_false(target_parse("127.0.0.1\0:80", 13, 0, &t));
}

static void names_have_the_lengths_of_dns(void **state)
{
	char label[70], name[300];
	struct host h;

	(void)state;
	memset(label, 'a', sizeof(label));
	assert_true(host_parse(label, 63, &h));
	assert_false(host_parse(label, 64, &h));
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 32 == 31 ? '.' : 'a';
	assert_true(host_parse(name, 253, &h));
	assert_false(host_parse(name, 254, &h));
	name[253] = '.';
	assert_true(host_parse(name, 254, &h)); /* a trailing dot is not part of the name */
	assert_int_equal(strlen(h.name), 253);
}

static void a_default_port_stands_in_where_none_is_written(void **state)
{
	struct target t;

	(void)state;
	assert_true(target_parse("example.com", 11, 80, &t));
	assert_int_equal(t.port, 80);
	assert_true(target_parse("[::1]", 5, 80, &t));
	assert_true(target_parse("example.com:81", 14, 80, &t));
	assert_int_equal(t.port, 81);
	assert_false(target_parse("example.com:", 12, 80, &t));
}

static struct host_entry entry_of(const char *text)
{
	struct host_entry e;

	assert_true(host_entry_parse(text, strlen(text), &e));
	return e;
}

static void the_meet_is_the_narrower_of_both(void **state)
{
	static const struct {
		const char *a, *b, *want;
	} cases[] = {
		{ "pypi.org", "pypi.org", "pypi.org" },
		{ "files.pypi.org", "pypi.org", "files.pypi.org" },
		{ "pypi.org", "files.pypi.org:443", "files.pypi.org:443" },
		{ "files.pypi.org", "pypi.org:443", "files.pypi.org:443" },
		{ "pypi.org:80", "pypi.org:443", NULL },
		{ "pypi.org", "notpypi.org", NULL },
		{ "192.0.2.1", "192.0.2.1:80", "192.0.2.1:80" },
		{ "192.0.2.1", "192.0.2.2", NULL },
		{ "[2001:db8::1]:80", "2001:db8::1", "[2001:db8::1]:80" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_entry a = entry_of(cases[i].a), b = entry_of(cases[i].b), m;
		char text[HOST_TEXT_MAX];

		for (int turn = 0; turn < 2; turn++) {
			bool any = turn ? host_entry_meet(&a, &b, &m) : host_entry_meet(&b, &a, &m);
			assert_int_equal(any, cases[i].want != NULL);
			if (!any)
				continue;
			host_entry_format(&m, text);
			assert_string_equal(text, cases[i].want);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_match_what_they_name),
		cmocka_unit_test(targets_are_canonical_or_refused),
		cmocka_unit_test(a_nul_is_never_part_of_a_name),
		cmocka_unit_test(names_have_the_lengths_of_dns),
		cmocka_unit_test(a_default_port_stands_in_where_none_is_written),
		cmocka_unit_test(the_meet_is_the_narrower_of_both),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("policy_host", tests, NULL, NULL);
}
