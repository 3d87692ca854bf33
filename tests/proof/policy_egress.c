/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E8 and E1: the decision denies by default, and a clamp never widens. Complete
 * enumeration over all tiers (one that does not exist too), every set of four
 * entries that lie within one another and apart, ceilings and counts at their
 * edges. What is allowed must have every reason to be; what the meet of two
 * policies allows, both allow.
 */
#include <stdbool.h>
#include <string.h>

#include "nondet.h"
#include "policy/egress.h"

const char proof_name[] = "the_decision_denies_by_default_and_a_clamp_never_widens";

static const char *const entries[] = { "a.test", "b.a.test", "c.test:80", "192.0.2.1" };
static const char *const hosts[] = { "a.test", "b.a.test", "xa.test", "c.test", "192.0.2.1", "192.0.2.2" };
static const uint64_t ceilings[] = { 0, 1, 2, UINT64_MAX };
static const uint64_t counts[] = { 0, 1, 2, UINT64_MAX };

enum { ENTRIES = 4, HOSTS = 6 };

/* Drawn only where they count: another tier has no list. */
static void draw_policy(struct egress_policy *p, bool may_list_internet)
{
	struct host_entry e;

	memset(p, 0, sizeof(*p));
	p->tier = choose(EGRESS_TIER_COUNT + 1);
	p->max_bytes = ceilings[choose(4)];
	if (p->tier != EGRESS_TIER_ALLOWLIST && !(may_list_internet && p->tier == EGRESS_TIER_DEFAULT_INTERNET))
		return;
	unsigned set = choose(1u << ENTRIES);
	for (unsigned i = 0; i < ENTRIES; i++)
		if (set & 1u << i) {
			hold(host_entry_parse(entries[i], strlen(entries[i]), &e));
			hold(egress_policy_add_host(p, &e));
		}
}

static struct target target_of(unsigned host, uint16_t port)
{
	struct target t = { .port = port };

	hold(host_parse(hosts[host], strlen(hosts[host]), &t.host));
	return t;
}

static bool is_listed(const struct egress_policy *p, const struct target *t)
{
	for (uint32_t i = 0; i < p->nhosts; i++)
		if (host_entry_matches(&p->hosts[i], &t->host, t->port))
			return true;
	return false;
}

static void decision(void)
{
	static struct egress_policy p;
	struct target t = target_of(choose(HOSTS), (uint16_t)(choose(3) * 40)); /* 0, 40, 80 */
	struct egress_flow f = { .target = choose(2) ? &t : NULL, .has_credential = choose(2) };

	draw_policy(&p, false);
	f.policy = choose(2) ? &p : NULL;
	f.used_bytes = counts[choose(4)];
	enum egress_verdict v = egress_decide(&f);
	enum egress_verdict due =
		!f.target || !t.port ? EGRESS_BAD_REQUEST :
		!f.has_credential    ? EGRESS_UNATTRIBUTED :
		!f.policy	     ? EGRESS_UNREGISTERED_TOKEN :
		p.tier == EGRESS_TIER_DEFAULT_INTERNET || (p.tier == EGRESS_TIER_ALLOWLIST && is_listed(&p, &t)) ?
				       (p.max_bytes && f.used_bytes >= p.max_bytes ? EGRESS_BYTE_QUOTA_EXCEEDED :
										     EGRESS_ALLOW) :
				       EGRESS_DENIED_BY_ALLOWLIST;
	hold(v == due);
}

static bool allows(const struct egress_policy *p, const struct target *t, uint64_t used)
{
	struct egress_flow f = { .target = t, .has_credential = true, .policy = p, .used_bytes = used };

	return egress_decide(&f) == EGRESS_ALLOW;
}

/* A maximum that lists hosts for the whole internet is that list. */
static void as_clamped(struct egress_policy *p)
{
	if (p->tier == EGRESS_TIER_DEFAULT_INTERNET && p->nhosts)
		p->tier = EGRESS_TIER_ALLOWLIST;
}

static void clamp(void)
{
	static struct egress_policy asked, most, got, again;

	draw_policy(&asked, false);
	draw_policy(&most, true);
	int axes = egress_policy_meet(&asked, &most, &got);
	hold(axes >= 0 && egress_policy_valid(&got));
	as_clamped(&most);
	for (unsigned h = 0; h < HOSTS; h++)
		for (unsigned u = 0; u < 4; u++) {
			struct target t = target_of(h, h % 2 ? 80 : 443);
			if (allows(&got, &t, counts[u]))
				hold(allows(&asked, &t, counts[u]) && allows(&most, &t, counts[u]));
			else
				hold(!allows(&asked, &t, counts[u]) || !allows(&most, &t, counts[u]));
		}
	hold(!most.max_bytes || (got.max_bytes && got.max_bytes <= most.max_bytes));
	hold(!asked.max_bytes || (got.max_bytes && got.max_bytes <= asked.max_bytes));
	hold(egress_policy_meet(&got, &most, &again) == 0 &&
	     memcmp(&got, &again, egress_policy_size(&got)) == 0);
}

void proof(void)
{
	if (choose(2))
		clamp();
	else
		decision();
}
