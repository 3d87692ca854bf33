/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E9: no protected address is called public. Complete enumeration: of all IPv4
 * addresses (2^32) against the list written down here once more, as networks;
 * of every way an IPv6 address carries an IPv4 one, over all 2^16 upper halves
 * and the ends of the lower; of rules, that what is never dialled stays so
 * whatever is exempt.
 */
#include <stdbool.h>
#include <string.h>

#include "abi/address_match.h"
#include "nondet.h"
#include "policy/address.h"

const char proof_name[] = "no_protected_address_is_called_public";

static const struct {
	uint32_t first, last;
} networks[] = {
	{ 0x00000000, 0x00ffffff }, { 0x0a000000, 0x0affffff }, { 0x64400000, 0x647fffff },
	{ 0x7f000000, 0x7fffffff }, { 0xa9fe0000, 0xa9feffff }, { 0xac100000, 0xac1fffff },
	{ 0xc0a80000, 0xc0a8ffff }, { 0xe0000000, 0xffffffff },
};
enum { NETWORKS = sizeof(networks) / sizeof(networks[0]) };

static int is_due(uint32_t a)
{
	for (int i = 0; i < NETWORKS; i++)
		if (a >= networks[i].first && a <= networks[i].last)
			return 1;
	return 0;
}

static struct address v4(uint32_t a)
{
	return (struct address){ .family = 4, .bytes = { (uint8_t)(a >> 24), (uint8_t)(a >> 16),
							 (uint8_t)(a >> 8), (uint8_t)a } };
}

/* How many of the addresses @first to @last are called protected. Kept plain: it is run 2^32 times. */
static uint32_t count_protected(uint32_t first, uint32_t last)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i <= last - first; i++)
		n += address4_protected(first + i) != 0;
	return n;
}

/* 2^16 addresses below one upper half; no network begins or ends within. */
static void all_of_v4(uint32_t upper)
{
	uint32_t first = upper << 16;

	hold(is_due(first) == is_due(first | 0xffff));
	hold(count_protected(first, first | 0xffff) == (is_due(first) ? 0x10000 : 0));
	for (int i = 0; i < NETWORKS; i++) {
		struct address from = v4(networks[i].first), to = v4(networks[i].last);
		hold(address_classify(&from) == ADDRESS_PROTECTED);
		hold(address_classify(&to) == ADDRESS_PROTECTED);
	}
}

static void put(uint8_t *b, int at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		b[at + i] = (uint8_t)(v >> (24 - 8 * i));
}

/* RFC 6052: byte 8 is left out. */
static void put_around(uint8_t *b, const int at[4], uint32_t v)
{
	for (int i = 0; i < 4; i++)
		b[at[i]] = (uint8_t)(v >> (24 - 8 * i));
}

enum { FORMS = 13 };

static struct address embed(int form, uint32_t v)
{
	static const int in48[] = { 6, 7, 9, 10 }, in56[] = { 7, 9, 10, 11 }, in64[] = { 9, 10, 11, 12 };
	struct address a = { .family = 6 };
	uint8_t *b = a.bytes;

	if (form >= 5 && form <= 8)
		memcpy(b, "\0\x64\xff\x9b\0\x01", 6);
	switch (form) {
	case 0: put(b, 12, v); break; /* compatible */
	case 1: put(b, 8, 0xffff), put(b, 12, v); break; /* mapped */
	case 2: put(b, 8, 0xffff0000), put(b, 12, v); break; /* SIIT */
	case 3: put(b, 0, 0x0064ff9b), put(b, 12, v); break; /* NAT64 */
	case 4: put(b, 0, 0x20020000 | v >> 16), put(b, 4, v << 16 | 1), b[15] = 1; break; /* 6to4 */
	case 5: put_around(b, in48, v); break;
	case 6: put_around(b, in56, v); break;
	case 7: put_around(b, in64, v); break;
	case 8: put(b, 12, v); break;
	case 9: put(b, 0, 0x20010000), put(b, 4, v), put(b, 12, ~0x08080808u); break; /* Teredo's server */
	case 10: put(b, 0, 0x20010000), put(b, 4, 0x08080808), put(b, 12, ~v); break; /* and client */
	case 11: put(b, 0, 0x26001901), put(b, 8, 0x00005efe), put(b, 12, v); break; /* ISATAP */
	default: put(b, 0, 0x26001901), put(b, 8, 0x02005efe), put(b, 12, v); break;
	}
	return a;
}

static void all_embeddings(uint32_t upper)
{
	static const uint32_t lower[] = { 0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff };

	for (unsigned i = 0; i < sizeof(lower) / sizeof(lower[0]); i++) {
		uint32_t v = upper << 16 | lower[i];
		for (int form = 0; form < FORMS; form++) {
			struct address a = embed(form, v);
			/* 0/8 is what the empty part of another layout reads as (address_match.h). */
			if (is_due(v) && !(form >= 5 && form <= 8 && v >> 24 == 0))
				hold(address_classify(&a) == ADDRESS_PROTECTED);
		}
	}
}

/* The IPv6 list by its first byte and a half, whatever follows. */
static void all_of_v6(unsigned top)
{
	struct address a = { .family = 6 };

	a.bytes[0] = (uint8_t)(top >> 8);
	a.bytes[1] = (uint8_t)top;
	a.bytes[15] = 1;
	if (a.bytes[0] == 0xff || (top & 0xfe00) == 0xfc00 || (top & 0xffc0) == 0xfe80)
		hold(address_classify(&a) == ADDRESS_PROTECTED);
	a.family = 0;
	hold(address_classify(&a) == ADDRESS_UNPARSABLE);
}

/* What is never dialled stays so in every spelling, whatever is exempt. */
static void rules_never_lose(void)
{
	static const uint32_t some[] = { 0x7f000001, 0x0a000001, 0x08080808 };
	static struct address_rules r;
	struct address own = v4(some[choose(3)]), exempt = v4(some[choose(3)]);
	bool is_own = choose(2);
	struct address asked = embed((int)choose(FORMS), address_be32((is_own ? own : exempt).bytes));
	struct address plain = address_unmapped(&asked);

	memset(&r, 0, sizeof(r));
	r.never[r.nnever++] = own;
	r.exempt[r.nexempt++] = exempt;
	enum address_class c = address_classify_under(&asked, &r);
	if (is_own)
		hold(c == ADDRESS_PROTECTED);
	if (c == ADDRESS_PUBLIC)
		hold(address_equal(&plain, &exempt) || address_classify(&asked) == ADDRESS_PUBLIC);
	/* As itself, exempt or not. */
	hold(address_classify_under(&own, &r) == ADDRESS_PROTECTED);
}

void proof(void)
{
	switch (choose(3)) {
	case 0:
		all_of_v4(choose(65536));
		break;
	case 1: {
		unsigned upper = choose(65536);
		all_embeddings(upper);
		all_of_v6(upper);
		break;
	}
	default:
		rules_never_lose();
	}
}
