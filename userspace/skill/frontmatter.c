/* Pure: SPDX-License-Identifier: Apache-2.0 */
/*
 * A line reader, one function per kind of value, and a table of the keys whose
 * values are kept. Every line is consumed once; nothing recurses.
 */
#include "skill/frontmatter.h"

#include <string.h>

#include "base/hex.h"

/* A piece of the text; never owns. */
struct span {
	const char *p;
	size_t len;
};

enum value_kind {
	VALUE_NONE = 1 << 0,
	VALUE_TEXT = 1 << 1, /* quoted or block */
	VALUE_PLAIN = 1 << 2,
	VALUE_LIST = 1 << 3,
	VALUE_MAP = 1 << 4,
};

/* A value while it is put together; what does not fit is noted and dropped. */
struct value {
	enum value_kind kind;
	size_t len;
	bool is_too_long;
	char text[4096];
};

struct reader {
	const char *p;
	size_t len, at;
	uint32_t line;
	const char *fault;
	struct value value;
	struct span keys[FRONT_MATTER_KEYS_MAX];
	size_t nkeys;
};

static bool fail(struct reader *r, const char *words)
{
	if (!r->fault)
		r->fault = words;
	return false;
}

static void put(struct value *v, const char *p, size_t n)
{
	if (n > sizeof(v->text) - 1 - v->len) {
		v->is_too_long = true;
		return;
	}
	memcpy(v->text + v->len, p, n);
	v->len += n;
	v->text[v->len] = '\0';
}

/* --- Lines */

static struct span trimmed(struct span s)
{
	while (s.len > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.len--;
	}
	while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

static bool is_text(struct span s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.p, text, s.len) == 0;
}

struct text_line {
	struct span all;  /* without its end */
	struct span body; /* without indentation and trailing blanks */
	size_t indent;
	size_t next; /* where the one after begins */
	bool is_blank, is_comment, is_end;
};

/* The line at the reader's place, which is not moved. False at the end of the text. */
static bool peek(struct reader *r, struct text_line *ret)
{
	const char *start = r->p + r->at;
	const char *end = memchr(start, '\n', r->len - r->at);

	if (r->at >= r->len)
		return false;
	ret->all = (struct span){ start, end ? (size_t)(end - start) : r->len - r->at };
	ret->next = r->at + ret->all.len + (end != NULL);
	if (ret->all.len > 0 && start[ret->all.len - 1] == '\r')
		ret->all.len--;
	ret->indent = 0;
	while (ret->indent < ret->all.len && start[ret->indent] == ' ')
		ret->indent++;
	ret->body = trimmed(ret->all);
	ret->is_blank = ret->body.len == 0;
	ret->is_comment = !ret->is_blank && ret->body.p[0] == '#';
	ret->is_end = ret->indent == 0 && (is_text(ret->body, "---") || is_text(ret->body, "..."));
	if (!ret->is_blank && start[ret->indent] == '\t')
		return fail(r, "a tab as indentation");
	return true;
}

static void take(struct reader *r, const struct text_line *l)
{
	r->at = l->next;
	r->line++;
}

/* The next line that says something. False at the end of the front matter. */
static bool peek_content(struct reader *r, struct text_line *ret)
{
	while (peek(r, ret)) {
		if (ret->is_end)
			return false;
		if (!ret->is_blank && !ret->is_comment)
			return true;
		take(r, ret);
	}
	return false;
}

/* --- Text on one line */

static void put_utf8(struct value *v, uint32_t c)
{
	char out[3];
	size_t n = 0;

	if (c < 0x80) {
		out[n++] = (char)c;
	} else if (c < 0x800) {
		out[n++] = (char)(0xc0 | c >> 6);
		out[n++] = (char)(0x80 | (c & 0x3f));
	} else {
		out[n++] = (char)(0xe0 | c >> 12);
		out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
		out[n++] = (char)(0x80 | (c & 0x3f));
	}
	put(v, out, n);
}

