/* Pure: names, ports and allowlist entries (E11). SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the spelling of hosts and the match between an entry and a host. Does
 * not decide (policy/egress.c) and never resolves.
 */
#include "policy/host.h"

#include <string.h>

enum { LABEL_MAX = 63 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

/* Would some resolver or library read this label as a number? */
static bool is_numeric_label(const char *s, size_t len)
{
	size_t i = 0;

	if (len >= 2 && s[0] == '0' && s[1] == 'x') {
		for (i = 2; i < len; i++)
			if (!is_digit(s[i]) && !(s[i] >= 'a' && s[i] <= 'f'))
				return false;
		return true;
	}
	while (i < len && is_digit(s[i]))
		i++;
	return i == len;
}

/* Lower-cases @len bytes into @out and checks every label. */
static bool parse_name(const char *text, size_t len, char out[HOST_MAX])
{
	size_t start = 0;

	if (len && text[len - 1] == '.')
		len--;
	if (!len || len >= HOST_MAX)
		return false;
	for (size_t i = 0; i <= len; i++) {
		if (i < len && text[i] != '.') {
			out[i] = lower(text[i]);
			if (!is_name_byte(out[i]))
				return false;
			continue;
		}
		if (i == start || i - start > LABEL_MAX)
			return false;
		if (i < len)
			out[i] = '.';
		else if (is_numeric_label(out + start, i - start))
			return false;
		start = i + 1;
	}
	memset(out + len, 0, HOST_MAX - len);
	return true;
}

bool host_parse(const char *text, size_t len, struct host *ret)
{
	struct host h;

	memset(&h, 0, sizeof(h));
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		if (!address_parse(text + 1, len - 2, &h.address) || h.address.family != 6)
			return false;
	} else if (!address_parse(text, len, &h.address)) {
		/* A trailing dot is dropped from an address too, or it would be another name for it. */
		size_t bare = len && text[len - 1] == '.' ? len - 1 : len;
		if ((!address_parse(text, bare, &h.address) || h.address.family != 4) &&
		    !parse_name(text, len, h.name))
			return false;
		if (h.name[0])
			h.address.family = 0;
	}
	*ret = h;
	return true;
}

bool host_parse_port(const char *text, size_t len, uint16_t *ret)
{
	uint32_t v = 0;

	if (len == 0 || len > 5 || text[0] == '0')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(text[i]))
			return false;
		v = v * 10 + (uint32_t)(text[i] - '0');
	}
	if (v > 65535)
		return false;
	*ret = (uint16_t)v;
	return true;
}

/* Where the port's colon stands, @len if there is none; false for stray brackets. */
static bool find_port(const char *text, size_t len, size_t *ret_host_len)
{
	const char *end;

	if (len && text[0] == '[') {
		end = memchr(text, ']', len);
		if (!end)
			return false;
		end++;
	} else {
		end = memchr(text, ':', len);
		if (!end)
			end = text + len;
	}
	if (end != text + len && *end != ':')
		return false;
	*ret_host_len = (size_t)(end - text);
	return true;
}

bool target_parse(const char *text, size_t len, uint16_t dflt, struct target *ret)
{
	struct target t = { .port = dflt };
	size_t host_len;

	if (!find_port(text, len, &host_len) || !host_parse(text, host_len, &t.host))
		return false;
	if (host_len < len && !host_parse_port(text + host_len + 1, len - host_len - 1, &t.port))
		return false;
	if (!t.port)
		return false;
	*ret = t;
	return true;
}

/* Bare IPv6: more than one colon and no bracket. It cannot carry a port. */
static bool is_bare6(const char *text, size_t len)
{
	const char *colon = memchr(text, ':', len);

	return colon && text[0] != '[' &&
	       memchr(colon + 1, ':', len - (size_t)(colon + 1 - text));
}

bool host_entry_parse(const char *text, size_t len, struct host_entry *ret)
{
	struct host_entry entry;
	size_t host_len = len;
	bool wildcard = len >= 2 && text[0] == '*' && text[1] == '.';

	memset(&entry, 0, sizeof(entry));
	memset(ret, 0, sizeof(*ret));
	if (wildcard) {
		text += 2;
		host_len = len -= 2;
	}
	if (!is_bare6(text, len) && !find_port(text, len, &host_len))
		return false;
	if (!host_parse(text, host_len, &entry.host) || (wildcard && !entry.host.name[0]))
		return false;
	if (host_len < len &&
	    !host_parse_port(text + host_len + 1, len - host_len - 1, &entry.port))
		return false;
	*ret = entry;
	return true;
}

/* True when @name is @suffix or ends in "." @suffix. */
static bool name_within(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	if (!s || n < s || memcmp(name + n - s, suffix, s) != 0)
		return false;
	return n == s || name[n - s - 1] == '.';
}

/* True when everything @inner names is named by @outer too. */
static bool host_within(const struct host *inner, const struct host *outer)
{
	if (inner->name[0] || outer->name[0])
		return name_within(inner->name, outer->name);
	return address_equal(&inner->address, &outer->address);
}

bool host_entry_matches(const struct host_entry *entry, const struct host *host, uint16_t port)
{
	return host_within(host, &entry->host) && (!entry->port || entry->port == port);
}

bool host_entry_meet(const struct host_entry *a, const struct host_entry *b,
		     struct host_entry *ret)
{
	struct host_entry m;

	if (a->port && b->port && a->port != b->port)
		return false;
	if (host_within(&a->host, &b->host))
		m = *a;
	else if (host_within(&b->host, &a->host))
		m = *b;
	else
		return false;
	m.port = a->port ? a->port : b->port;
	*ret = m;
	return true;
}

size_t host_format(const struct host *host, char out[static HOST_MAX])
{
	size_t n = strlen(host->name);

	if (!n)
		return address_format(&host->address, out);
	memcpy(out, host->name, n + 1);
	return n;
}

static size_t put_port(char *out, uint16_t port)
{
	char digits[5];
	size_t n = 0, len = 0;

	out[len++] = ':';
	do {
		digits[n++] = (char)('0' + port % 10);
		port /= 10;
	} while (port);
	while (n)
		out[len++] = digits[--n];
	return len;
}

static size_t put_host(const struct host *host, bool brackets, char *out)
{
	size_t len = 0;

	if (brackets)
		out[len++] = '[';
	len += host_format(host, out + len);
	if (brackets)
		out[len++] = ']';
	return len;
}

size_t host_entry_format(const struct host_entry *entry, char out[static HOST_TEXT_MAX])
{
	bool brackets = entry->host.address.family == 6 && entry->port;
	size_t len = put_host(&entry->host, brackets, out);

	if (entry->port)
		len += put_port(out + len, entry->port);
	out[len] = '\0';
	return len;
}

size_t target_format(const struct target *t, uint16_t dflt, char out[static HOST_TEXT_MAX])
{
	size_t len = put_host(&t->host, t->host.address.family == 6, out);

	if (t->port != dflt)
		len += put_port(out + len, t->port);
	out[len] = '\0';
	return len;
}
