/* Pure: the ends of message bodies (E13). SPDX-License-Identifier: Apache-2.0 */
/*
 * A state machine over bytes: length counted down, or chunks. Stores nothing
 * of the body.
 */
#include "gateway/body.h"

#include "base/hex.h"

enum chunk_state {
	CHUNK_SIZE = 0, /* at the first digit or a further one */
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_LAST, /* at the start of a line after the last chunk */
	CHUNK_TRAILER,
	CHUNK_TRAILER_LF,
	CHUNK_LAST_LF,
	CHUNK_END,
};

enum { CHUNK_DIGITS_MAX = 15, CHUNK_LINE_MAX = 4096 };

void body_init(struct body *b, enum framing framing, uint64_t length, bool is_request)
{
	*b = (struct body){ .framing = framing,
			    .left = framing == FRAMING_LENGTH ? length : 0,
			    .is_request = is_request };
}

bool body_is_done(const struct body *b)
{
	switch (b->framing) {
	case FRAMING_LENGTH:
		return b->left == 0;
	case FRAMING_CHUNKED:
		return b->state == CHUNK_END;
	case FRAMING_UNTIL_CLOSE:
		return false;
	default:
		return true;
	}
}

/* One byte of a chunk's size line. */
static bool walk_size(struct body *b, char c)
{
	int v = hex_value(c);

	if (v >= 0) {
		b->left = b->left << 4 | (uint64_t)v;
		return ++b->digits <= CHUNK_DIGITS_MAX;
	}
	if (!b->digits)
		return false;
	if (c == '\r')
		b->state = CHUNK_SIZE_LF;
	else if (!b->is_request && (c == ';' || c == ' ' || c == '\t'))
		b->state = CHUNK_EXTENSION;
	else
		return false;
	return true;
}

/* One byte that may not be a control, until CR leads to @next. */
static bool walk_line(struct body *b, char c, enum chunk_state next)
{
	if (++b->line > CHUNK_LINE_MAX)
		return false;
	if (c == '\r')
		b->state = (uint8_t)next;
	else if ((unsigned char)c < 0x20 && c != '\t')
		return false;
	return true;
}

static bool walk_last(struct body *b, char c)
{
	if (c == '\r') {
		b->state = CHUNK_LAST_LF;
		return true;
	}
	if (b->is_request)
		return false;
	b->state = CHUNK_TRAILER;
	return walk_line(b, c, CHUNK_TRAILER_LF);
}

static bool walk_expect(struct body *b, char c, char want, enum chunk_state next)
{
	b->state = (uint8_t)next;
	return c == want;
}

/* One byte of the chunked grammar, data aside. */
static bool walk_byte(struct body *b, char c)
{
	switch ((enum chunk_state)b->state) {
	case CHUNK_SIZE:
		return walk_size(b, c);
	case CHUNK_EXTENSION:
		return walk_line(b, c, CHUNK_SIZE_LF);
	case CHUNK_SIZE_LF:
		b->digits = 0;
		return walk_expect(b, c, '\n', b->left ? CHUNK_DATA : CHUNK_LAST);
	case CHUNK_DATA_CR:
		return walk_expect(b, c, '\r', CHUNK_DATA_LF);
	case CHUNK_DATA_LF:
		return walk_expect(b, c, '\n', CHUNK_SIZE);
	case CHUNK_LAST:
		return walk_last(b, c);
	case CHUNK_TRAILER:
		return walk_line(b, c, CHUNK_TRAILER_LF);
	case CHUNK_TRAILER_LF:
		return walk_expect(b, c, '\n', CHUNK_LAST);
	case CHUNK_LAST_LF:
		return walk_expect(b, c, '\n', CHUNK_END);
	default:
		return false;
	}
}

static size_t take_data(struct body *b, size_t len)
{
	size_t n = b->left < len ? (size_t)b->left : len;

	b->left -= n;
	return n;
}

static bool walk_chunked(struct body *b, const char *buf, size_t len, size_t *ret_used)
{
	size_t i = 0;

	while (i < len && b->state != CHUNK_END) {
		if (b->state == CHUNK_DATA) {
			i += take_data(b, len - i);
			if (!b->left)
				b->state = CHUNK_DATA_CR;
			continue;
		}
		if (!walk_byte(b, buf[i++])) {
			b->framing = FRAMING_BAD;
			return false;
		}
	}
	*ret_used = i;
	return true;
}

bool body_walk(struct body *b, const char *buf, size_t len, size_t *ret_used)
{
	switch (b->framing) {
	case FRAMING_LENGTH:
		*ret_used = take_data(b, len);
		return true;
	case FRAMING_CHUNKED:
		return walk_chunked(b, buf, len, ret_used);
	case FRAMING_UNTIL_CLOSE:
		*ret_used = len;
		return true;
	case FRAMING_NONE:
		*ret_used = 0;
		return true;
	default:
		return false;
	}
}