/* After a backslash: gives the bytes eaten, 0 for an escape that is none. */
static size_t put_escape(struct value *v, const char *p, size_t len)
{
	static const char names[] = "\"\\/ntrbf0", means[] = "\"\\/\n\t\r\b\f";
	const char *at = len ? memchr(names, p[0], 8) : NULL;
	size_t digits = len && p[0] == 'x' ? 2 : len && p[0] == 'u' ? 4 : 0;
	uint32_t c = 0;

	if (at) {
		put(v, means + (at - names), 1);
		return 1;
	}
	if (digits == 0 || len < 1 + digits)
		return 0;
	for (size_t i = 1; i <= digits; i++) {
		int h = hex_value(p[i]);
		if (h < 0)
			return 0;
		c = c << 4 | (uint32_t)h;
	}
	if (c == 0 || (c >= 0xd800 && c < 0xe000))
		return 0;
	put_utf8(v, c);
	return 1 + digits;
}

/*
 * Quoted text from @s, which begins with the quote, to the closing one. Gives
 * the bytes eaten; 0 with a fault for a bad escape; *ret_open when the line
 * ended first.
 */
static size_t put_quoted(struct reader *r, struct span s, char quote, bool *ret_open)
{
	struct value *v = &r->value;
	size_t i = 0;

	*ret_open = false;
	while (i < s.len) {
		char c = s.p[i];
		if (c == quote && quote == '\'' && i + 1 < s.len && s.p[i + 1] == quote) {
			put(v, "'", 1);
			i += 2;
		} else if (c == quote) {
			return i + 1;
		} else if (c == '\\' && quote == '"') {
			size_t n = put_escape(v, s.p + i + 1, s.len - i - 1);
			if (n == 0)
				return (size_t)fail(r, "unknown escape");
			i += 1 + n;
		} else {
			put(v, &c, 1);
			i++;
		}
	}
	*ret_open = true;
	return s.len;
}

/* Nothing but a comment may follow a value. */
static bool ends_here(struct reader *r, struct span s)
{
	struct span rest = trimmed(s);

	if (rest.len == 0 || (rest.p[0] == '#' && rest.p != s.p))
		return true;
	return fail(r, "bytes after the value");
}

/* A plain scalar without its comment. */
static bool plain_text(struct reader *r, struct span s, struct span *ret)
{
	for (size_t i = 0; i < s.len; i++) {
		bool blank_before = i > 0 && (s.p[i - 1] == ' ' || s.p[i - 1] == '\t');
		if (s.p[i] == '#' && blank_before) {
			s.len = i;
			break;
		}
		if (s.p[i] == ':' &&
		    (i + 1 == s.len || s.p[i + 1] == ' ' || s.p[i + 1] == '\t'))
			return fail(r, "': ' in plain text: put it in quotes");
	}
	*ret = trimmed(s);
	return true;
}

/* --- Values; each is given what follows "key:" on its line, which is taken already */

static bool read_plain(struct reader *r, struct span first)
{
	struct text_line l;
	struct span s;

	r->value.kind = VALUE_PLAIN;
	if (!plain_text(r, first, &s))
		return false;
	put(&r->value, s.p, s.len);
	while (peek_content(r, &l) && l.indent > 0) {
		take(r, &l);
		if (!plain_text(r, l.body, &s))
			return false;
		put(&r->value, " ", 1);
		put(&r->value, s.p, s.len);
	}
	return !r->fault;
}

static bool read_quoted(struct reader *r, struct span first)
{
	char quote = first.p[0];
	struct span s = { first.p + 1, first.len - 1 };
	struct text_line l;
	bool is_open;

	r->value.kind = VALUE_TEXT;
	for (;;) {
		size_t n = put_quoted(r, s, quote, &is_open);
		if (r->fault)
			return false;
		if (!is_open)
			return ends_here(r, (struct span){ s.p + n, s.len - n });
		if (!peek(r, &l) || l.is_end || (!l.is_blank && l.indent == 0))
			return fail(r, "a quote is not closed");
		take(r, &l);
		put(&r->value, " ", 1);
		s = l.body;
	}
}

