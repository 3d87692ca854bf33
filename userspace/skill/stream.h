/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILL_STREAM_H
#define CORDON_SKILL_STREAM_H

/*
 * How a skill travels to the process that stages it (K2): content as data
 * with digests, one pass, nothing to seek. Numbers are big-endian.
 *
 *	begin	"CORDSKL1", u16 length of the slug, the slug
 *	record	48 bytes (struct stream_record), the path, the content
 *	...
 *	end	48 bytes with kind STREAM_END and the number of records as size
 *
 * The digest is what the sender says the content is; it is recomputed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skill/manifest.h"

enum {
	STREAM_BEGIN_LEN = 10,
	STREAM_RECORD_LEN = 48,
};

enum stream_kind {
	STREAM_FILE = 1,
	STREAM_LINK = 2, /* the content is the target */
	STREAM_END = 255,
};

struct stream_record {
	enum stream_kind kind;
	bool is_exec;
	uint16_t path_len;
	uint64_t size;
	uint8_t sha256[SKILL_SHA];
};

/* Give NULL, or what is wrong. Reading is strict: unused bytes are zero. */
const char *stream_read_begin(const uint8_t in[STREAM_BEGIN_LEN], size_t *ret_slug_len);
const char *stream_read_record(const uint8_t in[STREAM_RECORD_LEN], struct stream_record *ret);

void stream_write_begin(size_t slug_len, uint8_t out[STREAM_BEGIN_LEN]);
void stream_write_record(const struct stream_record *record, uint8_t out[STREAM_RECORD_LEN]);

#endif
