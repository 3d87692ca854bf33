/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_SUPPRESS_H
#define CORDON_LEDGER_SUPPRESS_H

/*
 * A7: a denial that repeats organisation, user, job and reason of one written
 * within the last 60 s is not written again. Bounded: when its places are
 * taken by denials still fresh, a new one is simply written.
 */
#include <stdbool.h>
#include <stdint.h>

enum {
	SUPPRESS_MS = 60 * 1000,
	SUPPRESS_SLOTS = 4096,
	SUPPRESS_KEY = 16,
};

struct suppress {
	struct suppress_slot {
		uint8_t key[SUPPRESS_KEY];
		uint64_t until_ms; /* 0: free */
	} slots[SUPPRESS_SLOTS];
};

/*
 * @key: a digest of the four. True: suppress this one. False: write it; its
 * repetitions are suppressed from now on. @now_ms is monotonic.
 */
bool suppress_check(struct suppress *s, const uint8_t key[SUPPRESS_KEY], uint64_t now_ms);

#endif
