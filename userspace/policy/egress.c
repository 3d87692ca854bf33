/* Pure: egress tiers, clamp and decision (E1, E8). SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns who may reach what, as functions of their arguments. Does not resolve,
 * count or dial: the gateway does, and asks here first.
 */
#include "policy/egress.h"

#include <string.h>

#include "abi/egress_types.h"

static const char *const tiers[EGRESS_TIER_COUNT] = {
	[EGRESS_TIER_NONE] = "none",
	[EGRESS_TIER_ALLOWLIST] = "allowlist",
	[EGRESS_TIER_DEFAULT_INTERNET] = "default_internet",
};

static const struct egress_verdict_row verdicts[EGRESS_VERDICT_COUNT] = {
	[EGRESS_BAD_REQUEST] = { "bad_request", "malformed request, target or port", 400, false },
	[EGRESS_UNATTRIBUTED] = { "unattributed", "no usable proxy credential", 407, true },
	[EGRESS_UNREGISTERED_TOKEN] = { "unregistered_token",
					"the token is not registered for this sandbox", 407, true },
	[EGRESS_DENIED_BY_ALLOWLIST] = { "denied_by_allowlist",
					 "the host or port is not on the list", 403, false },
	[EGRESS_BYTE_QUOTA_EXCEEDED] = { "byte_quota_exceeded", "the byte ceiling is crossed", 403,
					 false },
	[EGRESS_DESTINATION_BLOCKED] = { "destination_blocked",
					 "nothing that may be dialled has this name", 403, false },
	[EGRESS_UPSTREAM_FAILED] = { "upstream_failed", "the destination does not answer", 502,
				     false },
	[EGRESS_ALLOW] = { "", "allowed", 200, false },
};

const char *egress_tier_name(unsigned tier)
{
	return tier < EGRESS_TIER_COUNT ? tiers[tier] : NULL;
}

enum egress_tier egress_tier_from_name(const char *name)
{
	unsigned t = 0;

	while (t < EGRESS_TIER_COUNT && strcmp(tiers[t], name) != 0)
		t++;
	return (enum egress_tier)t;
}

const char *egress_axis_name(unsigned axis)
{
	return axis == EGRESS_AXIS_TIER	   ? "tier"
	       : axis == EGRESS_AXIS_HOSTS ? "hosts"
	       : axis == EGRESS_AXIS_BYTES ? "maxBytes"
					   : NULL;
}

static int compare_entries(const struct host_entry *a, const struct host_entry *b)
{
	char ta[HOST_TEXT_MAX], tb[HOST_TEXT_MAX];

	host_entry_format(a, ta);
	host_entry_format(b, tb);
	return strcmp(ta, tb);
}

bool egress_policy_add_host(struct egress_policy *p, const struct host_entry *entry)
{
	uint32_t at = 0;
	int order = 1;

	while (at < p->nhosts && (order = compare_entries(entry, &p->hosts[at])) > 0)
		at++;
	if (at < p->nhosts && order == 0)
		return true;
	if (p->nhosts >= EGRESS_HOSTS_MAX)
		return false;
	memmove(&p->hosts[at + 1], &p->hosts[at], (p->nhosts - at) * sizeof(p->hosts[0]));
	p->hosts[at] = *entry;
	p->nhosts++;
	return true;
}

bool egress_policy_valid(const struct egress_policy *p)
{
	if (p->tier >= EGRESS_TIER_COUNT || p->nhosts > EGRESS_HOSTS_MAX)
		return false;
	if (p->tier != EGRESS_TIER_ALLOWLIST && p->nhosts)
		return false;
	for (uint32_t i = 0; i + 1 < p->nhosts; i++)
		if (compare_entries(&p->hosts[i], &p->hosts[i + 1]) >= 0)
			return false;
	return true;
}

static void copy_hosts(struct egress_policy *to, const struct egress_policy *from)
{
	to->nhosts = from->nhosts;
	memcpy(to->hosts, from->hosts, from->nhosts * sizeof(from->hosts[0]));
}

static bool meet_hosts(const struct egress_policy *a, const struct egress_policy *b,
		       struct egress_policy *ret)
{
	struct host_entry m;

	for (uint32_t i = 0; i < a->nhosts; i++)
		for (uint32_t j = 0; j < b->nhosts; j++)
			if (host_entry_meet(&a->hosts[i], &b->hosts[j], &m) &&
			    !egress_policy_add_host(ret, &m))
				return false;
	return true;
}

static bool same_hosts(const struct egress_policy *a, const struct egress_policy *b)
{
	if (a->nhosts != b->nhosts)
		return false;
	for (uint32_t i = 0; i < a->nhosts; i++)
		if (compare_entries(&a->hosts[i], &b->hosts[i]) != 0)
			return false;
	return true;
}

/* The tier a policy really is: a list turns the whole internet into that list. */
static uint32_t effective_tier(const struct egress_policy *p)
{
	if (p->tier >= EGRESS_TIER_COUNT)
		return EGRESS_TIER_NONE;
	return p->tier == EGRESS_TIER_DEFAULT_INTERNET && p->nhosts ? EGRESS_TIER_ALLOWLIST
								     : p->tier;
}

