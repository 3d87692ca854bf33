/* Pure: addresses as text and numbers, what is protected (E9). SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the spelling of addresses and the order of the deployment's rules. The
 * numeric list itself is include/abi/address_match.h, which the kernel shares.
 * Deliberately no inet_aton: its many spellings are how filters are passed by.
 */
#include "policy/address.h"

#include <string.h>

#include "abi/address_match.h"
#include "base/hex.h"

/* One decimal part of at most @max: no sign, no blank, no leading zero. Gives bytes taken, 0: none. */
static size_t decimal_part(const char *s, size_t len, unsigned max, unsigned *ret)
{
	unsigned v = 0;
	size_t n = 0;

	while (n < len && n < 4 && s[n] >= '0' && s[n] <= '9')
		v = v * 10 + (unsigned)(s[n++] - '0');
	if (n == 0 || n == 4 || (n > 1 && s[0] == '0') || v > max)
		return 0;
	*ret = v;
	return n;
}

static bool parse4(const char *s, size_t len, uint8_t out[4])
{
	size_t at = 0;

	for (int part = 0; part < 4; part++) {
		unsigned v;
		size_t n;

		if (part && (at >= len || s[at++] != '.'))
			return false;
		n = decimal_part(s + at, len - at, 255, &v);
		if (!n)
			return false;
		out[part] = (uint8_t)v;
		at += n;
	}
	return at == len;
}

/* One group of one to four hex digits. Gives bytes taken, 0: none. */
static size_t hex_group(const char *s, size_t len, unsigned *ret)
{
	unsigned v = 0;
	size_t n = 0;

	for (; n < len && hex_value(s[n]) >= 0; n++) {
		if (n == 4)
			return 0;
		v = v << 4 | (unsigned)hex_value(s[n]);
	}
	*ret = v;
	return n;
}

/* Groups before and after one "::"; an IPv4 tail counts as two groups. */
struct groups {
	uint8_t bytes[16];
	size_t n;	/* bytes filled */
	size_t gap;	/* where "::" stood, in bytes */
	bool has_gap;
};

static bool take_group(const char *s, size_t len, size_t *at, struct groups *g)
{
	unsigned v;
	size_t n = hex_group(s + *at, len - *at, &v);

	if (*at + n < len && s[*at + n] == '.') {
		if (g->n > 12 || !parse4(s + *at, len - *at, g->bytes + g->n))
			return false;
		g->n += 4;
		*at = len;
		return true;
	}
	if (!n || g->n > 14)
		return false;
	g->bytes[g->n++] = (uint8_t)(v >> 8);
	g->bytes[g->n++] = (uint8_t)v;
	*at += n;
	return true;
}

static bool parse6(const char *s, size_t len, uint8_t out[16])
{
	struct groups g = { .n = 0 };
	size_t at = 0;

	if (len >= 2 && s[0] == ':' && s[1] == ':') {
		g.has_gap = true;
		at = 2;
	}
	while (at < len) {
		if (!take_group(s, len, &at, &g))
			return false;
		if (at == len)
			break;
		if (s[at++] != ':' || at == len)
			return false;
		if (s[at] == ':') {
			if (g.has_gap)
				return false;
			g.has_gap = true;
			g.gap = g.n;
			at++;
		}
	}
	if (g.has_gap ? g.n > 14 : g.n != 16)
		return false;
	memset(out, 0, 16);
	memcpy(out, g.bytes, g.has_gap ? g.gap : 16);
	if (g.has_gap)
		memcpy(out + 16 - (g.n - g.gap), g.bytes + g.gap, g.n - g.gap);
	return true;
}

bool address_parse(const char *text, size_t len, struct address *ret)
{
	struct address a = { .family = 4 };

	if (len >= ADDRESS_TEXT_MAX)
		return false;
	if (!parse4(text, len, a.bytes)) {
		if (!parse6(text, len, a.bytes))
			return false;
		a.family = 6;
	}
	*ret = a;
	return true;
}

static unsigned width(const struct address *a)
{
	return a->family == 4 ? 32 : 128;
}

static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return !rest || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

bool address_parse_range(const char *text, size_t len, struct address_range *ret)
{
	const char *slash = memchr(text, '/', len);
	size_t alen = slash ? (size_t)(slash - text) : len;
	struct address_range r;
	struct address masked;
	unsigned bits;

	if (!address_parse(text, alen, &r.net))
		return false;
	bits = width(&r.net);
	if (slash && (decimal_part(slash + 1, len - alen - 1, bits, &bits) != len - alen - 1 ||
		      alen + 1 == len))
		return false;
	r.bits = (uint8_t)bits;
	masked = r.net;
	for (unsigned i = 0; i < width(&r.net); i++)
		if (i >= bits && (masked.bytes[i / 8] & (0x80 >> i % 8)))
			return false;
	*ret = r;
	return true;
}

