/* Pure: rewrites text given as text. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One key of `key = value` lines replaced. What a line means otherwise is
 * config/'s business; the caller parses the result before it uses it.
 */
#include "image/pin.h"

#include <stdbool.h>
#include <string.h>

struct out {
	char *buf;
	size_t len, size;
	bool is_full;
};

static void put(struct out *o, const char *s, size_t n)
{
	if (o->is_full || n >= o->size - o->len) {
		o->is_full = true;
		return;
	}
	memcpy(o->buf + o->len, s, n);
	o->len += n;
}

static void put_key(struct out *o, const char *key, const char *value)
{
	put(o, key, strlen(key));
	put(o, " = ", 3);
	put(o, value, strlen(value));
	put(o, "\n", 1);
}

/* Does the line [@s, @end) set @key? */
static bool sets(const char *s, const char *end, const char *key)
{
	size_t n = strlen(key);

	while (s < end && (*s == ' ' || *s == '\t'))
		s++;
	if ((size_t)(end - s) < n || memcmp(s, key, n) != 0)
		return false;
	for (s += n; s < end && (*s == ' ' || *s == '\t'); s++)
		;
	return s < end && *s == '=';
}

size_t pin_set_key(const char *text, size_t len, const char *key, const char *value, char *ret,
		   size_t size)
{
	struct out o = { .buf = ret, .size = size, .is_full = size == 0 };
	const char *end = text + len;
	bool is_set = false;

	for (const char *line = text; line < end;) {
		const char *nl = memchr(line, '\n', (size_t)(end - line));
		const char *next = nl ? nl + 1 : end;

		if (sets(line, next, key)) {
			if (!is_set)
				put_key(&o, key, value);
			is_set = true;
		} else {
			put(&o, line, (size_t)(next - line));
			if (!nl)
				put(&o, "\n", 1);
		}
		line = next;
	}
	if (!is_set)
		put_key(&o, key, value);
	if (o.is_full)
		return 0;
	ret[o.len] = '\0';
	return o.len;
}
