/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jansson's values as compact text, byte for byte what json_dumps() makes of
 * them. That one checks every character's UTF-8 again and keeps a hash table of
 * where it is, by printed pointers, against values that hold themselves: it was
 * two fifths of what the broker did for a command. Here strings are what
 * json_string() once checked, and nesting has a limit.
 */
#include <stdlib.h>
#include <string.h>

#include "json/json.h"

enum { BEGIN_BYTES = 2048, DEPTH_MAX = 64 };

struct text {
	char *buf;
	size_t len, cap;
};

/* Room for @more bytes, or NULL. */
static char *reserve(struct text *t, size_t more)
{
	if (t->cap - t->len < more) {
		size_t cap = t->cap ? t->cap * 2 : BEGIN_BYTES;
		cap = cap - t->len < more ? t->len + more : cap;
		char *buf = realloc(t->buf, cap);
		if (!buf)
			return NULL;
		t->buf = buf;
		t->cap = cap;
	}
	return t->buf + t->len;
}

static bool put(struct text *t, const char *bytes, size_t len)
{
	char *at = reserve(t, len);

	if (!at)
		return false;
	memcpy(at, bytes, len);
	t->len += len;
	return true;
}

/* --- Strings */

static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* what, and how it is written */

static bool put_escaped(struct text *t, uint8_t c)
{
	static const char digits[] = "0123456789ABCDEF";
	const char long_form[6] = { '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15] };

	for (const char *p = short_escapes; *p; p += 2)
		if ((uint8_t)*p == c)
			return put(t, (const char[2]){ '\\', p[1] }, 2);
	return put(t, long_form, sizeof(long_form));
}

static bool is_plain(uint8_t c)
{
	return c >= 0x20 && c != '"' && c != '\\';
}

static bool put_string(struct text *t, const char *s, size_t len)
{
	const char *end = s + len;

	if (!reserve(t, len + 2) || !put(t, "\"", 1))
		return false;
	while (s < end) {
		const char *run = s;
		while (s < end && is_plain((uint8_t)*s))
			s++;
		if (!put(t, run, (size_t)(s - run)) || (s < end && !put_escaped(t, (uint8_t)*s++)))
			return false;
	}
	return put(t, "\"", 1);
}

/* --- Numbers */

static bool put_integer(struct text *t, json_int_t v)
{
	uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
	char digits[20], *at = digits + sizeof(digits);

	do {
		*--at = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	return (v >= 0 || put(t, "-", 1)) && put(t, at, (size_t)(digits + sizeof(digits) - at));
}

static bool put_real(struct text *t, const json_t *v)
{
	char buf[64];
	size_t len = json_dumpb(v, buf, sizeof(buf), JSON_COMPACT | JSON_ENCODE_ANY);

	return len > 0 && len <= sizeof(buf) && put(t, buf, len);
}

/* --- Values */

static bool put_value(struct text *t, const json_t *v, unsigned depth);

static bool put_object(struct text *t, const json_t *obj, unsigned depth)
{
	json_t *o = (json_t *)(uintptr_t)obj;
	bool is_first = true;

	if (!put(t, "{", 1))
		return false;
	for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
		if ((!is_first && !put(t, ",", 1)) ||
		    !put_string(t, json_object_iter_key(it), json_object_iter_key_len(it)) ||
		    !put(t, ":", 1) || !put_value(t, json_object_iter_value(it), depth))
			return false;
		is_first = false;
	}
	return put(t, "}", 1);
}

static bool put_array(struct text *t, const json_t *list, unsigned depth)
{
	size_t n = json_array_size(list);

	if (!put(t, "[", 1))
		return false;
	for (size_t i = 0; i < n; i++)
		if ((i && !put(t, ",", 1)) || !put_value(t, json_array_get(list, i), depth))
			return false;
	return put(t, "]", 1);
}

static bool put_value(struct text *t, const json_t *v, unsigned depth)
{
	if (!v || depth == 0)
		return false;
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return put_object(t, v, depth - 1);
	case JSON_ARRAY:
		return put_array(t, v, depth - 1);
	case JSON_STRING:
		return put_string(t, json_string_value(v), json_string_length(v));
	case JSON_INTEGER:
		return put_integer(t, json_integer_value(v));
	case JSON_REAL:
		return put_real(t, v);
	case JSON_TRUE:
		return put(t, "true", 4);
	case JSON_FALSE:
		return put(t, "false", 5);
	case JSON_NULL:
		return put(t, "null", 4);
	}
	return false;
}

char *json_dump_compact(const json_t *v, size_t *ret_len)
{
	struct text t = { 0 };
	bool is_root = json_is_object(v) || json_is_array(v);

	if (!is_root || !put_value(&t, v, DEPTH_MAX) || !put(&t, "", 1)) {
		free(t.buf);
		return NULL;
	}
	if (ret_len)
		*ret_len = t.len - 1;
	return t.buf;
}
