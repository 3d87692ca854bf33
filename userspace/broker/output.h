/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_OUTPUT_H
#define CORDON_BROKER_OUTPUT_H

/*
 * One output stream of a command: keeps the first bytes up to a cap on a UTF-8
 * boundary (Q3), hashes what it keeps, and gives it to whoever takes it. What
 * is kept is final once it can no longer be cut; only that is hashed and taken.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest/digest.h"

struct output {
	uint8_t *buf;	    /* bytes not taken yet, from start */
	size_t start, len, cap;
	size_t final;	    /* bytes of buf, from its beginning, that stay whatever comes */
	uint64_t kept;	    /* in all, taken ones included */
	uint64_t limit;
	bool is_truncated, is_ended, is_broken; /* broken: out of memory; the rest is dropped */
	struct digest *hash;
	/* Sees the final bytes as well, where it is set after output_begin(). */
	void (*tap)(struct output *o, const uint8_t *buf, size_t len);
	void *tap_ctx;
	uint8_t digest[DIGEST_LEN]; /* once ended */
};

/* False: out of memory. */
bool output_begin(struct output *o, uint64_t limit);
void output_done(struct output *o);

/* More came. True when it went over the cap just now. */
bool output_add(struct output *o, const uint8_t *buf, size_t len);

/* Nothing more comes. */
void output_end(struct output *o);

/* Final bytes not taken yet. */
size_t output_ready(const struct output *o);
/* Copies at most @max of them out and forgets them. Gives how many. */
size_t output_take(struct output *o, void *buf, size_t max);

#endif
