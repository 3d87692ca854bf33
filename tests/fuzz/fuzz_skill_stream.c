/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a stream: a record that is accepted is written again as it was. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "skill/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream_record record;
	uint8_t again[STREAM_RECORD_LEN];
	size_t len;

	if (size >= STREAM_BEGIN_LEN && !stream_read_begin(data, &len)) {
		assert(len > 0 && len <= SKILL_SLUG_MAX);
		stream_write_begin(len, again);
		assert(memcmp(again, data, STREAM_BEGIN_LEN) == 0);
	}
	for (; size >= STREAM_RECORD_LEN; data += STREAM_RECORD_LEN, size -= STREAM_RECORD_LEN) {
		if (stream_read_record(data, &record))
			continue;
		stream_write_record(&record, again);
		assert(memcmp(again, data, sizeof(again)) == 0);
	}
	return 0;
}
