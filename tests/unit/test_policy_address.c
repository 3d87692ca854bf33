/* SPDX-License-Identifier: Apache-2.0 */
/* Every spelling of an address that has passed somebody's filter (E9; ESCAPES d 41, e 48). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "abi/address_match.h"
#include "base/scope.h"
#include "policy/address.h"

#define U ADDRESS_UNPARSABLE
#define P ADDRESS_PROTECTED
#define OK ADDRESS_PUBLIC

struct row {
	const char *text;
	enum address_class want;
};

static const struct row rows[] = {
	/* the list and its borders, IPv4 */
	{ "0.0.0.0", P }, { "0.255.255.255", P }, { "1.0.0.0", OK }, { "9.255.255.255", OK },
	{ "10.0.0.0", P }, { "10.255.255.255", P }, { "11.0.0.0", OK },
	{ "100.63.255.255", OK }, { "100.64.0.0", P }, { "100.127.255.255", P },
	{ "100.128.0.0", OK }, { "126.255.255.255", OK }, { "127.0.0.0", P },
	{ "127.0.0.1", P }, { "127.1.2.3", P }, { "127.255.255.255", P }, { "128.0.0.0", OK },
	{ "169.253.255.255", OK }, { "169.254.0.0", P }, { "169.254.169.254", P },
	{ "169.254.255.255", P }, { "169.255.0.0", OK }, { "172.15.255.255", OK },
	{ "172.16.0.0", P }, { "172.31.255.255", P }, { "172.32.0.0", OK },
	{ "192.167.255.255", OK }, { "192.168.0.0", P }, { "192.168.255.255", P },
	{ "192.169.0.0", OK }, { "223.255.255.255", OK }, { "224.0.0.0", P },
	{ "239.255.255.250", P }, { "240.0.0.1", P }, { "255.255.255.255", P },
	{ "8.8.8.8", OK }, { "198.51.100.7", OK },
	/* IPv6 and its borders */
	{ "::", P }, { "::1", P }, { "0:0:0:0:0:0:0:0", P }, { "0:0:0:0:0:0:0:1", P },
	{ "0000:0000:0000:0000:0000:0000:0000:0001", P }, { "fe80::", P }, { "fe80::1", P },
	{ "febf:ffff::1", P }, { "FE80::1", P }, { "fe7f::1", OK }, { "fec0::1", OK },
	{ "fc00::", P }, { "fc00::1", P }, { "fdff:ffff::1", P }, { "fd00:ec2::254", P },
	{ "fbff::1", OK }, { "fe00::1", OK }, { "ff02::1", P }, { "ff00::", P }, { "ff0e::1", P },
	{ "2001:4860:4860::8888", OK }, { "2606:4700:4700::1111", OK },
	{ "2001:DB8::A", OK }, { "1::", OK }, { "::2:0:0:0:1", OK },
	/* IPv4-mapped and IPv4-compatible */
	{ "::ffff:127.0.0.1", P }, { "::ffff:7f00:1", P }, { "::FFFF:7F00:0001", P },
	{ "0:0:0:0:0:ffff:127.0.0.1", P }, { "0:0:0:0:0:ffff:7f00:1", P },
	{ "::ffff:169.254.169.254", P }, { "::ffff:a9fe:a9fe", P }, { "::ffff:10.0.0.1", P },
	{ "::ffff:c0a8:101", P }, { "::ffff:192.168.1.1", P }, { "::ffff:0.0.0.0", P },
	{ "::ffff:0:0", P }, { "::ffff:8.8.8.8", OK }, { "::ffff:808:808", OK },
	{ "::127.0.0.1", P }, { "::7f00:1", P }, { "::10.1.2.3", P }, { "::a9fe:a9fe", P },
	{ "::8.8.8.8", OK }, { "::2", P }, { "::255.255.255.255", P },
	/* SIIT, ::ffff:0:a.b.c.d */
	{ "::ffff:0:127.0.0.1", P }, { "::ffff:0:7f00:1", P }, { "::ffff:0:169.254.169.254", P },
	{ "::ffff:0:8.8.8.8", OK },
	/* NAT64, well-known prefix */
	{ "64:ff9b::127.0.0.1", P }, { "64:ff9b::7f00:1", P }, { "64:FF9B::7F00:1", P },
	{ "0064:ff9b:0:0:0:0:7f00:0001", P }, { "64:ff9b::a9fe:a9fe", P },
	{ "64:ff9b::10.0.0.1", P }, { "64:ff9b::", P }, { "64:ff9b::8.8.8.8", OK },
	{ "64:ff9b::c000:201", OK },
	/* NAT64, local-use prefix: /48, /56, /64 and /96 layouts */
	{ "64:ff9b:1:7f00:0:100::", P }, { "64:ff9b:1:a9fe:a9:fe00::", P },
	{ "64:ff9b:1:a9fe:a9:fe00:0:1", P }, { "64:ff9b:1:7f:0:1::", P },
	{ "64:ff9b:1:a9:fe:a9fe::", P }, { "64:ff9b:1:0:7f:0:100::", P },
	{ "64:ff9b:1:0:a9:fea9:fe00::", P }, { "64:ff9b:1::127.0.0.1", P },
	{ "64:ff9b:1::a9fe:a9fe", P }, { "64:ff9b:1:abcd::192.168.0.1", P },
	{ "64:ff9b:1::", P }, { "64:ff9b:1::1", P }, { "64:ff9b:1::8.8.8.8", OK },
	{ "64:ff9b:1:808:8:800::", OK }, { "64:ff9b:2::7f00:1", OK },
	/* 6to4, Teredo (server; client inverted), ISATAP */
	{ "2002:7f00:1::", P }, { "2002:7f00:1::1", P }, { "2002:a9fe:a9fe::1", P },
	{ "2002:c0a8:101:1::1", P }, { "2002:a00:1::", P }, { "2002:808:808::1", OK },
	{ "2003:7f00:1::", OK }, { "2001:0:7f00:1::", P }, { "2001:0:808:808:0:0:80ff:fffe", P },
	{ "2001:0000:0808:0808:0000:0000:5601:5601", P }, { "2001:0:808:808:0:0:f7f7:f7f7", OK },
	{ "2001:1:7f00:1::", OK }, { "2606:4700::5efe:127.0.0.1", P },
	{ "2606:4700::200:5efe:7f00:1", P }, { "2606:4700::5efe:a9fe:a9fe", P },
	{ "2606:4700::5efe:8.8.8.8", OK }, { "2606:4700::200:5efe:808:808", OK },
	{ "2606:4700::1:5efe:7f00:1", OK }, { "2002:808:808::5efe:7f00:1", P },
	/* spellings that are none: other bases, short, mixed */
	{ "2130706433", U }, { "017700000001", U }, { "0x7f000001", U }, { "0X7F000001", U },
	{ "127.1", U }, { "127.0.1", U }, { "0", U }, { "0x7f.1", U }, { "0x7f.0.0.1", U },
	{ "0177.0.0.1", U }, { "0177.0.0.01", U }, { "127.0.0.01", U }, { "127.0.0.001", U },
	{ "00.0.0.0", U }, { "0300.0250.1.1", U }, { "0xa9.0xfe.0xa9.0xfe", U },
	{ "0xa9fea9fe", U }, { "2852039166", U }, { "425.510.425.510", U }, { "256.0.0.1", U },
	{ "127.0.0.256", U }, { "127.0.0.1000", U }, { "127.0.0.99999999999", U },
	{ "4294967296", U }, { "127.0.0", U }, { "127.0.0.1.1", U }, { "127..0.1", U },
	{ ".127.0.0.1", U }, { "127.0.0.1.", U }, { "127.0.0.1..", U }, { "127.0.0.-1", U },
	{ "+127.0.0.1", U }, { "1e2.0.0.1", U }, { "127,0,0,1", U }, { "127.0.0.1/8", U },
	/* blanks and bytes around */
	{ "", U }, { " ", U }, { " 127.0.0.1", U }, { "127.0.0.1 ", U }, { "127.0.0.1\t", U },
	{ "127.0.0.1\n", U }, { "127.0.0.1\r\n", U }, { "127.0.0. 1", U }, { "127.0.0.1:80", U },
	{ "127.0.0.1%00", U }, { "127.0.0.1#", U }, { "127.0.0.1@8.8.8.8", U },
	{ "user@127.0.0.1", U }, { "%31%32%37.0.0.1", U }, { "127%2e0%2e0%2e1", U },
	/* brackets and zones */
	{ "[::1]", U }, { "[::1", U }, { "::1]", U }, { "[127.0.0.1]", U }, { "[::1]:80", U },
	{ "fe80::1%eth0", U }, { "fe80::1%1", U }, { "::1%lo", U }, { "fe80::1%25eth0", U },
	{ "fe80::1/64", U },
	/* malformed IPv6 */
	{ ":", U }, { ":::", U }, { "::1::", U }, { "1::2::3", U }, { "1:2:3:4:5:6:7", U },
	{ "1:2:3:4:5:6:7:8:9", U }, { "1:2:3:4:5:6:7:8::", U }, { "::1:2:3:4:5:6:7:8", U },
	{ "1:2:3:4:5:6:7:", U }, { ":1:2:3:4:5:6:7", U }, { "::12345", U }, { "::g", U },
	{ "::00001", U }, { "::ffff:127.0.0", U }, { "::ffff:127.0.0.01", U },
	{ "::ffff:0x7f.0.0.1", U }, { "::127.0.0.1:1", U }, { "127.0.0.1::", U },
	{ "1:2:3:4:5:6:7:127.0.0.1", U }, { "1:2:3:4:5:6:127.0.0.1", OK },
	{ "::ffff:256.0.0.1", U }, { "0x::1", U }, { "::-1", U },
	/* other scripts' digits and dots, invisible bytes */
	{ "\uff11\uff12\uff17.0.0.1", U }, { "127\u30020\u30020\u30021", U },
	{ "127\uff0e0\uff0e0\uff0e1", U }, { "\u2460\u2461\u2466.0.0.1", U },
	{ "127.0.0.1\u00ad", U }, { "127.0.0.\u0661", U }, { "\ufeff127.0.0.1", U },
	{ "127.0.0.1\u200b", U }, { "\uff3b::1\uff3d", U }, { "\xff\xfe", U },
	{ "localhost", U }, { "example.com", U },
	{ "000000000000000000000000000000000000000000000000000000127.0.0.1", U },
};

