/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_SCAN_H
#define CORDON_LEDGER_SCAN_H

/*
 * A strict JSON scanner for the one message that comes with every command. It
 * allocates nothing: strings are unescaped where they stand. (The general
 * reader of json/ costs 10 us and 60 allocations for a row, and 90 us more for
 * an envelope: half of what a whole command may cost.) It accepts a subset of
 * what that one accepts: no reals, SCAN_DEPTH levels, SCAN_TOKENS values.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SCAN_DEPTH = 4,
	SCAN_TOKENS = 96,
};

enum scan_kind {
	SCAN_NULL = 0,
	SCAN_BOOL,
	SCAN_INTEGER,
	SCAN_TEXT,
	SCAN_OBJECT, /* then its keys and values in turn, each with its own */
	SCAN_ARRAY,
};

struct scan_token {
	enum scan_kind kind;
	uint16_t size; /* of an object: its members; of an array: its elements */
	uint16_t next; /* index behind everything inside */
	uint32_t from, to; /* where it stood in the text, quotes and brackets included */
	int64_t n;
	const char *s; /* SCAN_TEXT: ends with NUL, holds none */
};

/*
 * Scans @text (@len bytes, changed) into @tokens. Gives the number of tokens, or
 * -1 - the position at which it is no JSON. Keys may still be doubled:
 * scan_get() refuses to find such a one.
 */
int scan_json(char *text, size_t len, struct scan_token tokens[SCAN_TOKENS]);

/* The value of @key in the object at @at; NULL: none, more than one, or no object. */
const struct scan_token *scan_get(const struct scan_token *tokens, unsigned at, const char *key);

#endif
