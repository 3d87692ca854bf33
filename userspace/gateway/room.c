/* SPDX-License-Identifier: Apache-2.0 */
/* Rooms, registrations and counts: memory only. Touches no socket. */
#include "gateway/room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/scope.h"
#include "digest/digest.h"

static struct room **bucket(const struct rooms *rs, uint64_t slot)
{
	return (struct room **)(uintptr_t)&rs->buckets[slot % ROOM_BUCKETS];
}

struct room *rooms_find(const struct rooms *rs, uint64_t slot)
{
	struct room *r = *bucket(rs, slot);

	while (r && r->slot != slot)
		r = r->next;
	return r;
}

int rooms_add(struct rooms *rs, uint64_t slot, struct room **ret, struct err *e)
{
	struct destination *catch_all;
	struct room *r;

	if (rooms_find(rs, slot))
		return err_set(e, EEXIST, "the slot has a room");
	r = calloc(1, sizeof(*r));
	catch_all = calloc(1, sizeof(*catch_all));
	if (r)
		r->destinations = calloc(ROOM_DESTINATIONS_MAX, sizeof(r->destinations[0]));
	if (!r || !catch_all || !r->destinations) {
		if (r)
			free(r->destinations);
		free(r);
		free(catch_all);
		return err_set(e, ENOMEM, "out of memory");
	}
	/* Entry 0 takes what has no name, and what finds no room or memory of its own. */
	r->destinations[r->ndestinations++] = catch_all;
	r->slot = slot;
	for (int i = 0; i < G_LISTENERS_MAX; i++)
		r->doors[i].w.fd = -1;
	r->next = *bucket(rs, slot);
	*bucket(rs, slot) = r;
	rs->count++;
	*ret = r;
	return 0;
}

void rooms_remove(struct rooms *rs, struct room *r)
{
	struct room **at = bucket(rs, r->slot);

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	rs->count--;
	loop_disarm(&r->retry);
	for (uint32_t i = 0; i < r->ndestinations; i++)
		free(r->destinations[i]);
	free(r->destinations);
	free(r->policy);
	explicit_bzero(r->token, sizeof(r->token));
	free(r);
}

/* Constant time over the whole field: lengths differ by where the NUL stands. */
static bool same_token(const char a[G_TOKEN_MAX], const char b[G_TOKEN_MAX])
{
	return digest_equal(a, b, G_TOKEN_MAX);
}

bool rooms_know_token(const struct rooms *rs, const char *token)
{
	char padded[G_TOKEN_MAX] = { 0 };
	bool is_known = false;

	strncpy(padded, token, sizeof(padded) - 1);
	for (int i = 0; i < ROOM_BUCKETS; i++)
		for (const struct room *r = rs->buckets[i]; r; r = r->next)
			is_known |= r->is_registered && same_token(r->token, padded);
	explicit_bzero(padded, sizeof(padded));
	return is_known;
}

static int read_hosts(struct egress_policy *p, uint32_t nhosts, const char *text, size_t len,
		      struct err *e)
{
	for (uint32_t i = 0; i < nhosts; i++) {
		const char *end = memchr(text, '\0', len);
		struct host_entry entry;

		if (!end || !host_entry_parse(text, (size_t)(end - text), &entry))
			return err_set(e, EINVAL, "allowlist entry %u names nothing", i);
		if (!egress_policy_add_host(p, &entry))
			return err_set(e, E2BIG, "more than %d allowlist entries", EGRESS_HOSTS_MAX);
		len -= (size_t)(end + 1 - text);
		text = end + 1;
	}
	return len == 0 ? 0 : err_set(e, EINVAL, "text behind the allowlist");
}

struct egress_policy *room_read_policy(const struct g_register *g, const char *text, size_t len,
				       struct err *e)
{
	struct egress_policy *p = calloc(1, sizeof(*p)), *fit;

