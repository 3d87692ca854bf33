/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_EGRESS_H
#define CORDON_POLICY_EGRESS_H

/*
 * Egress: tiers, what a deployment's maximum leaves of a request (E1), the
 * decision on one request in E8's order, and the canonical policy that a
 * receipt's egressDigest is made of (T1).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/host.h"

enum {
	EGRESS_HOSTS_MAX = 128,
	EGRESS_TOKEN_MAX = 65, /* with the NUL; [A-Za-z0-9_-]{16,64} */
	EGRESS_TOKEN_MIN = 16,
	/* {"tier":"default_internet","hosts":[...],"maxBytes":N} */
	EGRESS_CANONICAL_MAX = EGRESS_HOSTS_MAX * (HOST_TEXT_MAX + 3) + 96,
};

enum egress_tier {
	EGRESS_TIER_NONE = 0,
	EGRESS_TIER_ALLOWLIST,
	EGRESS_TIER_DEFAULT_INTERNET,
	EGRESS_TIER_COUNT,
};

/*
 * A policy, frozen once made. @hosts is sorted by its text, without doubles,
 * and empty but in tier allowlist.
 */
struct egress_policy {
	uint64_t max_bytes; /* 0: none */
	uint32_t tier;	    /* enum egress_tier */
	uint32_t nhosts;
	struct host_entry hosts[EGRESS_HOSTS_MAX];
};

/* Axes that a maximum narrowed. */
enum egress_axis {
	EGRESS_AXIS_TIER = 1u << 0,
	EGRESS_AXIS_HOSTS = 1u << 1,
	EGRESS_AXIS_BYTES = 1u << 2,
};

/* What of @p says something: to its last host. Most policies have none, and the whole is 35 KB. */
static inline size_t egress_policy_size(const struct egress_policy *p)
{
	return offsetof(struct egress_policy, hosts) + p->nhosts * sizeof(p->hosts[0]);
}

/* NULL out of range; EGRESS_TIER_COUNT for an unknown name. */
const char *egress_tier_name(unsigned tier);
enum egress_tier egress_tier_from_name(const char *name);

/* "tier", "hosts", "maxBytes"; NULL for anything but one axis. */
const char *egress_axis_name(unsigned axis);

/* Puts @entry where it belongs. False: full. A double changes nothing. */
bool egress_policy_add_host(struct egress_policy *p, const struct host_entry *entry);

/* Tier allowlist without doubles, no other tier with hosts, counts in range. */
bool egress_policy_valid(const struct egress_policy *p);

/*
 * What both @asked and @maximum allow, and nothing else; a maximum of tier
 * default_internet with hosts counts as an allowlist. Gives the set of axes on
 * which *ret is narrower than @asked, or -1 when the intersection of the two
 * lists does not fit (*ret is then tier none, and all zero). What stands behind
 * the last host of *ret is left as it was.
 */
int egress_policy_meet(const struct egress_policy *asked, const struct egress_policy *maximum,
		       struct egress_policy *ret);

/* {"tier":"...","hosts":[sorted],"maxBytes":N or null}, compact, with a NUL. Gives its length. */
size_t egress_policy_canonical(const struct egress_policy *p,
			       char out[static EGRESS_CANONICAL_MAX]);

/* A token's shape; says nothing about whether anyone knows it. */
bool egress_token_valid(const char *token, size_t len);

/*
 * The answers of E8, in order. The value 0 refuses; only EGRESS_ALLOW allows.
 */
enum egress_verdict {
	EGRESS_BAD_REQUEST = 0,
	EGRESS_UNATTRIBUTED,
	EGRESS_UNREGISTERED_TOKEN,
	EGRESS_DENIED_BY_ALLOWLIST,
	EGRESS_BYTE_QUOTA_EXCEEDED,
	EGRESS_DESTINATION_BLOCKED,
	EGRESS_UPSTREAM_FAILED,
	EGRESS_ALLOW,
	EGRESS_VERDICT_COUNT,
};

struct egress_verdict_row {
	const char *code;    /* "" for EGRESS_ALLOW */
	const char *meaning;
	uint16_t status;     /* of the HTTP answer */
	bool challenge;	     /* with Proxy-Authenticate: Basic */
};

/* The row of @v; that of EGRESS_BAD_REQUEST for anything out of range. */
const struct egress_verdict_row *egress_verdict_row(unsigned v);

/* One request, before any name is resolved. */
struct egress_flow {
	const struct target *target;	    /* NULL: malformed */
	bool has_credential;		    /* Basic, with a user name of a token's shape */
	const struct egress_policy *policy; /* NULL: unregistered, or not this sandbox's */
	uint64_t used_bytes;		    /* of the token, over all its commands */
};

/* EGRESS_ALLOW: go and resolve. */
enum egress_verdict egress_decide(const struct egress_flow *f);

/* Is @used_bytes at or beyond the ceiling? */
bool egress_over_ceiling(const struct egress_policy *p, uint64_t used_bytes);

/*
 * Drops what must not be dialled from @list, keeps the order, unmaps. Gives how
 * many are left; 0 is EGRESS_DESTINATION_BLOCKED.
 */
size_t egress_keep_dialable(struct address *list, size_t n, const struct address_rules *rules);

/*
 * The kernel's hard limit behind a ceiling (E6): one part in eight for headers
 * and proxy heads, and 256 KiB. EGRESS_NO_BUDGET for no ceiling.
 */
uint64_t egress_kernel_budget(uint64_t max_bytes);

/* What the sandbox may have had on its way when a connection was cut (E16). */
enum { EGRESS_CUT_SLACK = 256 << 10 };

/*
 * E16: do the two meters agree? The kernel counts packets, the gateway what was
 * acknowledged on its sockets on the job's side. The known overhead: at most 120
 * bytes of headers a packet, and @slack, bytes that were sent and never read
 * because a connection was cut, or sent more than once.
 */
bool egress_meters_agree(uint64_t kernel_bytes, uint64_t kernel_packets, uint64_t gateway_bytes,
			 uint64_t slack);

#endif
