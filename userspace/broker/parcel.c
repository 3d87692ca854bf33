/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams built in memory, all of them under one bound. Sends nothing and does
 * not know where they go.
 */
#include "broker/parcel.h"

#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "json/json.h"

static bool reserve(struct parcel *p, size_t more)
{
	size_t cap = p->cap ? p->cap : 1024;

	while (cap < p->len + more)
		cap *= 2;
	if (cap == p->cap)
		return true;
	if (*p->used + cap > PARCELS_MAX) /* while it moves both are there */
		return false;
	uint8_t *buf = realloc(p->buf, cap);
	if (!buf)
		return false;
	*p->used += cap - p->cap;
	p->buf = buf;
	p->cap = cap;
	return true;
}

static bool put_text(struct parcel *p, enum frame_kind kind, const char *text, size_t len)
{
	if (!text || !reserve(p, FRAME_HEAD + len))
		return false;
	frame_head(p->buf + p->len, kind, (uint32_t)len);
	memcpy(p->buf + p->len + FRAME_HEAD, text, len);
	p->len += FRAME_HEAD + len;
	p->kind = 0;
	return true;
}

bool parcel_put(struct parcel *p, enum frame_kind kind, const uint8_t *buf, size_t len)
{
	unsigned i = kind == FRAME_STDOUT ? 0 : 1;

	p->bytes[i] += len;
	digest_add(p->hash[i], buf, len);
	while (len > 0) {
		if (!reserve(p, FRAME_HEAD + (len < FRAME_OUTPUT_MAX ? len : FRAME_OUTPUT_MAX)))
			return false;
		if (p->kind != kind || p->open == FRAME_OUTPUT_MAX) {
			p->kind = kind;
			p->head = p->len;
			p->len += FRAME_HEAD;
			p->open = 0;
		}
		size_t n = FRAME_OUTPUT_MAX - p->open;
		n = len < n ? len : n;
		memcpy(p->buf + p->len, buf, n);
		p->len += n;
		p->open += (uint32_t)n;
		frame_head(p->buf + p->head, kind, p->open);
		buf += n, len -= n;
	}
	return true;
}

bool parcel_begin(struct parcel *p, size_t *used, const char *accepted, size_t len)
{
	p->hash[0] = digest_new();
	p->hash[1] = digest_new();
	p->used = used;
	p->first = len;
	return p->hash[0] && p->hash[1] && put_text(p, FRAME_ACCEPTED, accepted, len);
}

bool parcel_end(struct parcel *p, const bool is_truncated[PARCEL_SIDES])
{
	char hex[PARCEL_SIDES][DIGEST_HEX_MAX];
	uint8_t digest[DIGEST_LEN];
	size_t len = 0;

	for (unsigned i = 0; i < PARCEL_SIDES; i++) {
		digest_end(p->hash[i], digest);
		digest_hex(digest, DIGEST_LEN, hex[i]);
	}
	auto_json json_t *v = json_pack(
		"{s:I, s:I, s:s, s:s, s:b, s:b}", "stdoutBytes", (json_int_t)p->bytes[0],
		"stderrBytes", (json_int_t)p->bytes[1], "stdoutSha256", hex[0], "stderrSha256",
		hex[1], "stdoutTruncated", (int)is_truncated[0], "stderrTruncated",
		(int)is_truncated[1]);
	autofree char *text = v ? json_dump_compact(v, &len) : NULL;
	return put_text(p, FRAME_RESULT, text, len);
}

void parcel_done(struct parcel *p)
{
	if (p->used)
		*p->used -= p->cap;
	free(p->buf);
	for (unsigned i = 0; i < PARCEL_SIDES; i++)
		digest_free(p->hash[i]);
	memset(p, 0, sizeof(*p));
}
