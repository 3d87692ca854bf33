/* SPDX-License-Identifier: Apache-2.0 */
/* Clamp, decision and canonical policy (E1, E8, T1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/egress_match.h"
#include "base/scope.h"
#include "policy/egress.h"

/* "allowlist pypi.org a.example:443 max=9" */
static struct egress_policy policy_of(const char *text)
{
	struct egress_policy p = { 0 };
	char copy[512], *at = copy;
	const char *word;

	strcpy(copy, text);
	p.tier = egress_tier_from_name(strsep(&at, " "));
	while ((word = strsep(&at, " "))) {
		struct host_entry entry;

		if (strncmp(word, "max=", 4) == 0) {
			p.max_bytes = strtoull(word + 4, NULL, 10);
			continue;
		}
		assert_true(host_entry_parse(word, strlen(word), &entry));
		assert_true(egress_policy_add_host(&p, &entry));
	}
	return p;
}

static void expect(const struct egress_policy *p, const char *want)
{
	static char text[EGRESS_CANONICAL_MAX];
	size_t n = egress_policy_canonical(p, text);

	assert_int_equal(n, strlen(text));
	assert_string_equal(text, want);
}

static void the_canonical_policy_is_sorted_and_compact(void **state)
{
	struct egress_policy p = policy_of("allowlist pypi.org FILES.example.org *.a.example pypi.org. "
					   "[2001:DB8::1]:443 10.0.0.1 max=1048576");

	(void)state;
	expect(&p, "{\"tier\":\"allowlist\",\"hosts\":[\"10.0.0.1\",\"[2001:db8::1]:443\","
		   "\"a.example\",\"files.example.org\",\"pypi.org\"],\"maxBytes\":1048576}");
	p = policy_of("none");
	expect(&p, "{\"tier\":\"none\",\"hosts\":[],\"maxBytes\":null}");
	p = policy_of("default_internet max=18446744073709551615");
	expect(&p, "{\"tier\":\"default_internet\",\"hosts\":[],\"maxBytes\":18446744073709551615}");
}

static void the_maximum_clamps_every_axis(void **state)
{
	static const struct {
		const char *asked, *maximum, *want;
		int axes;
	} cases[] = {
		{ "default_internet", "default_internet", "default_internet", 0 },
		{ "default_internet", "none", "none", EGRESS_AXIS_TIER },
		{ "none", "default_internet", "none", 0 },
		{ "allowlist pypi.org", "none", "none", EGRESS_AXIS_TIER },
		{ "allowlist pypi.org", "default_internet", "allowlist pypi.org", 0 },
		{ "default_internet", "allowlist pypi.org", "allowlist pypi.org", EGRESS_AXIS_TIER },
		{ "default_internet", "default_internet pypi.org", "allowlist pypi.org",
		  EGRESS_AXIS_TIER },
		{ "allowlist files.pypi.org evil.example", "allowlist pypi.org",
		  "allowlist files.pypi.org", EGRESS_AXIS_HOSTS },
		{ "allowlist pypi.org", "default_internet files.pypi.org:443",
		  "allowlist files.pypi.org:443", EGRESS_AXIS_HOSTS },
		{ "allowlist files.pypi.org", "allowlist pypi.org", "allowlist files.pypi.org", 0 },
		{ "allowlist a.example", "allowlist b.example", "allowlist", EGRESS_AXIS_HOSTS },
		{ "default_internet", "default_internet max=9", "default_internet max=9",
		  EGRESS_AXIS_BYTES },
		{ "default_internet max=10", "default_internet max=9", "default_internet max=9",
		  EGRESS_AXIS_BYTES },
		{ "default_internet max=8", "default_internet max=9", "default_internet max=8", 0 },
		{ "default_internet max=9", "default_internet max=9", "default_internet max=9", 0 },
		{ "default_internet max=8", "default_internet", "default_internet max=8", 0 },
		{ "default_internet", "allowlist x.example max=1", "allowlist x.example max=1",
		  EGRESS_AXIS_TIER | EGRESS_AXIS_BYTES },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_policy a = policy_of(cases[i].asked), m = policy_of(cases[i].maximum);
		struct egress_policy want = policy_of(cases[i].want), got;
		static char text[EGRESS_CANONICAL_MAX];

		assert_int_equal(egress_policy_meet(&a, &m, &got), cases[i].axes);
		assert_true(egress_policy_valid(&got));
		egress_policy_canonical(&want, text);
		expect(&got, text);
	}
}

