/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_POOL_H
#define CORDON_WORKER_POOL_H

/*
 * When the pool of waiting slots gets another one. Making a slot blocks the
 * worker for a millisecond and takes time from the commands that run, so it is
 * done when nobody waits for either.
 */
#include <stdbool.h>
#include <stdint.h>

enum { POOL_QUIET_MS = 15 };

#define POOL_NOT_NOW UINT64_MAX

/* Times by the monotonic clock. */
struct pool_state {
	unsigned size, spare; /* slots to keep; those nobody has asked for yet */
	bool is_launching;    /* a command is between its slot and its exec */
	uint64_t event_ns;    /* the last time anything happened */
	uint64_t retry_ns;    /* not before, after a slot that could not be made */
};

/* From when on one more is made; POOL_NOT_NOW: ask again after the next event. */
uint64_t pool_refill_ns(const struct pool_state *p);

#endif