static enum address_class classify(const char *text, size_t len)
{
	struct address a;

	return address_parse(text, len, &a) ? address_classify(&a) : ADDRESS_UNPARSABLE;
}

static void every_spelling_has_its_class(void **state)
{
	unsigned wrong = 0;

	(void)state;
	assert_true(ARRAY_SIZE(rows) >= 150);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum address_class got = classify(rows[i].text, strlen(rows[i].text));
		if (got == rows[i].want)
			continue;
		print_error("%s: %s, want %s\n", rows[i].text, address_class_name(got),
			    address_class_name(rows[i].want));
		wrong++;
	}
	assert_int_equal(wrong, 0);
}

static void nul_inside_is_unparsable(void **state)
{
	(void)state;
	assert_int_equal(classify("127.0.0.1\0", 10), U);
	assert_int_equal(classify("8.8.8.8\0.evil", 13), U);
	assert_int_equal(classify("\0::1", 4), U);
}

/* Whatever the C library reads the same way must be read to the same bytes. */
static void agrees_with_inet_pton_where_it_parses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint8_t want[16] = { 0 };
		struct address a;

		if (!address_parse(rows[i].text, strlen(rows[i].text), &a))
			continue;
		assert_int_equal(inet_pton(a.family == 4 ? AF_INET : AF_INET6, rows[i].text, want),
				 1);
		assert_memory_equal(a.bytes, want, a.family == 4 ? 4 : 16);
	}
}

