/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_JSON_FLAT_H
#define CORDON_JSON_FLAT_H

/*
 * Reads and writes one compact flat JSON object with its keys in a fixed
 * order: the payloads of carriers (S2) and vouchers (S7). No heap, no
 * recursion, so that a carrier costs less than its MAC and a prover can bound
 * it. Every other body goes through json.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flat_kind {
	FLAT_TEXT = 1, /* a string, decoded to UTF-8 with a NUL after it */
	FLAT_NUMBER,   /* a plain integer of 0 ... 2^53-1, as every epoch in milliseconds is */
};

enum flat_state {
	FLAT_ABSENT = 0,
	FLAT_WRONG, /* there, but of another type or form */
	FLAT_THERE,
};

enum { FLAT_DEPTH_MAX = 16 };
#define FLAT_NUMBER_MAX ((1ull << 53) - 1)

struct flat_member {
	const char *key;
	enum flat_kind kind;
	char *text; /* FLAT_TEXT: @cap bytes of the caller's */
	size_t cap;
	/* filled in by flat_read */
	enum flat_state state;
	uint64_t number;
};

/*
 * True when @json is an object without white space whose keys all stand in
 * @m, in that order, none twice: then every member's state is set. False for
 * anything else, for text that is not UTF-8 or holds NUL or half a surrogate
 * pair, and for a string longer than its buffer. Values of another type are
 * checked to be JSON and reported FLAT_WRONG.
 */
bool flat_read(const char *json, size_t len, struct flat_member *m, size_t n);

/* A writer over the caller's buffer; @is_full once something did not fit. */
struct flat_out {
	char *buf;
	size_t cap, len;
	bool is_full;
};

void flat_begin(struct flat_out *o, char *buf, size_t cap);
void flat_text(struct flat_out *o, const char *key, const char *text);
void flat_number(struct flat_out *o, const char *key, uint64_t v);

/* Closes the object and puts a NUL. Gives its length, or 0 when it did not fit. */
size_t flat_end(struct flat_out *o);

/* True for well-formed UTF-8 (no overlong form, no surrogate, nothing above U+10FFFF). */
bool flat_is_utf8(const char *text, size_t len);

#endif
