/* Pure: strict JSON in place, for rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/scan.h"

#include <string.h>

#include "base/hex.h"

struct scan {
	char *p, *end;
	struct scan_token *tokens;
	unsigned n;
};

static void skip_space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
		s->p++;
}

static int hex4(const char *p, const char *end)
{
	int v = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int d = hex_value(p[i]);

		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

static char *put_utf8(char *out, unsigned c)
{
	if (c < 0x80) {
		*out++ = (char)c;
	} else if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
		*out++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
		*out++ = (char)(0x80 | (c & 0x3f));
	} else {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
		*out++ = (char)(0x80 | (c & 0x3f));
	}
	return out;
}

/* \uXXXX, p behind the u. Neither NUL nor half a pair is text. */
static bool unescape_unicode(struct scan *s, char **out)
{
	int c = hex4(s->p, s->end);

	if (c <= 0 || (c >= 0xdc00 && c <= 0xdfff))
		return false;
	s->p += 4;
	if (c >= 0xd800 && c <= 0xdbff) {
		if (s->end - s->p < 6 || s->p[0] != '\\' || s->p[1] != 'u')
			return false;
		int low = hex4(s->p + 2, s->end);
		if (low < 0xdc00 || low > 0xdfff)
			return false;
		s->p += 6;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	*out = put_utf8(*out, (unsigned)c);
	return true;
}

static bool unescape(struct scan *s, char **out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

	if (s->p == s->end)
		return false;
	char c = *s->p++;
	if (c == 'u')
		return unescape_unicode(s, out);
	const char *at = memchr(from, c, sizeof(from) - 1);
	if (!at)
		return false;
	*(*out)++ = to[at - from];
	return true;
}

/* One character beyond ASCII: its length, or 0 where it is not UTF-8 as RFC 3629 has it. */
static size_t utf8_len(const char *text, const char *end)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = p[0] >= 0xc2 && p[0] <= 0xdf ? 2 :
		   p[0] >= 0xe0 && p[0] <= 0xef ? 3 :
		   p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 :
						  0;

	if (n == 0 || (size_t)(end - text) < n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* What stands for itself in a string: ASCII but for controls, the quote and the backslash. */
static const bool is_plain[256] = {
	[0x20 ... '"' - 1] = true,
	['"' + 1 ... '\\' - 1] = true,
	['\\' + 1 ... 0x7f] = true,
};

/* As much of that as there is, moved to *out. */
static void scan_plain(struct scan *s, char **out)
{
	char *from = s->p;

	while (s->p < s->end && is_plain[(unsigned char)*s->p])
		s->p++;
	size_t n = (size_t)(s->p - from);
	if (*out != from)
		memmove(*out, from, n);
	*out += n;
}

/* A string, p behind its first quote. What it means is never longer than how it is written. */
static bool scan_text(struct scan *s, struct scan_token *t)
{
	char *out = s->p;

	t->kind = SCAN_TEXT;
	t->s = out;
	for (;;) {
		scan_plain(s, &out);
		if (s->p == s->end)
			return false;
		if (*s->p == '"') {
			s->p++;
			*out = '\0';
			return true;
		}
		if (*s->p == '\\') {
			s->p++;
			if (!unescape(s, &out))
				return false;
		} else {
			size_t n = utf8_len(s->p, s->end); /* of a control character: none */
			if (n == 0)
				return false;
			while (n--)
				*out++ = *s->p++;
		}
	}
}

static bool scan_integer(struct scan *s, struct scan_token *t)
{
	bool negative = *s->p == '-';
	int64_t n = 0;
	char *first = s->p += negative;

	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *s->p - '0', &n))
			return false;
	if (s->p == first || (*first == '0' && s->p - first > 1))
		return false;
	if (s->p < s->end && (*s->p == '.' || *s->p == 'e' || *s->p == 'E'))
		return false; /* nothing in a row is a real */
	t->kind = SCAN_INTEGER;
	t->n = negative ? -n : n;
	return true;
}

