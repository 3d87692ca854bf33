/* SPDX-License-Identifier: Apache-2.0 */
/* DNS answers, honest and otherwise (E9; ESCAPES e 49, e 50). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "gateway/dns.h"

static uint8_t packet[4096];
static size_t len;

static void put(const void *bytes, size_t n)
{
	memcpy(packet + len, bytes, n);
	len += n;
}

static void put_name(const char *name)
{
	while (*name) {
		const char *dot = strchr(name, '.');
		size_t n = dot ? (size_t)(dot - name) : strlen(name);
		packet[len++] = (uint8_t)n;
		put(name, n);
		name += n + (dot != NULL);
	}
	packet[len++] = 0;
}

/* A header and the question for a.example, A. */
static void begin(unsigned answers)
{
	const uint8_t head[] = { 1, 2, 0x81, 0x80, 0, 1, 0, (uint8_t)answers, 0, 0, 0, 0 };

	len = 0;
	put(head, sizeof(head));
	put_name("a.example");
	put("\0\1\0\1", 4);
}

static void put_record(const char *owner, uint8_t type, const void *data, size_t n)
{
	put_name(owner);
	put((const uint8_t[]){ 0, type, 0, 1, 0, 0, 0, 9, (uint8_t)(n >> 8), (uint8_t)n }, 10);
	put(data, n);
}

static void put_alias(const char *owner, const char *to)
{
	size_t at;

	put_name(owner);
	put((const uint8_t[]){ 0, DNS_CNAME, 0, 1, 0, 0, 0, 9, 0, 0 }, 10);
	at = len;
	put_name(to);
	packet[at - 1] = (uint8_t)(len - at);
}

static int answer(struct address out[static DNS_ADDRESSES_MAX])
{
	return dns_read_answer(packet, len, DNS_A, "a.example", out);
}

static void addresses_of_the_name_are_taken_in_order(void **state)
{
	struct address out[DNS_ADDRESSES_MAX];

	(void)state;
	begin(3);
	put_record("A.Example", DNS_A, "\1\2\3\4", 4);
	put_record("other.example", DNS_A, "\12\0\0\1", 4);
	put_record("a.example", DNS_A, "\5\6\7\10", 4);
	assert_int_equal(answer(out), 2);
	assert_memory_equal(out[0].bytes, "\1\2\3\4", 4);
	assert_memory_equal(out[1].bytes, "\5\6\7\10", 4);
	assert_int_equal(out[0].family, 4);
	assert_int_equal(dns_read_answer(packet, len, DNS_AAAA, "a.example", out), -1);
	assert_int_equal(dns_read_answer(packet, len, DNS_A, "b.example", out), -1);
}

static void longer_addresses_are_of_the_other_family(void **state)
{
	static const uint8_t bytes[16] = { 0x20, 1, 0xd, 0xb8, [15] = 9 };
	struct address out[DNS_ADDRESSES_MAX];

	(void)state;
	begin(2);
	packet[len - 3] = DNS_AAAA;
	put_record("a.example", DNS_AAAA, bytes, sizeof(bytes));
	put_record("a.example", DNS_A, "\1\2\3\4", 4);
	assert_int_equal(dns_read_answer(packet, len, DNS_AAAA, "a.example", out), 1);
	assert_int_equal(out[0].family, 6);
	assert_memory_equal(out[0].bytes, bytes, sizeof(bytes));
	assert_int_equal(answer(out), -1);
	begin(1);
	packet[len - 3] = DNS_AAAA;
	put_record("a.example", DNS_AAAA, "\1\2\3\4", 4);
	assert_int_equal(dns_read_answer(packet, len, DNS_AAAA, "a.example", out), -1);
}

