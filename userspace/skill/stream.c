/* Pure: SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixed parts of a skill's stream. Paths, contents and digests are judged
 * by the stager; here only the frame.
 */
#include "skill/stream.h"

#include <string.h>

static const uint8_t magic[8] = { 'C', 'O', 'R', 'D', 'S', 'K', 'L', '1' };

enum { AT_KIND = 0, AT_EXEC = 1, AT_PATH_LEN = 2, AT_ZERO = 4, AT_SIZE = 8, AT_SHA = 16 };

static uint64_t get(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

static void put(uint8_t *p, size_t n, uint64_t v)
{
	while (n-- > 0) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

const char *stream_read_begin(const uint8_t in[STREAM_BEGIN_LEN], size_t *ret_slug_len)
{
	if (memcmp(in, magic, sizeof(magic)) != 0)
		return "not a skill's stream";
	*ret_slug_len = (size_t)get(in + sizeof(magic), 2);
	return *ret_slug_len > 0 && *ret_slug_len <= SKILL_SLUG_MAX ? NULL : "no slug";
}

void stream_write_begin(size_t slug_len, uint8_t out[STREAM_BEGIN_LEN])
{
	memcpy(out, magic, sizeof(magic));
	put(out + sizeof(magic), 2, slug_len);
}

const char *stream_read_record(const uint8_t in[STREAM_RECORD_LEN], struct stream_record *ret)
{
	static const uint8_t zero[SKILL_SHA];
	uint8_t kind = in[AT_KIND], exec = in[AT_EXEC];

	*ret = (struct stream_record){
		.kind = kind,
		.is_exec = exec == 1,
		.path_len = (uint16_t)get(in + AT_PATH_LEN, 2),
		.size = get(in + AT_SIZE, 8),
	};
	memcpy(ret->sha256, in + AT_SHA, SKILL_SHA);
	if (exec > 1 || get(in + AT_ZERO, 4) != 0)
		return "malformed record";
	switch (kind) {
	case STREAM_FILE:
		return ret->size <= SKILL_FILE_MAX ? NULL : "a file has more than 4 GiB";
	case STREAM_LINK:
		return !exec && ret->size <= SKILL_PATH_MAX ? NULL : "malformed link";
	case STREAM_END:
		return !exec && !ret->path_len && memcmp(ret->sha256, zero, SKILL_SHA) == 0 ?
			       NULL :
			       "malformed end";
	default:
		return "unknown record";
	}
}

void stream_write_record(const struct stream_record *record, uint8_t out[STREAM_RECORD_LEN])
{
	memset(out, 0, STREAM_RECORD_LEN);
	out[AT_KIND] = (uint8_t)record->kind;
	out[AT_EXEC] = record->is_exec;
	put(out + AT_PATH_LEN, 2, record->path_len);
	put(out + AT_SIZE, 8, record->size);
	memcpy(out + AT_SHA, record->sha256, SKILL_SHA);
}