static bool scan_word(struct scan *s, struct scan_token *t)
{
	static const struct {
		const char *word;
		enum scan_kind kind;
		int64_t n;
	} words[] = { { "null", SCAN_NULL, 0 }, { "true", SCAN_BOOL, 1 }, { "false", SCAN_BOOL, 0 } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t len = strlen(words[i].word);
		if ((size_t)(s->end - s->p) >= len && !memcmp(s->p, words[i].word, len)) {
			s->p += len;
			t->kind = words[i].kind;
			t->n = words[i].n;
			return true;
		}
	}
	return false;
}

/* A scalar, or the opening of an object or array. */
static bool scan_value(struct scan *s, const char *text, struct scan_token **ret)
{
	if (s->p == s->end || s->n == SCAN_TOKENS)
		return false;
	struct scan_token *t = &s->tokens[s->n++];
	*t = (struct scan_token){ .from = (uint32_t)(s->p - text) };
	*ret = t;
	char c = *s->p;
	bool good;
	if (c == '{' || c == '[') {
		t->kind = c == '{' ? SCAN_OBJECT : SCAN_ARRAY;
		s->p++;
		return true;
	}
	if (c == '"') {
		s->p++;
		good = scan_text(s, t);
	} else {
		good = c == '-' || (c >= '0' && c <= '9') ? scan_integer(s, t) : scan_word(s, t);
	}
	t->to = (uint32_t)(s->p - text);
	t->next = (uint16_t)s->n;
	return good;
}

static bool scan_key(struct scan *s, const char *text)
{
	struct scan_token *key;

	if (s->p == s->end || *s->p != '"' || !scan_value(s, text, &key))
		return false;
	skip_space(s);
	if (s->p == s->end || *s->p != ':')
		return false;
	s->p++;
	skip_space(s);
	return true;
}

/* Behind a value: closes what ends here. True: another member or element follows. */
static bool scan_behind(struct scan *s, const char *text, struct scan_token **open,
			unsigned *depth, bool *bad)
{
	while (*depth > 0) {
		struct scan_token *in = open[*depth - 1];
		char close = in->kind == SCAN_OBJECT ? '}' : ']';
		skip_space(s);
		if (s->p == s->end)
			break;
		if (*s->p == ',') {
			s->p++;
			skip_space(s);
			return true;
		}
		if (*s->p != close)
			break;
		s->p++;
		in->to = (uint32_t)(s->p - text);
		in->next = (uint16_t)s->n;
		--*depth;
	}
	*bad = *depth > 0;
	return false;
}

static bool is_container(const struct scan_token *t)
{
	return t->kind == SCAN_OBJECT || t->kind == SCAN_ARRAY;
}

/* An object or array just opened that closes at once. */
static bool is_empty(struct scan *s, const struct scan_token *t)
{
	skip_space(s);
	return s->p < s->end && *s->p == (t->kind == SCAN_OBJECT ? '}' : ']');
}

static bool scan_all(struct scan *s, const char *text)
{
	struct scan_token *open[SCAN_DEPTH], *t;
	unsigned depth = 0;
	bool more, bad = false;

	skip_space(s);
	do {
		struct scan_token *in = depth ? open[depth - 1] : NULL;
		if (in && in->kind == SCAN_OBJECT && !scan_key(s, text))
			return false;
		if (!scan_value(s, text, &t))
			return false;
		if (in)
			in->size++;
		more = false;
		if (is_container(t)) {
			if (depth == SCAN_DEPTH)
				return false;
			open[depth++] = t;
			more = !is_empty(s, t);
		}
		if (!more)
			more = scan_behind(s, text, open, &depth, &bad);
	} while (more && !bad);
	skip_space(s);
	return !bad && s->p == s->end;
}

int scan_json(char *text, size_t len, struct scan_token tokens[SCAN_TOKENS])
{
	struct scan s = { .p = text, .end = text + len, .tokens = tokens };

	return scan_all(&s, text) ? (int)s.n : (int)(-1 - (s.p - text));
}

const struct scan_token *scan_get(const struct scan_token *tokens, unsigned at, const char *key)
{
	const struct scan_token *found = NULL;
	unsigned i = at + 1;

	if (tokens[at].kind != SCAN_OBJECT)
		return NULL;
	for (unsigned member = 0; member < tokens[at].size; member++) {
		const struct scan_token *value = &tokens[i + 1];
		if (!strcmp(tokens[i].s, key)) {
			if (found)
				return NULL;
			found = value;
		}
		i = value->next;
	}
	return found;
}
