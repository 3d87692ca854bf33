/* Pure: when the pool of waiting slots is filled, from what the loop has counted. SPDX-License-Identifier: Apache-2.0 */
#include "worker/pool.h"

/*
 * A pool that is half full waits for a quiet moment, one below that for commands
 * to have started, an empty one for nothing.
 */
uint64_t pool_refill_ns(const struct pool_state *p)
{
	uint64_t due = 0;

	if (p->spare >= p->size)
		return POOL_NOT_NOW;
	if (p->spare > 0 && p->is_launching)
		return POOL_NOT_NOW;
	if (p->spare * 2 >= p->size)
		due = p->event_ns + POOL_QUIET_MS * 1000000ull;
	return p->spare > 0 && due > p->retry_ns ? due : p->retry_ns;
}