/* The head of a block: | or >, then at most one digit and one of + and -. */
static bool block_head(struct span s, bool *ret_keeps_end)
{
	size_t signs = 0, digits = 0, i = 1;

	*ret_keeps_end = true;
	for (; i < s.len && s.p[i] != ' ' && s.p[i] != '\t'; i++) {
		if (s.p[i] == '+' || s.p[i] == '-') {
			*ret_keeps_end = s.p[i] == '+';
			signs++;
		} else if (s.p[i] >= '1' && s.p[i] <= '9') {
			digits++;
		} else {
			return false;
		}
	}
	struct span rest = trimmed((struct span){ s.p + i, s.len - i });
	return signs <= 1 && digits <= 1 && (rest.len == 0 || rest.p[0] == '#');
}

static bool read_block(struct reader *r, struct span first)
{
	bool is_folded = first.p[0] == '>', keeps_end;
	size_t indent = 0, breaks = 0;
	struct text_line l;

	r->value.kind = VALUE_TEXT;
	if (!block_head(first, &keeps_end))
		return fail(r, "malformed block text");
	while (peek(r, &l) && !l.is_end && (l.is_blank || l.indent > 0)) {
		take(r, &l);
		if (l.is_blank) {
			breaks++;
			continue;
		}
		if (indent == 0)
			indent = l.indent;
		if (l.indent < indent)
			return fail(r, "block text is indented unevenly");
		if (r->value.len > 0 && is_folded && breaks == 0)
			put(&r->value, " ", 1);
		for (size_t i = is_folded ? 1 : 0; r->value.len > 0 && i <= breaks; i++)
			put(&r->value, "\n", 1);
		put(&r->value, l.all.p + indent, l.all.len - indent);
		breaks = 0;
	}
	(void)keeps_end; /* final line ends carry no meaning here */
	return !r->fault;
}

/* Brackets, possibly over several lines. The text of a list of scalars is kept, joined. */
static bool read_flow(struct reader *r, struct span first)
{
	char closers[16];
	size_t depth = 0, start = 0;
	struct span s = first;
	struct text_line l;

	r->value.kind = first.p[0] == '[' ? VALUE_LIST : VALUE_MAP;
	for (;;) {
		for (size_t i = 0; i < s.len; i++) {
			char c = s.p[i];
			if (c == '"' || c == '\'') {
				bool is_open;
				size_t n = put_quoted(r, (struct span){ s.p + i + 1, s.len - i - 1 },
						      c, &is_open);
				if (r->fault || is_open)
					return fail(r, "a quote is not closed");
				i += n;
			} else if (c == '[' || c == '{') {
				if (depth == sizeof(closers))
					return fail(r, "nested too deeply");
				closers[depth++] = c == '[' ? ']' : '}';
			} else if (c == ']' || c == '}') {
				if (c != closers[depth - 1])
					return fail(r, "brackets do not match");
				if (--depth == 0)
					return ends_here(r, (struct span){ s.p + i + 1,
									   s.len - i - 1 });
			} else if (c == ',') {
				put(&r->value, ", ", 2);
				start = r->value.len;
			} else if ((c != ' ' && c != '\t') || r->value.len > start) {
				put(&r->value, &c, 1);
			}
		}
		if (!peek(r, &l) || l.is_end || (!l.is_blank && l.indent == 0))
			return fail(r, "a bracket is not closed");
		take(r, &l);
		s = l.body;
	}
}

static bool is_item(const struct text_line *l)
{
	return l->body.p[0] == '-' && (l->body.len == 1 || l->body.p[1] == ' ');
}

static bool put_item(struct reader *r, struct span item)
{
	bool is_open;

	if (r->value.len > 0)
		put(&r->value, ", ", 2);
	if (item.len == 0 || (item.p[0] != '"' && item.p[0] != '\'')) {
		put(&r->value, item.p, item.len);
		return true;
	}
	size_t n = put_quoted(r, (struct span){ item.p + 1, item.len - 1 }, item.p[0], &is_open);
	if (r->fault || is_open)
		return fail(r, "a quote is not closed");
	return ends_here(r, (struct span){ item.p + 1 + n, item.len - 1 - n });
}

