/* Pure: what a head asks for, and what goes on instead (E8, E13). SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns targets, proxy credentials and rewritten heads. Decides nothing
 * (policy/egress.c), connects nothing.
 */
#include "gateway/request.h"

#include <string.h>

#include "digest/base64.h"

enum { HTTP_PORT = 80, CREDENTIAL_MAX = 256 };

/* --- Reading */

static bool span_prefix(struct span s, const char *text, struct span *ret_rest)
{
	uint32_t n = (uint32_t)strlen(text);

	if (s.len < n || !span_is((struct span){ s.at, n }, text))
		return false;
	*ret_rest = (struct span){ s.at + n, s.len - n };
	return true;
}

/* For what held a credential: kept by the compiler, though nobody reads it again. */
static void forget(void *p, size_t n)
{
	memset(p, 0, n);
	__asm__ volatile("" : : "r"(p) : "memory");
}

/* Basic, the user name a token's shape. Anything else is no credential. */
static void read_credential(const struct head *h, struct request *ret)
{
	unsigned count;
	const struct field *f = head_find(h, "proxy-authorization", &count);
	uint8_t plain[CREDENTIAL_MAX];
	struct span text;
	const uint8_t *colon;
	ssize_t n;

	if (!f || !span_prefix(f->value, "basic ", &text))
		return;
	while (text.len && text.at[0] == ' ')
		text.at++, text.len--;
	n = base64_decode(text.at, text.len, plain, sizeof(plain));
	colon = n > 0 ? memchr(plain, ':', (size_t)n) : NULL;
	if (colon && egress_token_valid((const char *)plain, (size_t)(colon - plain))) {
		memcpy(ret->token, plain, (size_t)(colon - plain));
		ret->token[colon - plain] = '\0';
		ret->has_credential = true;
	}
	forget(plain, sizeof(plain));
}

/* http://AUTHORITY[/PATH][?QUERY]; no other scheme, no fragment. */
static bool read_absolute(const struct head *h, struct request *ret)
{
	struct span rest;
	uint32_t n = 0;

	if (!span_prefix(h->target, "http://", &rest) || memchr(rest.at, '#', rest.len))
		return false;
	while (n < rest.len && rest.at[n] != '/' && rest.at[n] != '?')
		n++;
	ret->has_target = target_parse(rest.at, n, HTTP_PORT, &ret->target);
	ret->path = (struct span){ rest.at + n, rest.len - n };
	return ret->has_target;
}

/* One Host under 1.1, and one that could be one: disagreeing is fine, the target decides. */
static bool host_is_sound(const struct head *h)
{
	unsigned count;
	const struct field *f = head_find(h, "host", &count);
	struct target unused;

	if (count > 1 || (count == 0 && h->minor == 1))
		return false;
	return !f || f->value.len == 0 ||
	       target_parse(f->value.at, f->value.len, HTTP_PORT, &unused);
}

static bool wants_close(const struct head *h)
{
	static const struct span word = { "close", 5 };

	return h->minor == 0 || head_connection_names(h, word);
}

bool request_read(const struct head *h, struct request *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->minor = h->minor;
	ret->is_connect = h->method.len == 7 && memcmp(h->method.at, "CONNECT", 7) == 0;
	ret->is_head = h->method.len == 4 && memcmp(h->method.at, "HEAD", 4) == 0;
	read_credential(h, ret);
	ret->framing = head_request_framing(h, &ret->length);
	if (ret->is_connect)
		ret->has_target = target_parse(h->target.at, h->target.len, 0, &ret->target);
	else if (!read_absolute(h, ret))
		return false;
	if (!ret->has_target || ret->framing == FRAMING_BAD || !host_is_sound(h))
		return false;
	if (ret->is_connect)
		return ret->framing == FRAMING_NONE;
	ret->keep_alive = !wants_close(h);
	return true;
}

/* --- Rendering */

struct out {
	char *buf;
	size_t cap, len;
	bool is_full;
};

static void put(struct out *o, const char *text, size_t n)
{
	if (o->is_full || n > o->cap - o->len) {
		o->is_full = true;
		return;
	}
	memcpy(o->buf + o->len, text, n);
	o->len += n;
}