static char *put_number(char *o, unsigned v, unsigned base)
{
	char digits[8];
	unsigned n = 0;

	do {
		digits[n++] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	while (n)
		*o++ = digits[--n];
	return o;
}

static char *put4(char *o, const uint8_t *b)
{
	for (int i = 0; i < 4; i++) {
		if (i)
			*o++ = '.';
		o = put_number(o, b[i], 10);
	}
	return o;
}

/* The longest run of at least two zero groups, the first of equals. */
static void longest_gap(const uint8_t *b, int *ret_at, int *ret_len)
{
	int best = -1, best_len = 1;

	for (int i = 0; i < 8; i++) {
		int n = 0;
		while (i + n < 8 && !b[2 * (i + n)] && !b[2 * (i + n) + 1])
			n++;
		if (n > best_len) {
			best = i;
			best_len = n;
		}
	}
	*ret_at = best;
	*ret_len = best < 0 ? 0 : best_len;
}

static char *put6(char *o, const uint8_t *b)
{
	int gap, gap_len;

	if (address6_mapped(b)) {
		memcpy(o, "::ffff:", 7);
		return put4(o + 7, b + 12);
	}
	longest_gap(b, &gap, &gap_len);
	for (int i = 0; i < 8; i++) {
		if (i == gap) {
			*o++ = ':';
			*o++ = ':';
			i += gap_len - 1;
			continue;
		}
		if (i && i != gap + gap_len)
			*o++ = ':';
		o = put_number(o, (unsigned)b[2 * i] << 8 | b[2 * i + 1], 16);
	}
	return o;
}

size_t address_format(const struct address *a, char out[static ADDRESS_TEXT_MAX])
{
	char *o = out;

	if (a->family == 4)
		o = put4(o, a->bytes);
	else if (a->family == 6)
		o = put6(o, a->bytes);
	*o = '\0';
	return (size_t)(o - out);
}

bool address_equal(const struct address *a, const struct address *b)
{
	return a->family == b->family && a->family &&
	       memcmp(a->bytes, b->bytes, width(a) / 8) == 0;
}

bool address_in_range(const struct address *a, const struct address_range *r)
{
	return a->family && a->family == r->net.family && r->bits <= width(a) &&
	       same_prefix(a->bytes, r->net.bytes, r->bits);
}

struct address address_unmapped(const struct address *a)
{
	struct address v4 = { .family = 4 };

	if (a->family != 6 || !address6_mapped(a->bytes))
		return *a;
	memcpy(v4.bytes, a->bytes + 12, 4);
	return v4;
}

enum address_class address_classify(const struct address *a)
{
	bool is_protected;

	if (a->family == 4)
		is_protected = address4_protected(address_be32(a->bytes));
	else if (a->family == 6)
		is_protected = address6_protected(a->bytes);
	else
		return ADDRESS_UNPARSABLE;
	return is_protected ? ADDRESS_PROTECTED : ADDRESS_PUBLIC;
}

static bool listed(const struct address *a, const struct address *list, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (address_equal(a, &list[i]))
			return true;
	return false;
}

static bool forbidden(const struct address *a, const struct address_rules *r)
{
	for (unsigned i = 0; i < r->nranges; i++)
		if (address_in_range(a, &r->ranges[i]))
			return true;
	return listed(a, r->never, r->nnever);
}

/* The deployment's own ranges count in every embedding, like the built-in list. */
static bool carries_forbidden(const struct address *a, const struct address_rules *r)
{
	uint32_t v4[ADDRESS_EMBEDDED_MAX] = { 0 };
	int n = a->family == 6 ? address6_embedded(a->bytes, v4) : 0;

	for (int i = 0; i < n; i++) {
		struct address inner = { .family = 4,
					 .bytes = { (uint8_t)(v4[i] >> 24), (uint8_t)(v4[i] >> 16),
						    (uint8_t)(v4[i] >> 8), (uint8_t)v4[i] } };
		if (forbidden(&inner, r))
			return true;
	}
	return false;
}

enum address_class address_classify_under(const struct address *a, const struct address_rules *r)
{
	struct address dialled = address_unmapped(a);

	if (!dialled.family)
		return ADDRESS_UNPARSABLE;
	if (listed(&dialled, r->never, r->nnever))
		return ADDRESS_PROTECTED;
	if (listed(&dialled, r->exempt, r->nexempt))
		return ADDRESS_PUBLIC;
	if (forbidden(&dialled, r) || carries_forbidden(&dialled, r))
		return ADDRESS_PROTECTED;
	return address_classify(&dialled);
}

const char *address_class_name(enum address_class c)
{
	return c == ADDRESS_PUBLIC ? "public" : c == ADDRESS_PROTECTED ? "protected" : "unparsable";
}
