/* Pure: HTTP/1.1 heads, strictly (E13). SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the grammar of heads and of the fields that frame a body. Does not know
 * targets or credentials (request.c), nor bodies (body.c).
 */
#include "gateway/head.h"

#include <string.h>

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_token_byte(char c)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	if ((c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z'))
		return true;
	return c && memchr(others, c, sizeof(others) - 1);
}

/* VCHAR, obs-text, blank. */
static bool is_value_byte(char c)
{
	unsigned char u = (unsigned char)c;

	return c == '\t' || (u >= 0x20 && u != 0x7f);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool span_is(struct span s, const char *text)
{
	for (uint32_t i = 0; i < s.len; i++)
		if (!text[i] || lower(s.at[i]) != lower(text[i]))
			return false;
	return !text[s.len];
}

static bool span_equal(struct span a, struct span b)
{
	if (a.len != b.len)
		return false;
	for (uint32_t i = 0; i < a.len; i++)
		if (lower(a.at[i]) != lower(b.at[i]))
			return false;
	return true;
}

enum head_result head_scan(const char *buf, size_t len, size_t *scanned)
{
	size_t i = *scanned;

	if (len > HEAD_MAX)
		len = HEAD_MAX;
	for (; i < len; i++) {
		char c = buf[i];
		/* A CR is fine until the next byte says otherwise. */
		if (i && buf[i - 1] == '\r' && c != '\n')
			return HEAD_BAD;
		if (c == '\n') {
			if (i == 0 || buf[i - 1] != '\r')
				return HEAD_BAD;
			if (i == 1)
				return HEAD_BAD; /* nothing stands before the start line */
			if (i >= 3 && buf[i - 2] == '\n') {
				*scanned = i + 1;
				return HEAD_DONE;
			}
		} else if (c != '\r' && !is_value_byte(c)) {
			return HEAD_BAD;
		}
	}
	*scanned = i;
	return i >= HEAD_MAX ? HEAD_BAD : HEAD_MORE;
}

/* Bytes up to CRLF at *at; moves *at behind it. */
static bool take_line(const char *buf, size_t len, size_t *at, struct span *ret)
{
	const char *start = buf + *at;
	const char *lf = memchr(start, '\n', len - *at);

	if (!lf || lf == start || lf[-1] != '\r')
		return false;
	ret->at = start;
	ret->len = (uint32_t)(lf - 1 - start);
	*at += ret->len + 2;
	return true;
}

static bool parse_field(struct span line, struct field *ret)
{
	const char *colon = memchr(line.at, ':', line.len);
	uint32_t name_len;

	if (!colon || colon == line.at)
		return false;
	name_len = (uint32_t)(colon - line.at);
	for (uint32_t i = 0; i < name_len; i++)
		if (!is_token_byte(line.at[i]))
			return false;
	ret->name = (struct span){ line.at, name_len };
	ret->value = (struct span){ colon + 1, line.len - name_len - 1 };
	while (ret->value.len && is_blank(ret->value.at[0]))
		ret->value.at++, ret->value.len--;
	while (ret->value.len && is_blank(ret->value.at[ret->value.len - 1]))
		ret->value.len--;
	for (uint32_t i = 0; i < ret->value.len; i++)
		if (!is_value_byte(ret->value.at[i]))
			return false;
	return true;
}

/* The fields from @at on, up to and with the empty line that ends the buffer. */
static bool parse_fields(const char *buf, size_t len, size_t at, struct head *ret)
{
	struct span line;

	while (take_line(buf, len, &at, &line)) {
		if (line.len == 0) {
			ret->len = (uint32_t)at;
			return at == len;
		}
		if (ret->nfields == HEAD_FIELDS_MAX ||
		    !parse_field(line, &ret->fields[ret->nfields]))
			return false;
		ret->nfields++;
	}
	return false;
}

/* HTTP/1.0 or HTTP/1.1, exactly. */
static bool parse_version(struct span s, uint8_t *ret_minor)
{
	if (s.len != 8 || memcmp(s.at, "HTTP/1.", 7) != 0 || (s.at[7] != '0' && s.at[7] != '1'))
		return false;
	*ret_minor = (uint8_t)(s.at[7] - '0');
	return true;
}

/* Bytes of @line up to the first blank; moves @line behind it. */
static bool take_word(struct span *line, struct span *ret)
{
	const char *sp = memchr(line->at, ' ', line->len);

	if (!sp || sp == line->at)
		return false;
	*ret = (struct span){ line->at, (uint32_t)(sp - line->at) };
	line->at = sp + 1;
	line->len -= ret->len + 1;
	return true;
}

bool head_parse_request(const char *buf, size_t len, struct head *ret)
{
	struct span line;
	size_t at = 0;

	ret->nfields = 0;
	ret->status = 0;
	ret->reason = (struct span){ buf, 0 };
	if (!take_line(buf, len, &at, &line) || !take_word(&line, &ret->method) ||
	    !take_word(&line, &ret->target) || !parse_version(line, &ret->minor))
		return false;
	for (uint32_t i = 0; i < ret->method.len; i++)
		if (!is_token_byte(ret->method.at[i]))
			return false;
	for (uint32_t i = 0; i < ret->target.len; i++)
		if (ret->target.at[i] <= 0x20 || ret->target.at[i] == 0x7f)
			return false;
	return parse_fields(buf, len, at, ret);
}

bool head_parse_response(const char *buf, size_t len, struct head *ret)
{
	struct span line, version;
	size_t at = 0;

	ret->nfields = 0;
	ret->method = ret->target = (struct span){ buf, 0 };
	if (!take_line(buf, len, &at, &line) || !take_word(&line, &version) ||
	    !parse_version(version, &ret->minor) || line.len < 3)
		return false;
	ret->status = 0;
	for (int i = 0; i < 3; i++) {
		if (line.at[i] < '0' || line.at[i] > '9')
			return false;
		ret->status = (uint16_t)(ret->status * 10 + (line.at[i] - '0'));
	}
	if (ret->status < 100 || (line.len > 3 && line.at[3] != ' '))
		return false;
	ret->reason = (struct span){ line.at + 3, line.len - 3 };
	if (ret->reason.len)
		ret->reason.at++, ret->reason.len--;
	for (uint32_t i = 0; i < ret->reason.len; i++)
		if (!is_value_byte(ret->reason.at[i]))
			return false;
	return parse_fields(buf, len, at, ret);
}

const struct field *head_find(const struct head *h, const char *name, unsigned *ret_count)
{
	const struct field *found = NULL;
	unsigned n = 0;

	for (uint32_t i = 0; i < h->nfields; i++)
		if (span_is(h->fields[i].name, name)) {
			found = &h->fields[i];
			n++;
		}
	*ret_count = n;
	return n == 1 ? found : NULL;
}

/* Digits alone, no more than fit. */
static bool parse_length(struct span s, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.len == 0 || s.len > 18)
		return false;
	for (uint32_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s.at[i] - '0');
	}
	*ret = v;
	return true;
}

