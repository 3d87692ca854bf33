/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of the stream format. Does no I/O: its callback does. */
#include "wire/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void frame_head(uint8_t head[FRAME_HEAD], enum frame_kind kind, uint32_t len)
{
	memset(head, 0, FRAME_HEAD);
	head[0] = (uint8_t)kind;
	for (int i = 0; i < 4; i++)
		head[4 + i] = (uint8_t)(len >> (24 - 8 * i));
}

static bool is_json(enum frame_kind kind)
{
	return kind == FRAME_RESULT || kind == FRAME_ACCEPTED;
}

/* ACCEPTED comes first and once, RESULT last. */
static int begin(struct frames *f, struct err *e)
{
	enum frame_kind kind = (enum frame_kind)f->head[0];

	f->left = (uint32_t)f->head[4] << 24 | (uint32_t)f->head[5] << 16 |
		  (uint32_t)f->head[6] << 8 | f->head[7];
	if (f->head[1] || f->head[2] || f->head[3] || kind < FRAME_STDOUT ||
	    kind > FRAME_ACCEPTED)
		return err_set(e, EPROTO, "a frame of unknown kind");
	if (f->is_over || (kind == FRAME_ACCEPTED) == f->is_accepted)
		return err_set(e, EPROTO, "a frame out of order");
	f->is_accepted = true;
	if (!is_json(kind))
		return 0;
	if (f->left > (f->json_max ? f->json_max : FRAME_JSON_MAX))
		return err_set(e, EPROTO, "a frame of %u bytes", f->left);
	f->json = malloc((size_t)f->left + 1);
	f->json_len = 0;
	return f->json ? 0 : err_set(e, ENOMEM, "out of memory");
}

static int end(struct frames *f, struct err *e)
{
	enum frame_kind kind = (enum frame_kind)f->head[0];
	int rc = 0;

	if (is_json(kind)) {
		f->json[f->json_len] = '\0';
		rc = f->on_frame(f->ctx, kind, f->json, f->json_len, e);
		free(f->json);
		f->json = NULL;
	}
	f->is_over = kind == FRAME_RESULT;
	f->head_len = 0;
	return rc;
}

static int payload(struct frames *f, const char *buf, size_t len, struct err *e)
{
	enum frame_kind kind = (enum frame_kind)f->head[0];

	f->left -= (uint32_t)len;
	if (!is_json(kind))
		return len ? f->on_frame(f->ctx, kind, buf, len, e) : 0;
	memcpy(f->json + f->json_len, buf, len);
	f->json_len += len;
	return 0;
}

int frames_feed(struct frames *f, const char *buf, size_t len, struct err *e)
{
	int rc = 0;

	while (rc == 0 && len > 0) {
		if (f->head_len < FRAME_HEAD) {
			f->head[f->head_len++] = (uint8_t)*buf;
			buf++, len--;
			if (f->head_len == FRAME_HEAD)
				rc = begin(f, e);
		} else {
			size_t n = f->left < len ? f->left : len;
			rc = payload(f, buf, n, e);
			buf += n, len -= n;
		}
		if (rc == 0 && f->head_len == FRAME_HEAD && f->left == 0)
			rc = end(f, e);
	}
	return rc;
}

void frames_done(struct frames *f)
{
	free(f->json);
	f->json = NULL;
}
