/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration's lists, as rules: what is taken, what is refused, what fills up (E9, E10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/scope.h"
#include "policy/rules.h"

static struct address_rules r;
static struct rules_fault fault;

static struct address address_of(const char *text)
{
	struct address a = { 0 };

	assert_true(address_parse(text, strlen(text), &a));
	return a;
}

static enum address_class class_of(const char *text)
{
	struct address a = address_of(text);

	return address_classify_under(&a, &r);
}

static int start(void **state)
{
	(void)state;
	memset(&r, 0, sizeof(r));
	return 0;
}

static void words_stand_between_blanks_and_commas(void **state)
{
	(void)state;
	assert_true(rules_add_ranges(&r, " 203.0.113.0/24,\t198.51.100.7 , ", &fault));
	assert_int_equal(r.nranges, 2);
	assert_int_equal(class_of("203.0.113.200"), ADDRESS_PROTECTED);
	assert_int_equal(class_of("198.51.100.7"), ADDRESS_PROTECTED);
	assert_int_equal(class_of("8.8.8.8"), ADDRESS_PUBLIC);
	assert_true(rules_add_exceptions(&r, "::ffff:10.0.0.9 198.51.100.7", &fault));
	assert_int_equal(class_of("10.0.0.9"), ADDRESS_PUBLIC);
	assert_int_equal(class_of("198.51.100.7"), ADDRESS_PUBLIC);
}

static void a_fault_names_the_word(void **state)
{
	static const char text[] = "8.8.8.0/24 8.8.8.8/24, 9.9.9.9";

	(void)state;
	assert_false(rules_add_ranges(&r, text, &fault));
	assert_ptr_equal(fault.at, text + 11);
	assert_int_equal(fault.len, strlen("8.8.8.8/24"));
	assert_false(rules_add_exceptions(&r, text, &fault)); /* a range is no address */
	assert_ptr_equal(fault.at, text);
	assert_int_equal(r.nexempt, 0);
}

/* The host's own addresses are public ones: only the rule protects them. */
static void the_hosts_own_addresses_are_protected_exactly(void **state)
{
	struct address four = address_of("::ffff:8.8.8.8"), six = address_of("2a00:1450::1");

	(void)state;
	assert_int_equal(class_of("8.8.8.8"), ADDRESS_PUBLIC);
	assert_true(rules_add_own(&r, &four));
	assert_true(rules_add_own(&r, &six));
	assert_int_equal(class_of("8.8.8.8"), ADDRESS_PROTECTED);
	assert_int_equal(class_of("8.8.8.9"), ADDRESS_PUBLIC);
	assert_int_equal(class_of("2a00:1450::1"), ADDRESS_PROTECTED);
	assert_int_equal(class_of("2a00:1450::2"), ADDRESS_PUBLIC);
	assert_true(rules_add_exceptions(&r, "8.8.8.8", &fault));
	assert_int_equal(class_of("8.8.8.8"), ADDRESS_PUBLIC);
}

static void no_exception_opens_what_is_never_dialled(void **state)
{
	struct address resolver = address_of("::ffff:8.8.8.8");

	(void)state;
	assert_true(rules_add_exceptions(&r, "8.8.8.8", &fault));
	assert_true(rules_add_never(&r, &resolver));
	assert_int_equal(class_of("8.8.8.8"), ADDRESS_PROTECTED);
	assert_int_equal(class_of("64:ff9b::808:808"), ADDRESS_PROTECTED); /* embedded */
}

static void full_lists_say_so_and_stay(void **state)
{
	struct address a = address_of("8.8.8.8");

	(void)state;
	for (unsigned i = 0; i < ADDRESS_RANGES_MAX; i++)
		assert_true(rules_add_own(&r, &a));
	assert_false(rules_add_own(&r, &a));
	assert_false(rules_add_ranges(&r, "9.9.9.9", &fault));
	for (unsigned i = 0; i < ADDRESS_NEVER_MAX; i++)
		assert_true(rules_add_never(&r, &a));
	assert_false(rules_add_never(&r, &a));
	for (unsigned i = 0; i < ADDRESS_EXEMPT_MAX; i++)
		assert_true(rules_add_exceptions(&r, "9.9.9.9", &fault));
	assert_false(rules_add_exceptions(&r, "9.9.9.9", &fault));
	assert_int_equal(r.nranges, ADDRESS_RANGES_MAX);
	assert_int_equal(r.nnever, ADDRESS_NEVER_MAX);
	assert_int_equal(r.nexempt, ADDRESS_EXEMPT_MAX);
}

static void the_resolver_is_the_setting_or_the_first_nameserver(void **state)
{
	static const char conf[] = "# nameserver 192.0.2.1\nsearch nameserver\nnameserver fe80::1%eth0\n"
				   "nameserver\t192.0.2.53 # first\nnameserver 192.0.2.54\n";
	static const struct {
		const char *setting, *conf, *want; /* NULL: refused */
		unsigned port;
	} cases[] = {
		{ "9.9.9.9", conf, "9.9.9.9", 53 },
		{ "2001:db8::53", conf, "2001:db8::53", 53 },
		{ "9.9.9.9:5353", conf, "9.9.9.9", 5353 },
		{ "[2001:db8::53]:5353", conf, "2001:db8::53", 5353 },
		{ "", conf, "192.0.2.53", 53 },
		{ "", "nameserver 192.0.2.9", "192.0.2.9", 53 },
		{ "", "", NULL, 0 },
		{ "", "nameserver\nnameserver x\n", NULL, 0 },
		{ "dns.example:53", conf, NULL, 0 }, /* who would resolve it? */
		{ "9.9.9.9:", conf, NULL, 0 },
		{ "9.9.9.9:0", conf, NULL, 0 },
		{ " 9.9.9.9", conf, NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[ADDRESS_TEXT_MAX];
		struct address got;
		uint16_t port;
		bool ok = rules_resolver(cases[i].setting, cases[i].conf, &got, &port);

		if (ok != (cases[i].want != NULL))
			fail_msg("case %zu: %s", i, ok ? "accepted" : "refused");
		if (!ok)
			continue;
		address_format(&got, text);
		assert_string_equal(text, cases[i].want);
		assert_int_equal(port, cases[i].port);
	}
}

static void the_gateway_lives_at_a_protected_unicast_address(void **state)
{
	static const char *const bad[] = { "", "x", "8.8.8.8", "127.0.0.1", "0.0.0.1", "224.0.0.1",
					   "255.255.255.255", "::1", "fd00::1", "::ffff:10.0.0.1",
					   "10.0.0.1/32" };

	(void)state;
	assert_int_equal(rules_gateway_address("10.0.0.1"), 0x0a000001);
	assert_int_equal(rules_gateway_address("169.254.7.1"), 0xa9fe0701);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (rules_gateway_address(bad[i]) != 0)
			fail_msg("accepted: %s", bad[i]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, start)
	const struct CMUnitTest tests[] = {
		T(words_stand_between_blanks_and_commas),
		T(a_fault_names_the_word),
		T(the_hosts_own_addresses_are_protected_exactly),
		T(no_exception_opens_what_is_never_dialled),
		T(full_lists_say_so_and_stay),
		T(the_resolver_is_the_setting_or_the_first_nameserver),
		T(the_gateway_lives_at_a_protected_unicast_address),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("policy_rules", tests, NULL, NULL);
}
