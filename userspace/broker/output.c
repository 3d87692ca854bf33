/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output kept and counted. Reads no descriptor and knows no client: memory is
 * bounded by the cap, or by how far its taker lets it run ahead.
 */
#include "broker/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "policy/cut.h"

bool output_begin(struct output *o, uint64_t limit)
{
	memset(o, 0, sizeof(*o));
	o->limit = limit;
	o->hash = digest_new();
	return o->hash != NULL;
}

void output_done(struct output *o)
{
	free(o->buf);
	digest_free(o->hash);
	memset(o, 0, sizeof(*o));
}

static bool reserve(struct output *o, size_t more)
{
	if (o->start && o->start == o->len)
		o->start = o->len = o->final = 0;
	if (o->len + more <= o->cap)
		return true;
	if (o->start) {
		memmove(o->buf, o->buf + o->start, o->len - o->start);
		o->len -= o->start;
		o->final -= o->start;
		o->start = 0;
		if (o->len + more <= o->cap)
			return true;
	}
	size_t cap = o->cap ? o->cap : 512;
	while (cap < o->len + more)
		cap *= 2;
	uint8_t *buf = fault_hit("output.keep") ? NULL : realloc(o->buf, cap);
	if (!buf)
		return false;
	o->buf = buf;
	o->cap = cap;
	return true;
}

static void finish(struct output *o, size_t upto)
{
	if (upto <= o->final)
		return;
	digest_add(o->hash, o->buf + o->final, upto - o->final);
	if (o->tap)
		o->tap(o, o->buf + o->final, upto - o->final);
	o->final = upto;
}

/* Near the cap the last bytes may still be cut away. */
static void settle(struct output *o)
{
	size_t upto = o->len;

	if (!o->is_truncated && o->kept + CUT_TAIL >= o->limit) {
		size_t tail = o->len - o->final;
		upto = o->final + cut_utf8(o->buf + o->final, tail);
	}
	finish(o, upto);
}

static void cut(struct output *o)
{
	size_t upto = o->final + cut_utf8(o->buf + o->final, o->len - o->final);

	o->kept -= o->len - upto;
	o->len = upto;
	o->is_truncated = true;
	finish(o, upto);
}

bool output_add(struct output *o, const uint8_t *buf, size_t len)
{
	uint64_t room = o->limit - o->kept;
	size_t keep = len < room ? len : (size_t)room;

	if (o->is_truncated || o->is_ended || len == 0)
		return false;
	if (!reserve(o, keep)) {
		o->is_broken = true;
		cut(o);
		return true;
	}
	if (keep)
		memcpy(o->buf + o->len, buf, keep);
	o->len += keep;
	o->kept += keep;
	if (keep < len) {
		cut(o);
		return true;
	}
	settle(o);
	return false;
}

void output_end(struct output *o)
{
	if (o->is_ended)
		return;
	finish(o, o->len);
	o->is_ended = true;
	digest_end(o->hash, o->digest);
}

size_t output_ready(const struct output *o)
{
	return o->final - o->start;
}

size_t output_take(struct output *o, void *buf, size_t max)
{
	size_t n = output_ready(o) < max ? output_ready(o) : max;

	if (n)
		memcpy(buf, o->buf + o->start, n);
	o->start += n;
	return n;
}
