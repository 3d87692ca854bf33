/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_ADDRESS_H
#define CORDON_POLICY_ADDRESS_H

/*
 * Addresses: text to numbers, numbers to text, and what may be dialled (E9).
 * Only canonical spellings parse: four decimal parts without leading zeros, or
 * RFC 4291 text without brackets or zone. Everything else (octal, hex, short
 * forms, full-width digits, blanks) is unparsable, which no caller may treat
 * as public.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ADDRESS_TEXT_MAX = 48,	 /* with the NUL */
	ADDRESS_RANGES_MAX = 128, /* operator's ranges, and the host's own addresses */
	ADDRESS_EXEMPT_MAX = 32,
	ADDRESS_NEVER_MAX = 16,
};

/* Bytes in network order; an IPv4 address fills the first four. */
struct address {
	uint8_t family; /* 4, 6, or 0: none */
	uint8_t bytes[16];
};

struct address_range {
	struct address net;
	uint8_t bits;
};

enum address_class {
	ADDRESS_UNPARSABLE = 0,
	ADDRESS_PROTECTED,
	ADDRESS_PUBLIC,
};

/*
 * What this deployment adds to E9's list. @never is what the gateway must not
 * dial whatever anyone says (itself, its resolver); @exempt are the operator's
 * single-address exceptions; @ranges are further protected ranges.
 */
struct address_rules {
	struct address never[ADDRESS_NEVER_MAX];
	struct address exempt[ADDRESS_EXEMPT_MAX];
	struct address_range ranges[ADDRESS_RANGES_MAX];
	uint16_t nnever, nexempt, nranges;
};

/* Exactly one address in @len bytes of @text, nothing around it. False: *ret untouched. */
bool address_parse(const char *text, size_t len, struct address *ret);

/* ADDRESS or ADDRESS/BITS, host bits zero. False: *ret untouched. */
bool address_parse_range(const char *text, size_t len, struct address_range *ret);

/* Canonical text (RFC 5952) with its NUL; gives its length, 0 for family 0. */
size_t address_format(const struct address *a, char out[static ADDRESS_TEXT_MAX]);

bool address_equal(const struct address *a, const struct address *b);
bool address_in_range(const struct address *a, const struct address_range *r);

/* ::ffff:a.b.c.d becomes a.b.c.d, everything else stays: what would be dialled. */
struct address address_unmapped(const struct address *a);

/* By E9's built-in list alone. Family 0 is ADDRESS_UNPARSABLE. */
enum address_class address_classify(const struct address *a);

/* With the deployment's rules: never, then exempt, then the list, then ranges. */
enum address_class address_classify_under(const struct address *a, const struct address_rules *r);

/* "unparsable", "protected", "public". */
const char *address_class_name(enum address_class c);

#endif
