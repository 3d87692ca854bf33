/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BASE_CLOCK_H
#define CORDON_BASE_CLOCK_H

/*
 * The two clocks: the monotonic one for every wait and duration, the realtime
 * one for what is written down. What decides is given its time as an argument
 * and includes nothing of this.
 */
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_monotonic_ms(void)
{
	return clock_monotonic_ns() / 1000000;
}

/* Since the epoch. */
static inline uint64_t clock_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static inline int64_t clock_realtime_us(void)
{
	return (int64_t)(clock_realtime_ns() / 1000);
}

#endif
