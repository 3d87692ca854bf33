/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_LIMITS_H
#define CORDON_POLICY_LIMITS_H

/*
 * The limits of one command (Q1). A value of 0 is "not asked for" in a
 * request and never in what is enforced.
 */
#include <stdint.h>

#include "base/err.h"

struct limits {
	uint64_t memory_bytes;	  /* swap pinned to it */
	uint64_t workspace_bytes; /* the quota that is measured against */
	uint64_t output_bytes;	  /* per stream */
	uint64_t timeout_ms;	  /* wall clock, from exec */
	uint32_t cpu_milli;	  /* 1000 is one CPU */
	uint32_t pids;
};

/* Q1's defaults. */
#define LIMITS_DEFAULT \
	((struct limits){ .memory_bytes = 1024ull << 20, \
			  .workspace_bytes = 256ull << 20, \
			  .output_bytes = 1ull << 20, \
			  .timeout_ms = 120000, \
			  .cpu_milli = 1000, \
			  .pids = 256 })

/*
 * Fills what @asked leaves 0 from @dflt and checks it against @max. 0 with
 * *ret set, or -REASON_LIMIT_ABOVE_MAXIMUM with *e naming the limit. Also
 * refused: values below what any sandbox can start with.
 */
int limits_resolve(const struct limits *asked, const struct limits *dflt,
		   const struct limits *max, struct limits *ret, struct err *e);

/* The hard limit of a workspace: quota + max(8 MiB, quota/16) (Q4). */
uint64_t limits_workspace_hard_bytes(uint64_t quota_bytes);

/* Inodes a workspace of @quota_bytes may hold. */
uint64_t limits_workspace_inodes(uint64_t quota_bytes);

/*
 * Text to numbers, exact: SIZE is an integer with optional K, M, G (1024);
 * decimals have at most three digits after the point. Trailing bytes, signs,
 * blanks, overflow and an empty string are -EINVAL; 0 is refused by the
 * caller where it has no meaning.
 */
int limits_parse_size(const char *text, uint64_t *ret_bytes);
int limits_parse_milli(const char *text, uint64_t *ret_milli);

#endif
