/* Pure: one flat JSON object, in and out. SPDX-License-Identifier: Apache-2.0 */
/*
 * A cursor over borrowed bytes; every helper moves it forward or gives false,
 * after which nothing is looked at again. Does not know what the keys mean.
 */
#include "json/flat.h"

#include <string.h>

struct cursor {
	const char *p, *end;
};

static bool take(struct cursor *c, char want)
{
	if (c->p == c->end || *c->p != want)
		return false;
	c->p++;
	return true;
}

static bool take_word(struct cursor *c, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
		return false;
	c->p += n;
	return true;
}

static bool is_digit(const struct cursor *c)
{
	return c->p < c->end && *c->p >= '0' && *c->p <= '9';
}

/* --- Text */

/* Where decoded bytes go; a NULL @buf only checks. */
struct sink {
	char *buf;
	size_t cap, len;
};

static bool put(struct sink *s, const void *bytes, size_t n)
{
	if (!s->buf)
		return true;
	if (n >= s->cap - s->len)
		return false;
	memcpy(s->buf + s->len, bytes, n);
	s->len += n;
	return true;
}

static bool put_point(struct sink *s, uint32_t cp)
{
	uint8_t b[4];

	if (cp < 0x80) {
		b[0] = (uint8_t)cp;
		return put(s, b, 1);
	}
	if (cp < 0x800) {
		b[0] = (uint8_t)(0xc0 | cp >> 6);
		b[1] = (uint8_t)(0x80 | (cp & 63));
		return put(s, b, 2);
	}
	if (cp < 0x10000) {
		b[0] = (uint8_t)(0xe0 | cp >> 12);
		b[1] = (uint8_t)(0x80 | (cp >> 6 & 63));
		b[2] = (uint8_t)(0x80 | (cp & 63));
		return put(s, b, 3);
	}
	b[0] = (uint8_t)(0xf0 | cp >> 18);
	b[1] = (uint8_t)(0x80 | (cp >> 12 & 63));
	b[2] = (uint8_t)(0x80 | (cp >> 6 & 63));
	b[3] = (uint8_t)(0x80 | (cp & 63));
	return put(s, b, 4);
}

/* Length of the well-formed UTF-8 sequence at @p, 0 when there is none. */
static size_t sequence(const char *text, const char *end)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t have = (size_t)(end - text);
	/* the second byte's range is what excludes overlong forms, surrogates and > U+10FFFF */
	uint8_t lo = 0x80, hi = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (p[0] == 0xe0)
		lo = 0xa0;
	if (p[0] == 0xf0)
		lo = 0x90;
	if (p[0] == 0xed)
		hi = 0x9f;
	if (p[0] == 0xf4)
		hi = 0x8f;
	if (have < n || p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return n;
}

bool flat_is_utf8(const char *text, size_t len)
{
	for (const char *p = text, *end = text + len; p < end;) {
		size_t n = sequence(p, end);
		if (n == 0)
			return false;
		p += n;
	}
	return true;
}

static bool take_hex4(struct cursor *c, uint32_t *ret)
{
	uint32_t v = 0;

	if (c->end - c->p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char d = *c->p++;
		if (d >= '0' && d <= '9')
			v = v << 4 | (uint32_t)(d - '0');
		else if (d >= 'a' && d <= 'f')
			v = v << 4 | (uint32_t)(d - 'a' + 10);
		else if (d >= 'A' && d <= 'F')
			v = v << 4 | (uint32_t)(d - 'A' + 10);
		else
			return false;
	}
	*ret = v;
	return true;
}

static bool take_unicode(struct cursor *c, struct sink *s)
{
	uint32_t cp, low;

	if (!take_hex4(c, &cp) || cp == 0 || (cp >= 0xdc00 && cp <= 0xdfff))
		return false;
	if (cp >= 0xd800 && cp <= 0xdbff) {
		if (!take(c, '\\') || !take(c, 'u') || !take_hex4(c, &low) || low < 0xdc00 ||
		    low > 0xdfff)
			return false;
		cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
	}
	return put_point(s, cp);
}

static bool take_escape(struct cursor *c, struct sink *s)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

	if (take(c, 'u'))
		return take_unicode(c, s);
	for (size_t i = 0; i < sizeof(from) - 1; i++)
		if (take(c, from[i]))
			return put(s, &to[i], 1);
	return false;
}

static bool take_string(struct cursor *c, struct sink *s)
{
	if (!take(c, '"'))
		return false;
	while (c->p < c->end) {
		if (take(c, '"')) {
			if (s->buf)
				s->buf[s->len] = '\0';
			return true;
		}
		if (take(c, '\\')) {
			if (!take_escape(c, s))
				return false;
			continue;
		}
		size_t n = sequence(c->p, c->end);
		if (n == 0 || (uint8_t)*c->p < 0x20 || !put(s, c->p, n))
			return false;
		c->p += n;
	}
	return false;
}

/* --- Values */

/* A JSON number. *ret_plain is set when it is an integer up to FLAT_NUMBER_MAX. */
static bool take_number(struct cursor *c, bool *ret_plain, uint64_t *ret)
{
	bool plain = !take(c, '-');
	uint64_t v = 0;

	if (!is_digit(c))
		return false;
	if (take(c, '0')) {
		if (is_digit(c))
			return false;
	}
	for (; is_digit(c); c->p++) {
		v = v * 10 + (uint64_t)(*c->p - '0');
		if (v > FLAT_NUMBER_MAX) {
			plain = false;
			v = 0;
		}
	}
	if (take(c, '.')) {
		plain = false;
		if (!is_digit(c))
			return false;
		while (is_digit(c))
			c->p++;
	}
	if (take(c, 'e') || take(c, 'E')) {
		plain = false;
		if (!take(c, '+'))
			take(c, '-');
		if (!is_digit(c))
			return false;
		while (is_digit(c))
			c->p++;
	}
	*ret_plain = plain;
	*ret = v;
	return true;
}