static void a_meet_allows_nothing_that_a_side_denies(void **state)
{
	static const char *const names[] = { "a", "b.a", "c.b.a", "d", "e.d", "192.0.2.1" };
	uint32_t seed = 3;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct egress_policy p[2], m;

		for (int k = 0; k < 2; k++) {
			memset(&p[k], 0, sizeof(p[k]));
			seed = seed * 1664525 + 1013904223;
			p[k].tier = (seed >> 20) % EGRESS_TIER_COUNT;
			for (unsigned i = 0; p[k].tier == EGRESS_TIER_ALLOWLIST && i < 3; i++) {
				struct host_entry e;
				const char *name = names[(seed >> (8 + 3 * i)) % ARRAY_SIZE(names)];

				assert_true(host_entry_parse(name, strlen(name), &e));
				e.port = (seed >> (4 + i)) & 1 ? 443 : 0;
				egress_policy_add_host(&p[k], &e);
			}
		}
		assert_true(egress_policy_meet(&p[0], &p[1], &m) >= 0);
		for (size_t i = 0; i < ARRAY_SIZE(names) * 2; i++) {
			struct target t = { .port = i & 1 ? 443 : 80 };
			struct egress_flow f = { .target = &t, .has_credential = true };
			bool allow[3];

			assert_true(host_parse(names[i / 2], strlen(names[i / 2]), &t.host));
			f.policy = &p[0], allow[0] = egress_decide(&f) == EGRESS_ALLOW;
			f.policy = &p[1], allow[1] = egress_decide(&f) == EGRESS_ALLOW;
			f.policy = &m, allow[2] = egress_decide(&f) == EGRESS_ALLOW;
			assert_int_equal(allow[2], allow[0] && allow[1]);
		}
	}
}

static void the_decision_keeps_its_order(void **state)
{
	struct target t = { .port = 443 };
	struct egress_policy p = policy_of("allowlist good.example max=10");
	struct egress_flow f = { 0 };

	(void)state;
	assert_true(host_parse("bad.example", 11, &t.host));
	assert_int_equal(egress_decide(&f), EGRESS_BAD_REQUEST);
	f.target = &t;
	assert_int_equal(egress_decide(&f), EGRESS_UNATTRIBUTED);
	f.has_credential = true;
	assert_int_equal(egress_decide(&f), EGRESS_UNREGISTERED_TOKEN);
	f.policy = &p;
	f.used_bytes = 10;
	assert_int_equal(egress_decide(&f), EGRESS_DENIED_BY_ALLOWLIST);
	assert_true(host_parse("good.example", 12, &t.host));
	assert_int_equal(egress_decide(&f), EGRESS_BYTE_QUOTA_EXCEEDED);
	f.used_bytes = 9;
	assert_int_equal(egress_decide(&f), EGRESS_ALLOW);
	p.tier = EGRESS_TIER_NONE;
	assert_int_equal(egress_decide(&f), EGRESS_DENIED_BY_ALLOWLIST);
	p.tier = 77;
	assert_int_equal(egress_decide(&f), EGRESS_DENIED_BY_ALLOWLIST);
	t.port = 0;
	assert_int_equal(egress_decide(&f), EGRESS_BAD_REQUEST);
}

static void verdict_rows_are_E8s_table(void **state)
{
	static const struct {
		const char *code;
		unsigned status;
	} want[] = { { "bad_request", 400 }, { "unattributed", 407 }, { "unregistered_token", 407 },
		     { "denied_by_allowlist", 403 }, { "byte_quota_exceeded", 403 },
		     { "destination_blocked", 403 }, { "upstream_failed", 502 } };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(want); i++) {
		assert_string_equal(egress_verdict_row(i)->code, want[i].code);
		assert_int_equal(egress_verdict_row(i)->status, want[i].status);
		assert_int_equal(egress_verdict_row(i)->challenge, want[i].status == 407);
	}
	assert_ptr_equal(egress_verdict_row(99), egress_verdict_row(EGRESS_BAD_REQUEST));
}