/* 255 bytes as they are sent are 253 as text; whatever the case of a letter. */
static void names_have_the_length_that_names_may_have(void **state)
{
	struct address out[DNS_ADDRESSES_MAX];
	char name[300];

	(void)state;
	for (size_t n = 250; n <= 262; n++) {
		memset(name, 'Z', n);
		name[n] = '\0';
		for (size_t dot = 50; dot < 250; dot += 50)
			name[dot] = '.';
		begin(1);
		put_record(name, DNS_A, "\1\2\3\4", 4);
		put_record("a.example", DNS_A, "\1\2\3\4", 4);
		packet[7] = 2;
		assert_int_equal(answer(out), n <= 253 ? 1 : -1);
		len = 12;
		put_name(name);
		put("\0\1\0\1", 4);
		put("\xc0\x0c\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 16);
		packet[7] = 1;
		for (size_t i = 0; i < n; i++)
			name[i] |= name[i] == 'Z' ? 0x20 : 0;
		assert_int_equal(dns_read_answer(packet, len, DNS_A, name, out), n <= 253 ? 1 : -1);
	}
}

static void aliases_are_followed_so_far_and_no_further(void **state)
{
	struct address out[DNS_ADDRESSES_MAX];

	(void)state;
	for (int aliases = DNS_CHAIN_MAX - 1; aliases <= DNS_CHAIN_MAX + 1; aliases++) {
		begin((unsigned)aliases + 1);
		char from[] = "a.example", to[] = "b.example";
		for (int i = 0; i < aliases; i++, from[0]++, to[0]++)
			put_alias(from, to);
		put_record(from, DNS_A, "\1\2\3\4", 4);
		assert_int_equal(answer(out), aliases <= DNS_CHAIN_MAX);
	}
	begin(3); /* an alias beside an address: the name's own */
	put_alias("a.example", "b.example");
	put_record("a.example", DNS_A, "\1\2\3\4", 4);
	put_record("b.example", DNS_A, "\5\6\7\10", 4);
	assert_int_equal(answer(out), 1);
	assert_memory_equal(out[0].bytes, "\1\2\3\4", 4);
	begin(3);
	put_record("c.example", DNS_A, "\1\2\3\4", 4);
	put_alias("a.example", "B.example");
	put_alias("b.example", "c.example");
	assert_int_equal(answer(out), 1);
	begin(2);
	put_alias("a.example", "b.example");
	put_alias("b.example", "a.example");
	assert_int_equal(answer(out), 0);
	begin(1);
	put_alias("a.example", "a.example");
	assert_int_equal(answer(out), 0);
}

static void more_records_than_any_honest_answer_has_are_not_read(void **state)
{
	static const uint8_t small[] = "\xc0\x0c\0\x10\0\1\0\0\0\1\0"; /* an empty TXT */
	struct address out[DNS_ADDRESSES_MAX];

	(void)state;
	for (unsigned n = DNS_RECORDS_MAX; n <= DNS_RECORDS_MAX + 1; n++) {
		begin(0);
		packet[6] = (uint8_t)(n >> 8);
		packet[7] = (uint8_t)n;
		put_record("a.example", DNS_A, "\1\2\3\4", 4);
		for (unsigned i = 1; i < n; i++)
			put(small, sizeof(small));
		assert_int_equal(answer(out), n == DNS_RECORDS_MAX ? 1 : -1);
	}
}

static void what_is_malformed_is_no_answer(void **state)
{
	struct address out[DNS_ADDRESSES_MAX];

	(void)state;
	begin(1);
	put_record("a.example", DNS_A, "\1\2\3", 3);
	assert_int_equal(answer(out), -1);
	begin(1);
	put_record("a.example", DNS_A, "\1\2\3\4", 4);
	for (size_t whole = len; len > 0; len--)
		assert_int_equal(answer(out), len == whole ? 1 : -1);
	begin(1);
	put("\xc0", 1); /* half a pointer */
	assert_int_equal(answer(out), -1);
	begin(1);
	put_record("a.example", DNS_CNAME, "\x80", 1); /* an alias that is no name */
	assert_int_equal(answer(out), -1);
	begin(9); /* promises more than there is */
	put_record("a.example", DNS_A, "\1\2\3\4", 4);
	assert_int_equal(answer(out), -1);
	begin(0);
	packet[2] |= 0x02; /* truncated */
	assert_int_equal(answer(out), -1);
	begin(0);
	packet[2] &= 0x7f; /* a question */
	assert_int_equal(answer(out), -1);
	begin(0);
	packet[3] |= 3; /* no such name */
	assert_int_equal(answer(out), 0);
	begin(0);
	packet[5] = 2; /* two questions */
	assert_int_equal(answer(out), -1);
	begin(1);
	packet[13] = 'b'; /* another's question, and its honest answer */
	put_record("b.example", DNS_A, "\1\2\3\4", 4);
	assert_int_equal(answer(out), -1);
}

static void pointers_only_lead_backwards(void **state)
{
	static const uint8_t loops[][2] = { { 0xc0, 0x1d }, { 0xc0, 0xff }, { 0xc0, 0x1f } };
	struct address out[DNS_ADDRESSES_MAX];

	(void)state;
	begin(1);
	put("\xc0\x0c", 2); /* the question's name: honest */
	put("\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 14);
	assert_int_equal(answer(out), 1);
	for (int i = 0; i < 3; i++) {
		begin(1);
		put(loops[i], 2);
		put("\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 14);
		assert_int_equal(answer(out), -1);
	}
	begin(1);
	put("\x80x\0", 3); /* a reserved label type */
	put("\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 14);
	assert_int_equal(answer(out), -1);
}

static void odd_bytes_in_names_match_nothing(void **state)
{
	struct address out[DNS_ADDRESSES_MAX];

	(void)state;
	begin(1);
	put("\11a.example\0", 11); /* one label with a dot in it */
	put("\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 14);
	assert_int_equal(answer(out), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_the_name_are_taken_in_order),
		cmocka_unit_test(longer_addresses_are_of_the_other_family),
		cmocka_unit_test(names_have_the_length_that_names_may_have),
		cmocka_unit_test(aliases_are_followed_so_far_and_no_further),
		cmocka_unit_test(more_records_than_any_honest_answer_has_are_not_read),
		cmocka_unit_test(what_is_malformed_is_no_answer),
		cmocka_unit_test(pointers_only_lead_backwards),
		cmocka_unit_test(odd_bytes_in_names_match_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gateway_dns", tests, NULL, NULL);
}