static void put_text(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

static void put_number(struct out *o, uint64_t v)
{
	char digits[20];
	unsigned n = 0;

	do {
		digits[sizeof(digits) - ++n] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	put(o, digits + sizeof(digits) - n, n);
}

static void put_field(struct out *o, const struct field *f)
{
	put(o, f->name.at, f->name.len);
	put_text(o, ": ");
	put(o, f->value.at, f->value.len);
	put_text(o, "\r\n");
}

static void put_framing(struct out *o, enum framing framing, uint64_t length)
{
	if (framing == FRAMING_CHUNKED)
		put_text(o, "Transfer-Encoding: chunked\r\n");
	if (framing != FRAMING_LENGTH)
		return;
	put_text(o, "Content-Length: ");
	put_number(o, length);
	put_text(o, "\r\n");
}

static void put_path(struct out *o, const struct head *h, const struct request *r)
{
	bool is_options = h->method.len == 7 && memcmp(h->method.at, "OPTIONS", 7) == 0;

	if (r->path.len == 0)
		put_text(o, is_options ? "*" : "/");
	else if (r->path.at[0] == '?')
		put_text(o, "/");
	put(o, r->path.at, r->path.len);
}

size_t request_render(const struct head *h, const struct request *r, char *out, size_t cap)
{
	struct out o = { .buf = out, .cap = cap };
	char host[HOST_TEXT_MAX];
	unsigned lengths;

	put(&o, h->method.at, h->method.len);
	put_text(&o, " ");
	put_path(&o, h, r);
	put_text(&o, r->minor ? " HTTP/1.1\r\nHost: " : " HTTP/1.0\r\nHost: ");
	target_format(&r->target, HTTP_PORT, host);
	put_text(&o, host);
	put_text(&o, "\r\n");
	for (uint32_t i = 0; i < h->nfields; i++) {
		const struct field *f = &h->fields[i];
		/* Ours, whatever Connection names: Host and the framing. */
		if (span_is(f->name, "host") || span_is(f->name, "content-length") ||
		    head_is_hop_by_hop(h, f))
			continue;
		put_field(&o, f);
	}
	/* A length of 0 that was written is written: servers ask for it of a POST. */
	head_find(h, "content-length", &lengths);
	put_framing(&o, r->framing == FRAMING_NONE && lengths ? FRAMING_LENGTH : r->framing,
		    r->length);
	put_text(&o, "Connection: close\r\n\r\n");
	return o.is_full ? 0 : o.len;
}

size_t response_render(const struct head *h, enum framing framing, bool keep_alive, char *out,
		       size_t cap)
{
	struct out o = { .buf = out, .cap = cap };

	put_text(&o, "HTTP/1.1 ");
	put_number(&o, h->status);
	put_text(&o, " ");
	put(&o, h->reason.at, h->reason.len);
	put_text(&o, "\r\n");
	for (uint32_t i = 0; i < h->nfields; i++) {
		const struct field *f = &h->fields[i];
		/* A length stays, whatever Connection names: it frames what follows. */
		if (head_is_hop_by_hop(h, f) && !span_is(f->name, "content-length"))
			continue;
		put_field(&o, f);
	}
	if (framing == FRAMING_CHUNKED)
		put_framing(&o, framing, 0);
	if (h->status / 100 != 1)
		put_text(&o, keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n");
	put_text(&o, "\r\n");
	return o.is_full ? 0 : o.len;
}

static void put_refusal_body(struct out *o, const struct egress_verdict_row *row,
			     const struct target *target)
{
	char host[HOST_MAX];

	put_text(o, "{\"reason\":\"");
	put_text(o, row->code);
	if (target) {
		/* A parsed host has no byte that JSON would escape. */
		host_format(&target->host, host);
		put_text(o, "\",\"host\":\"");
		put_text(o, host);
		put_text(o, "\",\"port\":");
		put_number(o, target->port);
	} else {
		put_text(o, "\",\"host\":null,\"port\":null");
	}
	put_text(o, "}\n");
}

static const char *status_words(unsigned status)
{
	switch (status) {
	case 400:
		return "400 Bad Request";
	case 403:
		return "403 Forbidden";
	case 407:
		return "407 Proxy Authentication Required";
	default:
		return "502 Bad Gateway";
	}
}

size_t refusal_render(enum egress_verdict v, const struct target *target, char *out, size_t cap)
{
	const struct egress_verdict_row *row = egress_verdict_row(v);
	char text[HOST_MAX + 128];
	struct out body = { .buf = text, .cap = sizeof(text) };
	struct out o = { .buf = out, .cap = cap };

	put_refusal_body(&body, row, target);
	put_text(&o, "HTTP/1.1 ");
	put_text(&o, status_words(row->status));
	put_text(&o, "\r\nCordon-Reason: ");
	put_text(&o, row->code);
	if (row->challenge)
		put_text(&o, "\r\nProxy-Authenticate: Basic realm=\"cordon\"");
	put_text(&o, "\r\nContent-Type: application/json\r\nContent-Length: ");
	put_number(&o, body.len);
	put_text(&o, "\r\nConnection: close\r\n\r\n");
	put(&o, text, body.len);
	return o.is_full ? 0 : o.len;
}
