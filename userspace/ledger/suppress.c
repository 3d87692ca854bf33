/* Pure: which denials repeat one just written (A7). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/suppress.h"

#include <stddef.h>
#include <string.h>

enum { PROBES = 16 };

bool suppress_check(struct suppress *s, const uint8_t key[SUPPRESS_KEY], uint64_t now_ms)
{
	uint32_t at = (uint32_t)key[0] | (uint32_t)key[1] << 8 | (uint32_t)key[2] << 16;
	struct suppress_slot *place = NULL;

	for (uint32_t i = 0; i < PROBES; i++) {
		struct suppress_slot *slot = &s->slots[(at + i) % SUPPRESS_SLOTS];
		if (slot->until_ms > now_ms && !memcmp(slot->key, key, SUPPRESS_KEY))
			return true;
		if (!place && slot->until_ms <= now_ms)
			place = slot;
	}
	if (place) {
		memcpy(place->key, key, SUPPRESS_KEY);
		place->until_ms = now_ms + SUPPRESS_MS;
	}
	return false;
}