	if (!p) {
		err_set(e, ENOMEM, "out of memory");
		return NULL;
	}
	p->tier = g->tier;
	p->max_bytes = g->max_bytes;
	if (g->hosts_len != len || g->nhosts > EGRESS_HOSTS_MAX) {
		err_set(e, EINVAL, "the allowlist's length is wrong");
	} else if (read_hosts(p, g->nhosts, text, len, e) == 0) {
		if (egress_policy_valid(p)) {
			/* Most policies have few hosts: keep no more than there are. */
			fit = realloc(p, egress_policy_size(p));
			return fit ? fit : p;
		}
		err_set(e, EINVAL, "tier %u with %u hosts", g->tier, g->nhosts);
	}
	free(p);
	return NULL;
}

int room_register(struct rooms *rs, struct room *r, const struct g_register *g, const char *text,
		  size_t len, struct err *e)
{
	size_t token_len = strnlen(g->token, sizeof(g->token));
	struct egress_policy *p;

	if (!egress_token_valid(g->token, token_len))
		return err_set(e, EINVAL, "the token's shape is wrong");
	if (g->tier == EGRESS_TIER_NONE)
		return err_set(e, EINVAL, "tier none is not registered");
	if (r->is_registered || r->policy)
		return err_set(e, EEXIST, "the slot has been registered");
	if (rooms_know_token(rs, g->token))
		return err_set(e, EEXIST, "the token is registered for another slot");
	p = room_read_policy(g, text, len, e);
	if (!p)
		return -e->code;
	r->policy = p;
	r->used_bytes = g->used_bytes;
	memset(r->token, 0, sizeof(r->token));
	memcpy(r->token, g->token, token_len);
	r->is_registered = true;
	return 0;
}

void room_unregister(struct room *r)
{
	r->is_registered = false;
	explicit_bzero(r->token, sizeof(r->token));
}

const struct egress_policy *room_policy(const struct room *r, const char *token)
{
	char padded[G_TOKEN_MAX] = { 0 };

	memcpy(padded, token, strnlen(token, sizeof(padded) - 1));
	bool is_same = r->is_registered && same_token(r->token, padded);
	explicit_bzero(padded, sizeof(padded));
	return is_same ? r->policy : NULL;
}

static uint32_t hash_target(const struct target *t, enum egress_verdict v)
{
	const uint8_t *bytes = (const uint8_t *)&t->host;
	uint32_t h = 2166136261u ^ t->port ^ (uint32_t)v << 16;

	for (size_t i = 0; i < sizeof(t->host); i++)
		h = (h ^ bytes[i]) * 16777619u;
	return h;
}

static bool same_target(const struct target *a, const struct target *b)
{
	return a->port == b->port && strcmp(a->host.name, b->host.name) == 0 &&
	       (a->host.name[0] || address_equal(&a->host.address, &b->host.address));
}

static struct destination *find_destination(struct room *r, const struct target *target,
					    enum egress_verdict v)
{
	uint32_t hash = hash_target(target, v);
	struct destination *d;

	for (uint32_t i = 1; i < r->ndestinations; i++) {
		d = r->destinations[i];
		if (d->hash == hash && d->verdict == v && same_target(&d->target, target))
			return d;
	}
	if (r->ndestinations == ROOM_DESTINATIONS_MAX)
		return r->destinations[0];
	d = calloc(1, sizeof(*d));
	if (!d)
		return r->destinations[0];
	d->target = *target;
	d->hash = hash;
	d->verdict = v;
	return r->destinations[r->ndestinations++] = d;
}

struct destination *room_count(struct room *r, const struct target *target, enum egress_verdict v)
{
	struct destination *d = target ? find_destination(r, target, v) : r->destinations[0];

	d->count++;
	if (v == EGRESS_ALLOW)
		r->allowed++;
	else
		r->denied++;
	return d;
}

uint64_t room_allowance(const struct room *r)
{
	uint64_t max = r->policy ? r->policy->max_bytes : 0;

	if (!max || fault_hit("gateway.ceiling"))
		return UINT64_MAX;
	return r->used_bytes < max ? max - r->used_bytes : 0;
}

void room_charge(struct room *r, struct destination *d, uint64_t n, bool is_out)
{
	r->used_bytes += n;
	if (is_out) {
		r->out_bytes += n;
		d->out_bytes += n;
	} else {
		r->in_bytes += n;
		d->in_bytes += n;
	}
}
