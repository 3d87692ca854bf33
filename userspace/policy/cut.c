/* Pure: where output is cut (Q3). SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks back from the cut for a lead byte whose sequence reaches beyond it.
 * Judges only what it sees: whether all of it is UTF-8 is another's question.
 */
#include "policy/cut.h"

static size_t sequence_len(uint8_t lead)
{
	if (lead >= 0xc2 && lead <= 0xdf)
		return 2;
	if (lead >= 0xe0 && lead <= 0xef)
		return 3;
	if (lead >= 0xf0 && lead <= 0xf4)
		return 4;
	return 1;
}

size_t cut_utf8(const uint8_t *buf, size_t len)
{
	for (size_t back = 1; back <= CUT_TAIL && back <= len; back++) {
		uint8_t b = buf[len - back];
		if ((b & 0xc0) == 0x80)
			continue;
		return sequence_len(b) > back ? len - back : len;
	}
	return len;
}