static void text_round_trips(void **state)
{
	uint32_t seed = 7;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		struct address a = { .family = i & 1 ? 6 : 4 }, b;
		char text[ADDRESS_TEXT_MAX], libc[INET6_ADDRSTRLEN];

		for (int j = 0; j < (a.family == 4 ? 4 : 16); j++) {
			seed = seed * 1664525 + 1013904223;
			a.bytes[j] = (seed >> 28) < 7 ? 0 : (uint8_t)(seed >> 16);
		}
		size_t n = address_format(&a, text);
		assert_int_equal(n, strlen(text));
		assert_true(address_parse(text, n, &b));
		assert_true(address_equal(&a, &b));
		if (a.family == 6 && address_be32(a.bytes) == 0)
			continue; /* the C library writes ::a.b.c.d there */
		inet_ntop(a.family == 4 ? AF_INET : AF_INET6, a.bytes, libc, sizeof(libc));
		assert_string_equal(text, libc);
	}
}

static struct address address_of(const char *text)
{
	struct address a = { 0 };

	assert_true(address_parse(text, strlen(text), &a));
	return a;
}

static void ranges_parse_strictly(void **state)
{
	static const char *const bad[] = { "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/08", "10.0.0.1/8",
					   "/8", "10/8", "::/129", "fe80::1/10", "10.0.0.0/-1",
					   "10.0.0.0/8 ", "x/8", "10.0.0.0/8/8",
					   "10.128.0.0/8", "2001:db8:8000::/32",
					   "2001:db8::1/127" };
	struct address_range r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(address_parse_range(bad[i], strlen(bad[i]), &r));
	assert_true(address_parse_range("203.0.113.0/24", 14, &r));
	struct address in = address_of("203.0.113.255"), out = address_of("203.0.114.0");
	assert_true(address_in_range(&in, &r));
	assert_false(address_in_range(&out, &r));
	assert_true(address_parse_range("0.0.0.0/0", 9, &r));
	assert_true(address_in_range(&out, &r));
	assert_true(address_parse_range("2001:db8::/33", 13, &r));
	in = address_of("2001:db8:7fff::1"), out = address_of("2001:db8:8000::1");
	assert_true(address_in_range(&in, &r));
	assert_false(address_in_range(&out, &r));
	assert_false(address_parse_range("203.0.113.0/24", 13, &r) && r.bits == 24);
	assert_true(address_parse_range("203.0.113.9", 11, &r));
	assert_int_equal(r.bits, 32);
}

