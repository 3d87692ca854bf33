/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Q1: a limit is never above its maximum, and what was asked is given or
 * refused, never changed. Complete enumeration of each of the six limits at
 * the edges of request, default and maximum, beside a second one that is bad.
 */
#include <string.h>

#include "base/err.h"
#include "nondet.h"
#include "policy/limits.h"
#include "policy/reason.h"

const char proof_name[] = "a_limit_is_never_above_its_maximum";

enum { LIMITS = 6 };

static uint64_t get(const struct limits *l, unsigned i)
{
	const uint64_t all[LIMITS] = { l->memory_bytes, l->workspace_bytes, l->output_bytes,
				       l->timeout_ms,	l->cpu_milli,	    l->pids };

	return all[i];
}

static void set(struct limits *l, unsigned i, uint64_t v)
{
	switch (i) {
	case 0: l->memory_bytes = v; break;
	case 1: l->workspace_bytes = v; break;
	case 2: l->output_bytes = v; break;
	case 3: l->timeout_ms = v; break;
	case 4: l->cpu_milli = (uint32_t)v; break;
	default: l->pids = (uint32_t)v;
	}
}

void proof(void)
{
	static const uint64_t edges[] = { 0, 1, 9, 10, 65535, 65536, (4 << 20) - 1, 4 << 20, (4 << 20) + 1,
					  UINT32_MAX - 1, UINT32_MAX, 1ull << 40, UINT64_MAX };
	enum { EDGES = sizeof(edges) / sizeof(edges[0]) };
	struct limits asked = { 0 }, dflt, most, out, untouched;
	struct err e;
	unsigned i = choose(LIMITS);

	memset(&untouched, 0x5a, sizeof(untouched));
	out = untouched;
	for (unsigned k = 0; k < LIMITS; k++) {
		set(&dflt, k, 1u << 26);
		set(&most, k, 1u << 27);
	}
	set(&asked, i, edges[choose(EDGES)]);
	set(&dflt, i, edges[choose(EDGES)]);
	set(&most, i, edges[choose(EDGES)]);
	unsigned other = choose(LIMITS);
	if (other != i && choose(2))
		set(&asked, other, (1u << 27) + 1); /* above its maximum, wherever it stands */
	int rc = limits_resolve(&asked, &dflt, &most, &out, &e);
	if (rc < 0) {
		hold(rc == -REASON_LIMIT_ABOVE_MAXIMUM || rc == -REASON_INVALID_REQUEST);
		hold(memcmp(&out, &untouched, sizeof(out)) == 0);
		return;
	}
	for (unsigned k = 0; k < LIMITS; k++) {
		hold(get(&out, k) && get(&out, k) <= get(&most, k));
		hold(!get(&asked, k) || get(&out, k) == get(&asked, k));
		hold(get(&asked, k) || get(&out, k) <= get(&dflt, k));
	}
	hold(limits_workspace_hard_bytes(out.workspace_bytes) >= out.workspace_bytes);
}