static bool skip_scalar(struct cursor *c)
{
	struct sink nowhere = { 0 };
	bool plain;
	uint64_t v;

	if (c->p < c->end && *c->p == '"')
		return take_string(c, &nowhere);
	return take_word(c, "true") || take_word(c, "false") || take_word(c, "null") ||
	       take_number(c, &plain, &v);
}

static bool skip_key(struct cursor *c)
{
	struct sink nowhere = { 0 };

	return take_string(c, &nowhere) && take(c, ':');
}

/* After a value inside brackets: closes what ends here, or gets ready for the next one. */
static bool skip_after(struct cursor *c, const char *closers, unsigned *depth)
{
	while (*depth > 0) {
		if (take(c, ','))
			return closers[*depth - 1] == ']' || skip_key(c);
		if (!take(c, closers[*depth - 1]))
			return false;
		(*depth)--;
	}
	return true;
}

/* Any JSON value, with a stack of its own instead of recursion. */
static bool skip_value(struct cursor *c)
{
	char closers[FLAT_DEPTH_MAX];
	unsigned depth = 0;

	do {
		bool is_object = c->p < c->end && *c->p == '{';
		if (is_object || (c->p < c->end && *c->p == '[')) {
			if (depth == FLAT_DEPTH_MAX)
				return false;
			c->p++;
			closers[depth++] = is_object ? '}' : ']';
			if (!take(c, closers[depth - 1])) {
				if (is_object && !skip_key(c))
					return false;
				continue; /* its first value comes now */
			}
			depth--;
		} else if (!skip_scalar(c)) {
			return false;
		}
		if (!skip_after(c, closers, &depth))
			return false;
	} while (depth > 0);
	return true;
}

static bool read_member(struct cursor *c, struct flat_member *m)
{
	bool is_plain = false;
	bool is_number = c->p < c->end && (*c->p == '-' || is_digit(c));

	m->state = FLAT_WRONG;
	if (m->kind == FLAT_TEXT && c->p < c->end && *c->p == '"') {
		struct sink s = { .buf = m->text, .cap = m->cap };
		m->state = FLAT_THERE;
		return take_string(c, &s);
	}
	if (m->kind != FLAT_NUMBER || !is_number)
		return skip_value(c);
	if (!take_number(c, &is_plain, &m->number))
		return false;
	if (is_plain)
		m->state = FLAT_THERE;
	return true;
}

bool flat_read(const char *json, size_t len, struct flat_member *m, size_t n)
{
	struct cursor c = { json, json + len };
	size_t next = 0;

	for (size_t i = 0; i < n; i++)
		m[i].state = FLAT_ABSENT;
	if (!take(&c, '{'))
		return false;
	if (take(&c, '}'))
		return c.p == c.end;
	do {
		char key[32];
		struct sink s = { .buf = key, .cap = sizeof(key) };
		if (!take_string(&c, &s) || !take(&c, ':'))
			return false;
		while (next < n && strcmp(m[next].key, key) != 0)
			next++;
		if (next == n || !read_member(&c, &m[next++]))
			return false;
	} while (take(&c, ','));
	return take(&c, '}') && c.p == c.end;
}

/* --- Writing */

static void out_bytes(struct flat_out *o, const char *bytes, size_t n)
{
	if (o->is_full || n >= o->cap - o->len) {
		o->is_full = true;
		return;
	}
	memcpy(o->buf + o->len, bytes, n);
	o->len += n;
}

/* S2: control characters as lower-case \u00xx, all of them; the rest raw. */
static void out_string(struct flat_out *o, const char *text)
{
	static const char digits[] = "0123456789abcdef";
	const char *plain = text;

	out_bytes(o, "\"", 1);
	for (; *text; text++) {
		uint8_t b = (uint8_t)*text;
		char esc[6] = { '\\', 'u', '0', '0', digits[b >> 4], digits[b & 15] };
		if (b >= 0x20 && b != '"' && b != '\\')
			continue;
		out_bytes(o, plain, (size_t)(text - plain));
		if (b < 0x20)
			out_bytes(o, esc, sizeof(esc));
		else
			out_bytes(o, (char[]){ '\\', *text }, 2);
		plain = text + 1;
	}
	out_bytes(o, plain, (size_t)(text - plain));
	out_bytes(o, "\"", 1);
}

void flat_begin(struct flat_out *o, char *buf, size_t cap)
{
	*o = (struct flat_out){ .buf = buf, .cap = cap, .is_full = cap == 0 };
	out_bytes(o, "{", 1);
}

static void out_key(struct flat_out *o, const char *key)
{
	if (o->len > 1)
		out_bytes(o, ",", 1);
	out_string(o, key);
	out_bytes(o, ":", 1);
}

void flat_text(struct flat_out *o, const char *key, const char *text)
{
	out_key(o, key);
	out_string(o, text);
}

void flat_number(struct flat_out *o, const char *key, uint64_t v)
{
	char digits[20];
	size_t i = sizeof(digits);

	out_key(o, key);
	do {
		digits[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	out_bytes(o, digits + i, sizeof(digits) - i);
}

size_t flat_end(struct flat_out *o)
{
	out_bytes(o, "}", 1);
	if (o->is_full)
		return 0;
	o->buf[o->len] = '\0';
	return o->len;
}