/* `- item` lines, all indented alike; what is indented further belongs to an item. */
static bool read_list(struct reader *r, size_t indent)
{
	struct text_line l;

	r->value.kind = VALUE_LIST;
	while (peek_content(r, &l) && (l.indent > indent || (l.indent == indent && is_item(&l)))) {
		take(r, &l);
		if (l.indent > indent)
			continue;
		if (!put_item(r, trimmed((struct span){ l.body.p + 1, l.body.len - 1 })))
			return false;
	}
	if (!r->fault && peek_content(r, &l) && l.indent > 0)
		return fail(r, "a list is indented unevenly");
	return !r->fault;
}

/* Where the key of a line ends: its length, or 0 where the line has none. */
static size_t key_length(struct span s)
{
	size_t n = 0;

	while (n < s.len && s.p[n] != ':' && s.p[n] != ' ' && s.p[n] != '#' && s.p[n] != '"')
		n++;
	if (n == 0 || n > 64 || n == s.len || s.p[n] != ':')
		return 0;
	return n + 1 == s.len || s.p[n + 1] == ' ' || s.p[n + 1] == '\t' ? n : 0;
}

static bool read_map(struct reader *r, size_t indent)
{
	struct text_line l;

	r->value.kind = VALUE_MAP;
	while (peek_content(r, &l) && l.indent >= indent && l.indent > 0) {
		if (l.indent == indent && key_length(l.body) == 0)
			return fail(r, "not a key and a value");
		take(r, &l);
	}
	if (!r->fault && peek_content(r, &l) && l.indent > 0)
		return fail(r, "a mapping is indented unevenly");
	return !r->fault;
}

/* Nothing stands behind the colon: the value is what is indented below, if anything. */
static bool read_below(struct reader *r)
{
	struct text_line l;

	r->value.kind = VALUE_NONE;
	if (!peek_content(r, &l))
		return !r->fault;
	if (is_item(&l))
		return read_list(r, l.indent);
	if (l.indent == 0)
		return true;
	if (key_length(l.body) > 0)
		return read_map(r, l.indent);
	take(r, &l);
	return read_plain(r, l.body);
}

static bool read_value(struct reader *r, struct span first)
{
	r->value.len = 0;
	r->value.text[0] = '\0';
	r->value.is_too_long = false;
	if (first.len == 0 || first.p[0] == '#')
		return read_below(r);
	if (memchr("&*!%@`?,]}", first.p[0], 10) ||
	    (first.p[0] == '-' && (first.len == 1 || first.p[1] == ' ')))
		return fail(r, "anchors, aliases, tags and the like are not read");
	if (first.p[0] == '|' || first.p[0] == '>')
		return read_block(r, first);
	if (first.p[0] == '"' || first.p[0] == '\'')
		return read_quoted(r, first);
	if (first.p[0] == '[' || first.p[0] == '{')
		return read_flow(r, first);
	return read_plain(r, first);
}

/* --- Keys */

static const struct {
	const char *key;
	unsigned kinds; /* enum value_kind */
	size_t offset, size;
} known[] = {
#define KEEP(name, member, allowed) \
	{ name, allowed, offsetof(struct front_matter, member), \
	  sizeof(((struct front_matter *)0)->member) }
	KEEP("name", name, VALUE_TEXT | VALUE_PLAIN),
	KEEP("description", description, VALUE_TEXT | VALUE_PLAIN),
	KEEP("license", license, VALUE_NONE | VALUE_TEXT | VALUE_PLAIN),
	KEEP("licence", license, VALUE_NONE | VALUE_TEXT | VALUE_PLAIN),
	KEEP("compatibility", compatibility, VALUE_NONE | VALUE_TEXT | VALUE_PLAIN),
	KEEP("version", version, VALUE_NONE | VALUE_TEXT | VALUE_PLAIN),
	KEEP("allowed-tools", allowed_tools, VALUE_NONE | VALUE_TEXT | VALUE_PLAIN | VALUE_LIST),
#undef KEEP
};

