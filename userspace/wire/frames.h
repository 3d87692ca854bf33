/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WIRE_FRAMES_H
#define CORDON_WIRE_FRAMES_H

/*
 * application/vnd.cordon.stream: frames of {u8 kind, 3 zero bytes, u32
 * big-endian length} and payload. Output frames are handed on as they come;
 * the two JSON frames are gathered, bounded.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum frame_kind {
	FRAME_STDOUT = 1,
	FRAME_STDERR = 2,
	FRAME_RESULT = 3,   /* JSON, the last one */
	FRAME_ACCEPTED = 4, /* JSON, the first one */
};

enum {
	FRAME_HEAD = 8,
	FRAME_JSON_MAX = 8 << 20,
	FRAME_OUTPUT_MAX = 64 * 1024, /* of the frames we write */
};

struct frames {
	uint8_t head[FRAME_HEAD];
	size_t head_len;
	uint32_t left; /* of the payload */
	char *json;    /* of the frame being gathered; owned */
	size_t json_len;
	uint32_t json_max; /* 0: FRAME_JSON_MAX */
	bool is_accepted, is_over;
	/* Output: some bytes of @kind. JSON: the whole payload, NUL-terminated. < 0 ends it. */
	int (*on_frame)(void *ctx, enum frame_kind kind, const char *buf, size_t len,
			struct err *e);
	void *ctx;
};

/* Writes a head. */
void frame_head(uint8_t head[FRAME_HEAD], enum frame_kind kind, uint32_t len);

/* Feeds bytes as they arrive. 0, or the callback's failure, or -EPROTO. */
int frames_feed(struct frames *f, const char *buf, size_t len, struct err *e);

void frames_done(struct frames *f);

#endif
