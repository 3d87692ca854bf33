/* SPDX-License-Identifier: Apache-2.0 */
/* The plain routes' answers. Knows no route. */
#include "broker/reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "broker/broker.h"

static const char content_type[] = "application/json";

void reply_json(struct exchange *x, unsigned status, json_t *v)
{
	size_t len = 0;
	char *text = v ? json_dump_compact(v, &len) : NULL;

	json_decref(v);
	exchange_answer(x, status, content_type, text, len);
}

void reply_reason(struct exchange *x, enum reason why, const char *text)
{
	const struct reason_row *row = reason_row(why);
	json_t *v = json_pack("{s:s, s:s, s:s}", "reason", row->code, "text",
			      text && *text ? text : row->meaning, "decision", "denied");

	if (!v) /* a text that quotes what is no UTF-8 */
		v = json_pack("{s:s, s:s, s:s}", "reason", row->code, "text", row->meaning,
			      "decision", "denied");
	reply_json(x, (unsigned)(row->http_status < 400 ? 409 : row->http_status), v);
}

json_t *reply_body(struct exchange *x, const struct json_field *fields, size_t n, void *into)
{
	struct err e = { 0 };
	json_t *v = json_parse_strict(x->body ? x->body : "", x->body_len, JSON_DEPTH, &e);

	if (v && json_fields_read(v, fields, n, into, &e) == 0)
		return v;
	json_decref(v);
	reply_reason(x, REASON_INVALID_REQUEST, e.msg);
	return NULL;
}

bool reply_query_number(struct exchange *x, const char *key, uint64_t *ret)
{
	const char *s = exchange_query(x, key);

	if (!s)
		return true;
	size_t n = strspn(s, "0123456789");
	if (n == 0 || n > 15 || s[n] != '\0')
		return false;
	*ret = strtoull(s, NULL, 10);
	return true;
}

/* --- On a client's behalf */

struct proxy {
	struct broker *broker;
	struct exchange *exchange;
	uint64_t letter;
	json_t *(*shape)(struct exchange *x, const json_t *result);
	json_t *fallback;
};

static void proxy_free(struct proxy *p)
{
	json_decref(p->fallback);
	free(p);
}

static void on_proxy_gone(struct exchange *x)
{
	struct proxy *p = x->owner;

	ledger_forget(&p->broker->ledger, p->letter);
	proxy_free(p);
}

/* @error: what the ledger said, NULL where it said nothing. Its text names keys and rows alone. */
static void proxy_fail(struct proxy *p, const json_t *error)
{
	const char *kind = json_string_value(json_object_get(error, "error"));
	const char *text = json_string_value(json_object_get(error, "text"));
	bool is_invalid = kind && strcmp(kind, "invalid") == 0;

	if (p->fallback && !is_invalid)
		reply_json(p->exchange, 200, json_incref(p->fallback));
	else
		reply_reason(p->exchange,
			     is_invalid ? REASON_INVALID_REQUEST : REASON_AUDIT_UNAVAILABLE,
			     text ? text : "the ledger does not answer");
}

static void on_proxy_answer(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct proxy *p = ctx;
	struct exchange *x = p->exchange;

	x->on_gone = NULL;
	x->owner = NULL;
	if (type == L_ERROR)
		proxy_fail(p, result);
	else if (p->shape)
		reply_json(x, 200, p->shape(x, result));
	else if (type == L_OK)
		reply_json(x, 200, json_object());
	else
		reply_json(x, 200, json_deep_copy(result));
	proxy_free(p);
}

void reply_from_ledger(struct broker *b, struct exchange *x, enum ledger_msg type, json_t *body,
		       json_t *(*shape)(struct exchange *x, const json_t *result),
		       json_t *fallback)
{
	struct proxy *p = calloc(1, sizeof(*p));

	if (!p || !body) {
		json_decref(body);
		json_decref(fallback);
		free(p);
		exchange_answer(x, 500, content_type, NULL, 0);
		return;
	}
	*p = (struct proxy){ .broker = b, .exchange = x, .shape = shape, .fallback = fallback };
	x->owner = p;
	x->on_gone = on_proxy_gone;
	p->letter = ledger_send(&b->ledger, type, body, 0, on_proxy_answer, p);
	json_decref(body);
	if (p->letter)
		return;
	x->on_gone = NULL;
	proxy_fail(p, NULL);
	proxy_free(p);
}