static bool keep_execution(struct reader *r, struct front_matter *ret)
{
	struct span s = { r->value.text, r->value.len };

	if (r->value.kind != VALUE_PLAIN || !(is_text(s, "true") || is_text(s, "false")))
		return fail(r, "requiresExecution is neither true nor false");
	ret->requires_execution = is_text(s, "true");
	return true;
}

static bool keep(struct reader *r, struct span key, struct front_matter *ret)
{
	if (is_text(key, "requiresExecution"))
		return keep_execution(r, ret);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!is_text(key, known[i].key))
			continue;
		if (!(known[i].kinds & r->value.kind))
			return fail(r, "a value of the wrong type");
		if (r->value.is_too_long || r->value.len >= known[i].size)
			return fail(r, "a value is too long");
		memcpy((char *)ret + known[i].offset, r->value.text, r->value.len + 1);
	}
	return true;
}

static bool remember_key(struct reader *r, struct span key)
{
	for (size_t i = 0; i < r->nkeys; i++)
		if (r->keys[i].len == key.len && memcmp(r->keys[i].p, key.p, key.len) == 0)
			return fail(r, "a key given twice");
	if (r->nkeys == FRONT_MATTER_KEYS_MAX)
		return fail(r, "too many keys");
	r->keys[r->nkeys++] = key;
	return true;
}

static bool read_keys(struct reader *r, struct front_matter *ret)
{
	struct text_line l;

	while (peek_content(r, &l)) {
		size_t n = key_length(l.body);
		struct span key = { l.body.p, n };
		if (l.indent > 0)
			return fail(r, "unexpected indentation");
		if (n == 0)
			return fail(r, "not a key and a value");
		if (!remember_key(r, key))
			return false;
		take(r, &l);
		if (!read_value(r, trimmed((struct span){ l.body.p + n + 1, l.body.len - n - 1 })) ||
		    !keep(r, key, ret))
			return false;
	}
	if (!r->fault && !peek(r, &l))
		return fail(r, "the closing --- is missing");
	return !r->fault;
}

/* Valid UTF-8 without control characters, up to the line that ends the front matter. */
static bool is_clean(const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		unsigned char c = (unsigned char)text[i];
		size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 :
			   c >= 0xf0 && c < 0xf5 ? 4 : 0;
		if (n == 0 || n > len - i || (c < ' ' && !memchr("\t\r\n", c, 3)) || c == 0x7f)
			return false;
		for (size_t k = 1; k < n; k++)
			if (((unsigned char)text[i + k] & 0xc0) != 0x80)
				return false;
		unsigned char second = n > 1 ? (unsigned char)text[i + 1] : 0;
		if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) ||
		    (c == 0xf0 && second < 0x90) || (c == 0xf4 && second > 0x8f))
			return false;
		i += n;
	}
	return true;
}

const char *front_matter_read(const char *text, size_t len, struct front_matter *ret,
			      uint32_t *ret_line)
{
	static const char bom[3] = { '\xef', '\xbb', '\xbf' };
	struct reader r = { .p = text, .len = len < FRONT_MATTER_MAX ? len : FRONT_MATTER_MAX };
	struct text_line l;

	memset(ret, 0, sizeof(*ret));
	if (r.len >= sizeof(bom) && memcmp(text, bom, sizeof(bom)) == 0)
		r.at = sizeof(bom);
	if (!peek(&r, &l) || l.indent > 0 || !is_text(l.body, "---"))
		return NULL;
	take(&r, &l);
	size_t start = r.at;
	bool is_read = read_keys(&r, ret) && (is_clean(text + start, r.at - start) ||
					      fail(&r, "control characters or invalid UTF-8"));
	*ret_line = r.line + 1;
	if (!is_read) {
		memset(ret, 0, sizeof(*ret));
		return r.fault;
	}
	ret->is_present = true;
	return NULL;
}

const char *front_matter_advice(bool requires_execution, bool is_rollout_on)
{
	if (!requires_execution || is_rollout_on)
		return NULL;
	return "this skill requires execution, and the rollout is off: its scripts will not run";
}