static void rules_add_and_exempt_in_order(void **state)
{
	struct address_rules r = { .nnever = 1, .nexempt = 2, .nranges = 1 };
	struct address a;

	(void)state;
	r.never[0] = address_of("10.0.0.53");
	r.exempt[0] = address_of("10.0.0.9");
	r.exempt[1] = address_of("10.0.0.53");
	assert_true(address_parse_range("203.0.113.0/24", 14, &r.ranges[0]));
#define CLASS(text) (a = address_of(text), address_classify_under(&a, &r))
	assert_int_equal(CLASS("8.8.8.8"), OK);
	assert_int_equal(CLASS("10.0.0.9"), OK);
	assert_int_equal(CLASS("::ffff:10.0.0.9"), OK);
	assert_int_equal(CLASS("10.0.0.8"), P);
	assert_int_equal(CLASS("10.0.0.53"), P); /* never wins over an exception */
	assert_int_equal(CLASS("203.0.113.7"), P);
	assert_int_equal(CLASS("::ffff:203.0.113.7"), P);
	assert_int_equal(CLASS("64:ff9b::203.0.113.7"), P);
	assert_int_equal(CLASS("2002:cb00:7107::1"), P);
	assert_int_equal(CLASS("203.0.114.7"), OK);
	a.family = 0;
	assert_int_equal(address_classify(&a), U); /* never public for want of a family */
	assert_int_equal(address_classify_under(&a, &r), U);
}

static void classes_have_names_of_their_own(void **state)
{
	(void)state;
	assert_string_equal(address_class_name(OK), "public");
	assert_string_equal(address_class_name(P), "protected");
	assert_string_equal(address_class_name(U), "unparsable");
	assert_string_equal(address_class_name((enum address_class)99), "unparsable");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_spelling_has_its_class),
		cmocka_unit_test(nul_inside_is_unparsable),
		cmocka_unit_test(agrees_with_inet_pton_where_it_parses),
		cmocka_unit_test(text_round_trips),
		cmocka_unit_test(ranges_parse_strictly),
		cmocka_unit_test(rules_add_and_exempt_in_order),
		cmocka_unit_test(classes_have_names_of_their_own),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("policy_address", tests, NULL, NULL);
}