int egress_policy_meet(const struct egress_policy *asked, const struct egress_policy *maximum,
		       struct egress_policy *ret)
{
	uint32_t have = effective_tier(asked), most = effective_tier(maximum);
	int axes = 0;

	ret->nhosts = 0;
	ret->tier = have < most ? have : most;
	if (ret->tier != have)
		axes |= EGRESS_AXIS_TIER;
	if (have == EGRESS_TIER_ALLOWLIST && most == EGRESS_TIER_ALLOWLIST) {
		if (!meet_hosts(asked, maximum, ret)) {
			memset(ret, 0, sizeof(*ret));
			return -1;
		}
		if (!same_hosts(asked, ret))
			axes |= EGRESS_AXIS_HOSTS;
	} else if (ret->tier == EGRESS_TIER_ALLOWLIST) {
		copy_hosts(ret, have == EGRESS_TIER_ALLOWLIST ? asked : maximum);
	}
	ret->max_bytes = asked->max_bytes;
	if (maximum->max_bytes && (!asked->max_bytes || asked->max_bytes > maximum->max_bytes)) {
		ret->max_bytes = maximum->max_bytes;
		axes |= EGRESS_AXIS_BYTES;
	}
	return axes;
}

static char *put_text(char *o, const char *text)
{
	size_t n = strlen(text);

	memcpy(o, text, n);
	return o + n;
}

static char *put_u64(char *o, uint64_t v)
{
	char digits[20];
	unsigned n = 0;

	do {
		digits[n++] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	while (n)
		*o++ = digits[--n];
	return o;
}

/* Entries are ASCII letters, digits and "-_.:[]": nothing that JSON would escape. */
size_t egress_policy_canonical(const struct egress_policy *p,
			       char out[static EGRESS_CANONICAL_MAX])
{
	char *o = put_text(out, "{\"tier\":\"");

	o = put_text(o, p->tier < EGRESS_TIER_COUNT ? tiers[p->tier] : tiers[0]);
	o = put_text(o, "\",\"hosts\":[");
	for (uint32_t i = 0; i < p->nhosts && i < EGRESS_HOSTS_MAX; i++) {
		char text[HOST_TEXT_MAX];

		host_entry_format(&p->hosts[i], text);
		o = put_text(o, i ? ",\"" : "\"");
		o = put_text(o, text);
		*o++ = '"';
	}
	o = put_text(o, "],\"maxBytes\":");
	o = p->max_bytes ? put_u64(o, p->max_bytes) : put_text(o, "null");
	*o++ = '}';
	*o = '\0';
	return (size_t)(o - out);
}

bool egress_token_valid(const char *token, size_t len)
{
	if (len < EGRESS_TOKEN_MIN || len >= EGRESS_TOKEN_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = token[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '-' || c == '_'))
			return false;
	}
	return true;
}

const struct egress_verdict_row *egress_verdict_row(unsigned v)
{
	return &verdicts[v < EGRESS_VERDICT_COUNT ? v : EGRESS_BAD_REQUEST];
}

bool egress_over_ceiling(const struct egress_policy *p, uint64_t used_bytes)
{
	return p->max_bytes && used_bytes >= p->max_bytes;
}

static bool on_the_list(const struct egress_policy *p, const struct target *t)
{
	for (uint32_t i = 0; i < p->nhosts && i < EGRESS_HOSTS_MAX; i++)
		if (host_entry_matches(&p->hosts[i], &t->host, t->port))
			return true;
	return false;
}

enum egress_verdict egress_decide(const struct egress_flow *f)
{
	if (!f->target || !f->target->port)
		return EGRESS_BAD_REQUEST;
	if (!f->has_credential)
		return EGRESS_UNATTRIBUTED;
	if (!f->policy)
		return EGRESS_UNREGISTERED_TOKEN;
	if (f->policy->tier != EGRESS_TIER_DEFAULT_INTERNET &&
	    !(f->policy->tier == EGRESS_TIER_ALLOWLIST && on_the_list(f->policy, f->target)))
		return EGRESS_DENIED_BY_ALLOWLIST;
	if (egress_over_ceiling(f->policy, f->used_bytes))
		return EGRESS_BYTE_QUOTA_EXCEEDED;
	return EGRESS_ALLOW;
}

size_t egress_keep_dialable(struct address *list, size_t n, const struct address_rules *rules)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (address_classify_under(&list[i], rules) == ADDRESS_PUBLIC)
			list[kept++] = address_unmapped(&list[i]);
	return kept;
}

uint64_t egress_kernel_budget(uint64_t max_bytes)
{
	uint64_t budget;

	if (!max_bytes || __builtin_add_overflow(max_bytes, max_bytes / 8 + (256u << 10), &budget))
		return EGRESS_NO_BUDGET;
	return budget;
}

bool egress_meters_agree(uint64_t kernel_bytes, uint64_t kernel_packets, uint64_t gateway_bytes,
			 uint64_t slack)
{
	return kernel_bytes >= gateway_bytes &&
	       kernel_bytes - gateway_bytes <= kernel_packets * EGRESS_HEADERS_MAX + slack;
}
