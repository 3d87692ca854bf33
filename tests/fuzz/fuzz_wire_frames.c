/* SPDX-License-Identifier: Apache-2.0 */
/* The stream format: fed whole or byte by byte, the same comes out. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	uint64_t bytes, hash;
};

static int add(void *ctx, enum frame_kind kind, const char *buf, size_t len, struct err *e)
{
	struct sum *s = ctx;

	(void)e;
	for (size_t i = 0; i < len; i++)
		s->hash = (s->hash ^ (uint8_t)buf[i] ^ ((uint64_t)kind << 8)) * 1099511628211ull;
	s->bytes += len;
	return 0;
}

static int feed(const uint8_t *data, size_t size, size_t step, struct sum *s, bool *ret_over)
{
	struct frames f = { .on_frame = add, .ctx = s };
	struct err e;
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < size; at += step)
		rc = frames_feed(&f, (const char *)data + at, size - at < step ? size - at : step,
				 &e);
	*ret_over = f.is_over;
	frames_done(&f);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sum a = { 0 }, b = { 0 };
	bool a_over, b_over;

	if (size == 0)
		return 0;
	int whole = feed(data, size, size, &a, &a_over), single = feed(data, size, 1, &b, &b_over);
	if (whole != single || a_over != b_over || a.bytes != b.bytes || a.hash != b.hash)
		abort();
	return 0;
}
