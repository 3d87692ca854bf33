/* Pure: the deployment's lists of addresses. SPDX-License-Identifier: Apache-2.0 */
/* Words to rules. What the rules mean is address.c's business. */
#include "policy/rules.h"

#include <string.h>

#include "abi/address_match.h"
#include "policy/host.h"

static bool is_separator(char c)
{
	return c == ' ' || c == '\t' || c == ',';
}

/* Hands each word of @text to @add; the first it refuses is *ret. */
static bool each_word(struct address_rules *r, const char *text,
		      bool (*add)(struct address_rules *r, const char *word, size_t len),
		      struct rules_fault *ret)
{
	while (*text) {
		size_t n = 0;

		if (is_separator(*text)) {
			text++;
			continue;
		}
		while (text[n] && !is_separator(text[n]))
			n++;
		if (!add(r, text, n)) {
			*ret = (struct rules_fault){ text, n };
			return false;
		}
		text += n;
	}
	return true;
}

static bool add_range(struct address_rules *r, const char *word, size_t len)
{
	return r->nranges < ADDRESS_RANGES_MAX &&
	       address_parse_range(word, len, &r->ranges[r->nranges]) && ++r->nranges;
}

static bool add_exception(struct address_rules *r, const char *word, size_t len)
{
	struct address a;

	if (r->nexempt == ADDRESS_EXEMPT_MAX || !address_parse(word, len, &a))
		return false;
	r->exempt[r->nexempt++] = address_unmapped(&a);
	return true;
}

bool rules_add_ranges(struct address_rules *r, const char *text, struct rules_fault *ret)
{
	return each_word(r, text, add_range, ret);
}

bool rules_add_exceptions(struct address_rules *r, const char *text, struct rules_fault *ret)
{
	return each_word(r, text, add_exception, ret);
}

bool rules_add_own(struct address_rules *r, const struct address *a)
{
	if (r->nranges == ADDRESS_RANGES_MAX)
		return false;
	r->ranges[r->nranges].net = address_unmapped(a);
	r->ranges[r->nranges].bits = r->ranges[r->nranges].net.family == 4 ? 32 : 128;
	r->nranges++;
	return true;
}

bool rules_add_never(struct address_rules *r, const struct address *a)
{
	if (r->nnever == ADDRESS_NEVER_MAX)
		return false;
	r->never[r->nnever++] = address_unmapped(a);
	return true;
}

/* The first `nameserver ADDRESS` line; a zone is no address. */
static bool first_nameserver(const char *text, struct address *ret)
{
	static const char word[] = "nameserver";

	while (*text) {
		const char *end = text + strlen(text), *lf = memchr(text, '\n', strlen(text));
		size_t n = 0;

		if (lf)
			end = lf;
		if ((size_t)(end - text) > sizeof(word) - 1 &&
		    memcmp(text, word, sizeof(word) - 1) == 0) {
			text += sizeof(word) - 1;
			while (text < end && (*text == ' ' || *text == '\t'))
				text++;
			while (text + n < end && text[n] != ' ' && text[n] != '\t' &&
			       text[n] != '\r' && text[n] != '#' && text[n] != ';')
				n++;
			if (address_parse(text, n, ret))
				return true;
		}
		text = *end ? end + 1 : end;
	}
	return false;
}

bool rules_resolver(const char *setting, const char *resolv_conf, struct address *ret,
		    uint16_t *ret_port)
{
	struct target t;

	*ret_port = RULES_DNS_PORT;
	if (!*setting)
		return first_nameserver(resolv_conf, ret);
	if (address_parse(setting, strlen(setting), ret))
		return true;
	if (!target_parse(setting, strlen(setting), RULES_DNS_PORT, &t) || t.host.name[0])
		return false;
	*ret = t.host.address;
	*ret_port = t.port;
	return true;
}

uint32_t rules_gateway_address(const char *text)
{
	struct address a;
	uint32_t v4;

	if (!address_parse(text, strlen(text), &a) || a.family != 4)
		return 0;
	v4 = address_be32(a.bytes);
	return address4_protected(v4) && !address4_loopback(v4) && v4 >> 24 && v4 < 0xe0000000 ? v4
												 : 0;
}