static void only_dialable_addresses_are_kept(void **state)
{
	static const char *const texts[] = { "127.0.0.1", "203.0.113.1", "::1", "::ffff:203.0.113.2",
					     "64:ff9b::a00:1", "10.0.0.1" };
	struct address list[ARRAY_SIZE(texts)];
	struct address_rules rules = { 0 };
	char text[ADDRESS_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_true(address_parse(texts[i], strlen(texts[i]), &list[i]));
	assert_int_equal(egress_keep_dialable(list, ARRAY_SIZE(texts), &rules), 2);
	address_format(&list[0], text);
	assert_string_equal(text, "203.0.113.1");
	address_format(&list[1], text);
	assert_string_equal(text, "203.0.113.2");
}

static void tokens_have_a_shape(void **state)
{
	char longest[66];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	assert_true(egress_token_valid("0123456789abcdef", 16));
	assert_false(egress_token_valid("0123456789abcde", 15));
	assert_true(egress_token_valid(longest, 64));
	assert_false(egress_token_valid(longest, 65));
	assert_false(egress_token_valid("0123456789abcde:", 16));
	assert_false(egress_token_valid("0123456789abcde\0", 16));
	for (int c = 0; c < 256; c++) {
		char token[17] = "0123456789abcde";
		token[15] = (char)c;
		assert_int_equal(egress_token_valid(token, 16),
				 c && strchr("0123456789-_abcdefghijklmnopqrstuvwxyz"
					     "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
					     c) != NULL);
	}
}

static void the_kernel_budget_lies_behind_the_ceiling(void **state)
{
	(void)state;
	assert_true(egress_kernel_budget(0) == UINT64_MAX);
	assert_int_equal(egress_kernel_budget(1), 1 + (256 << 10));
	assert_int_equal(egress_kernel_budget(8 << 20), (9 << 20) + (256 << 10));
	assert_true(egress_kernel_budget(UINT64_MAX) == UINT64_MAX);
}

static void meters_agree_within_headers(void **state)
{
	(void)state;
	assert_true(egress_meters_agree(0, 0, 0, 0));
	assert_true(egress_meters_agree(1000 + 10 * 60, 10, 1000, 0));
	assert_false(egress_meters_agree(999, 10, 1000, 0));
	assert_false(egress_meters_agree(1000000, 10, 1000, 0));
	assert_true(egress_meters_agree(1000 + 1200 + 5000, 10, 1000, 5000));
	assert_false(egress_meters_agree(1000 + 1200 + 5001, 10, 1000, 5000));
}

static void bytes_fit_or_not_up_to_the_last_bit(void **state)
{
	const uint64_t top = UINT64_MAX;

	(void)state;
	assert_true(egress_fits(0, 10, 10));
	assert_false(egress_fits(1, 10, 10));
	assert_true(egress_fits(1ull << 32, 1, (1ull << 32) + 1));
	assert_false(egress_fits(1ull << 32, 2, (1ull << 32) + 1));
	/* A sum that wraps is more than any budget. */
	assert_false(egress_fits(top - 5, 10, top));
	assert_false(egress_fits(top - 5, 10, 100));
	assert_false(egress_fits(10, top, top));
	assert_true(egress_fits(0, top, top));
	assert_false(egress_fits(0, 1, 0));
}

static void what_lies_before_the_next_byte_was_sent_before(void **state)
{
	(void)state;
	assert_false(egress_is_again(1000, 1000));
	assert_true(egress_is_again(999, 1000));
	assert_true(egress_is_again(0xfffffff0u, 10)); /* round the end of sequence numbers */
	assert_false(egress_is_again(10, 0xfffffff0u));
}

static void tiers_and_axes_have_names(void **state)
{
	static const char *const axes[] = { "tier", "hosts", "maxBytes" };

	(void)state;
	for (unsigned t = 0; t < EGRESS_TIER_COUNT; t++)
		assert_int_equal(egress_tier_from_name(egress_tier_name(t)), t);
	assert_string_equal(egress_tier_name(EGRESS_TIER_NONE), "none");
	assert_null(egress_tier_name(EGRESS_TIER_COUNT));
	assert_int_equal(egress_tier_from_name("internet"), EGRESS_TIER_COUNT);
	for (unsigned i = 0; i < ARRAY_SIZE(axes); i++)
		assert_string_equal(egress_axis_name(1u << i), axes[i]);
	assert_null(egress_axis_name(0));
	assert_null(egress_axis_name(EGRESS_AXIS_TIER | EGRESS_AXIS_HOSTS));
	assert_null(egress_axis_name(1u << ARRAY_SIZE(axes)));
}

static void only_a_frozen_form_is_valid(void **state)
{
	struct egress_policy p = policy_of("allowlist a.example b.example");
	struct host_entry first = p.hosts[0];

	(void)state;
	assert_true(egress_policy_valid(&p));
	p.hosts[0] = p.hosts[1]; /* a double */
	assert_false(egress_policy_valid(&p));
	p.hosts[1] = first; /* out of order */
	assert_false(egress_policy_valid(&p));
	p = policy_of("allowlist a.example");
	p.nhosts = EGRESS_HOSTS_MAX + 1;
	assert_false(egress_policy_valid(&p));
	p = policy_of("allowlist a.example");
	p.tier = EGRESS_TIER_DEFAULT_INTERNET; /* a list of hosts that nobody would look at */
	assert_false(egress_policy_valid(&p));
	p = policy_of("none");
	p.tier = EGRESS_TIER_COUNT;
	assert_false(egress_policy_valid(&p));
	struct egress_policy most = policy_of("default_internet"), got;
	egress_policy_meet(&p, &most, &got); /* and leaves nothing of any maximum */
	assert_int_equal(got.tier, EGRESS_TIER_NONE);
}

/* @n hosts h000.example, h001.example, ... */
static struct egress_policy list_of(unsigned n)
{
	struct egress_policy p = policy_of("allowlist");

	for (unsigned i = 0; i < n; i++) {
		struct host_entry entry;
		char text[32];

		snprintf(text, sizeof(text), "h%03u.example", i);
		assert_true(host_entry_parse(text, strlen(text), &entry));
		assert_true(egress_policy_add_host(&p, &entry));
	}
	return p;
}

static void a_full_list_takes_doubles_and_nothing_else(void **state)
{
	static struct egress_policy p, before;
	struct host_entry more;

	(void)state;
	before = p = list_of(EGRESS_HOSTS_MAX);
	assert_true(egress_policy_valid(&p));
	assert_true(egress_policy_add_host(&p, &before.hosts[7]));
	assert_true(host_entry_parse("h.example", 9, &more));
	assert_false(egress_policy_add_host(&p, &more));
	assert_memory_equal(&p, &before, sizeof(p));
}

static void an_intersection_that_does_not_fit_is_none(void **state)
{
	static struct egress_policy asked, maximum, got, none;

	(void)state;
	asked = list_of(EGRESS_HOSTS_MAX / 2);
	maximum = policy_of("allowlist example:80 example:443");
	assert_int_equal(egress_policy_meet(&asked, &maximum, &got), EGRESS_AXIS_HOSTS);
	assert_int_equal(got.nhosts, EGRESS_HOSTS_MAX); /* every host with either port */
	assert_true(egress_policy_valid(&got));
	asked = list_of(EGRESS_HOSTS_MAX / 2 + 1);
	assert_int_equal(egress_policy_meet(&asked, &maximum, &got), -1);
	assert_memory_equal(&got, &none, sizeof(got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_canonical_policy_is_sorted_and_compact),
		cmocka_unit_test(the_maximum_clamps_every_axis),
		cmocka_unit_test(a_meet_allows_nothing_that_a_side_denies),
		cmocka_unit_test(the_decision_keeps_its_order),
		cmocka_unit_test(verdict_rows_are_E8s_table),
		cmocka_unit_test(only_dialable_addresses_are_kept),
		cmocka_unit_test(tokens_have_a_shape),
		cmocka_unit_test(the_kernel_budget_lies_behind_the_ceiling),
		cmocka_unit_test(meters_agree_within_headers),
		cmocka_unit_test(bytes_fit_or_not_up_to_the_last_bit),
		cmocka_unit_test(what_lies_before_the_next_byte_was_sent_before),
		cmocka_unit_test(tiers_and_axes_have_names),
		cmocka_unit_test(only_a_frozen_form_is_valid),
		cmocka_unit_test(a_full_list_takes_doubles_and_nothing_else),
		cmocka_unit_test(an_intersection_that_does_not_fit_is_none),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("policy_egress", tests, NULL, NULL);
}
