/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_BODY_H
#define CORDON_GATEWAY_BODY_H

/*
 * Where a message's body ends. Bodies pass through byte for byte; this only
 * walks over them. A chunked body of a request is held to the bare grammar
 * (no extensions, no trailers): what a chunk extension means is exactly what
 * two servers disagree about.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/head.h"

struct body {
	enum framing framing;
	uint64_t left; /* bytes of the length, or of the chunk, still to come */
	uint8_t state; /* enum chunk_state */
	uint8_t digits;
	bool is_request;
	uint32_t line; /* bytes of the extension or trailer so far */
};

void body_init(struct body *b, enum framing framing, uint64_t length, bool is_request);

/* Nothing more is to come. */
bool body_is_done(const struct body *b);

/*
 * Walks over @len bytes. Gives how many of them belong to the body: less than
 * @len only when it ended. False: not the grammar; nothing more may pass.
 */
bool body_walk(struct body *b, const char *buf, size_t len, size_t *ret_used);

#endif