/* What the two framing fields say; FRAMING_NONE when there is neither. */
static enum framing framing_fields(const struct head *h, uint64_t *ret_length)
{
	unsigned lengths, codings;
	const struct field *length = head_find(h, "content-length", &lengths);
	const struct field *coding = head_find(h, "transfer-encoding", &codings);

	if (lengths > 1 || codings > 1 || (lengths && codings))
		return FRAMING_BAD;
	if (coding)
		return h->minor == 1 && span_is(coding->value, "chunked") ? FRAMING_CHUNKED
									   : FRAMING_BAD;
	if (length)
		return parse_length(length->value, ret_length) ? FRAMING_LENGTH : FRAMING_BAD;
	return FRAMING_NONE;
}

enum framing head_request_framing(const struct head *h, uint64_t *ret_length)
{
	enum framing f = framing_fields(h, ret_length);

	return f == FRAMING_LENGTH && *ret_length == 0 ? FRAMING_NONE : f;
}

enum framing head_response_framing(const struct head *h, bool is_head, uint64_t *ret_length)
{
	enum framing f = framing_fields(h, ret_length);

	if (f == FRAMING_BAD)
		return f;
	if (is_head || h->status / 100 == 1 || h->status == 204 || h->status == 304)
		return FRAMING_NONE;
	if (f == FRAMING_LENGTH && *ret_length == 0)
		return FRAMING_NONE;
	return f == FRAMING_NONE ? FRAMING_UNTIL_CLOSE : f;
}

/* Is @name an element of the comma-separated @list? */
static bool list_names(struct span list, struct span name)
{
	uint32_t i = 0;

	while (i < list.len) {
		uint32_t start, end;

		while (i < list.len && (is_blank(list.at[i]) || list.at[i] == ','))
			i++;
		start = i;
		while (i < list.len && list.at[i] != ',')
			i++;
		for (end = i; end > start && is_blank(list.at[end - 1]);)
			end--;
		if (end > start && span_equal((struct span){ list.at + start, end - start }, name))
			return true;
	}
	return false;
}

bool head_connection_names(const struct head *h, struct span name)
{
	for (uint32_t i = 0; i < h->nfields; i++)
		if ((span_is(h->fields[i].name, "connection") ||
		     span_is(h->fields[i].name, "proxy-connection")) &&
		    list_names(h->fields[i].value, name))
			return true;
	return false;
}

bool head_is_hop_by_hop(const struct head *h, const struct field *f)
{
	static const char *const always[] = {
		"connection",	       "proxy-connection",   "keep-alive",
		"te",		       "trailer",	     "transfer-encoding",
		"upgrade",	       "proxy-authorization", "proxy-authenticate",
		"proxy-authentication-info", "http2-settings",
	};

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (span_is(f->name, always[i]))
			return true;
	return head_connection_names(h, f->name);
}
