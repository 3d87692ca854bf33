/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves, registers and settles egress. The clamp itself is pure
 * (policy/egress.h); here stand the deployment's maximum, the job's token and
 * its account. Nothing of a destination outlives the command's answer (E12).
 */
#include "broker/egress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"
#include "json/json.h"

/* --- The policy (E1) */

static int add_hosts(struct egress_policy *p, const char *text, struct err *e)
{
	while (*text) {
		size_t n = strcspn(text, " \t,");
		struct host_entry entry;

		if (n == 0) {
			text++;
			continue;
		}
		if (!host_entry_parse(text, n, &entry))
			return err_set(e, EINVAL, "egress.maximum_hosts: '%.*s' names nothing",
				       (int)(n < 100 ? n : 100), text);
		if (!egress_policy_add_host(p, &entry))
			return err_set(e, E2BIG, "egress.maximum_hosts: more than %d",
				       EGRESS_HOSTS_MAX);
		text += n;
	}
	return 0;
}

int egress_maximum(const struct config *c, struct egress_policy *ret, struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	ret->tier = c->gateway ? c->egress_maximum : EGRESS_TIER_NONE;
	ret->max_bytes = c->egress_maximum_bytes;
	if (ret->tier == EGRESS_TIER_NONE)
		return 0;
	return add_hosts(ret, c->egress_maximum_hosts, e);
}

struct egress_policy *egress_policy_keep(const struct egress_policy *p)
{
	struct egress_policy *kept = malloc(egress_policy_size(p));

	if (kept)
		memcpy(kept, p, egress_policy_size(p));
	return kept;
}

static enum reason out_of_memory(struct err *e)
{
	err_set(e, ENOMEM, "egress: out of memory");
	return REASON_WORKER_ERROR;
}

static enum reason set_policy(struct egress_grant *g, const struct egress_policy *p, struct err *e)
{
	char text[EGRESS_CANONICAL_MAX];

	g->policy = egress_policy_keep(p);
	if (!g->policy)
		return out_of_memory(e);
	digest_sha256(text, egress_policy_canonical(p, text), g->digest);
	g->tier = p->tier;
	g->is_resolved = true;
	return REASON_NONE;
}

/* No tier asked for: the configured one; an allowlist by default is the deployment's. */
static void default_policy(const struct broker *b, struct egress_policy *ret)
{
	ret->tier = b->config.egress_default;
	ret->nhosts = 0;
	if (ret->tier != EGRESS_TIER_ALLOWLIST)
		return;
	ret->nhosts = b->egress_maximum.nhosts;
	memcpy(ret->hosts, b->egress_maximum.hosts, ret->nhosts * sizeof(ret->hosts[0]));
}

enum reason egress_resolve(struct broker *b, const struct egress_policy *asked,
			   struct egress_grant *g, struct err *e)
{
	struct egress_policy own, met;
	int axes;

	memset(g, 0, sizeof(*g));
	if (!asked || asked->tier == EGRESS_TIER_COUNT) {
		default_policy(b, &own);
		own.max_bytes = asked ? asked->max_bytes : 0;
		asked = &own;
	}
	axes = egress_policy_meet(asked, &b->egress_maximum, &met);
	if (axes < 0) {
		err_set(e, E2BIG, "'egress.allow' meets more than %d entries of the maximum",
			EGRESS_HOSTS_MAX);
		return REASON_INVALID_REQUEST;
	}
	g->clamped = (unsigned)axes;
	return set_policy(g, &met, e);
}

void egress_grant_done(struct broker *b, struct egress_grant *g)
{
	gateway_forget(&b->gateway, &g->call);
	free(g->denied);
	free(g->policy);
	g->denied = NULL;
	g->policy = NULL;
}

enum net_kind egress_net_kind(const struct egress_grant *g)
{
	return g->tier == EGRESS_TIER_NONE ? NET_NONE : NET_GATEWAY;
}

/* --- The account of a job */

/* The job's token, made when it is first needed; it identifies and grants nothing (E7). */
static bool open_account(struct broker *b, struct egress_account *a)
{
	uint8_t random[16];

	if (a->number)
		return true;
	if (digest_random(random, sizeof(random)) < 0)
		return false;
	digest_hex(random, sizeof(random), a->token);
	a->number = ++b->last_token;
	return true;
}

/* --- Registration (E5) */

static struct command *of(struct gateway_call *call)
{
	struct egress_grant *g = CONTAINER_OF(call, struct egress_grant, call);

	return CONTAINER_OF(g, struct command, egress);
}

static void on_registered(struct gateway_call *call, const struct g_registered *r)
{
	struct command *c = of(call);

	if (r->code) {
		command_refuse(c, REASON_EGRESS_REGISTRATION_FAILED, r->text);
		return;
	}
	c->egress.is_registered = true;
	command_go_on(c);
}

static void on_register_lost(struct gateway_call *call)
{
	command_refuse(of(call), REASON_EGRESS_UNAVAILABLE, "the gateway died");
}

static const struct gateway_events registering = {
	.registered = on_registered,
	.lost = on_register_lost,
};

enum reason egress_register(struct command *c, bool *ret_wait, struct err *e)
{
	struct broker *b = c->broker;
	struct egress_account *a = &c->job->egress;

	*ret_wait = false;
	if (egress_net_kind(&c->egress) == NET_NONE)
		return REASON_NONE; /* an empty network namespace: nothing to register */
	if (!gateway_is_up(&b->gateway)) {
		err_set(e, ENOTCONN, "the tier %s needs a gateway and none is running",
			egress_tier_name(c->egress.tier));
		return REASON_EGRESS_UNAVAILABLE;
	}
	if (!open_account(b, a) ||
	    gateway_register(&b->gateway, &c->egress.call, &registering, c->slot, a->token,
			     c->egress.policy, a->used_bytes) < 0) {
		err_set(e, EIO, "the token could not be sent to the gateway");
		return REASON_EGRESS_REGISTRATION_FAILED;
	}
	*ret_wait = true;
	return REASON_NONE;
}

void egress_fill_run(const struct command *c, struct w_run *r)
{
	const struct egress_account *a = &c->job->egress;
	const struct config *config = &c->broker->config;

	if (egress_net_kind(&c->egress) == NET_NONE)
		return;
	snprintf(r->proxy, sizeof(r->proxy), "http://%s:x@%s:%u", a->token, config->gateway_address,
		 config->gateway_port);
	r->egress_token = a->number;
	r->egress_max_bytes = c->egress.policy->max_bytes;
	r->egress_used = a->kernel_used;
}

/* --- The end */

static void go_on(struct command *c)
{
	void (*then)(struct command *) = c->egress.then;

	c->egress.is_counting = false;
	c->egress.then = NULL;
	if (then)
		then(c);
}

/* Counts that nobody brought: what the kernel saw stands for them, so nothing is forgotten. */
static void settle_without_gateway(struct command *c)
{
	if (c->job)
		c->job->egress.used_bytes += c->egress.kernel_bytes;
}

/* Two meters, one truth (E16). */
static void compare_meters(struct command *c, uint64_t slack)
{
	struct egress_grant *g = &c->egress;

	if (c->done.termination == TERMINATION_WORKER_ERROR || !c->has_done)
		return; /* the kernel's half is lost with the worker */
	slack += g->resent_bytes;
	if (egress_meters_agree(g->kernel_bytes, c->done.egress_packets, g->gateway_bytes, slack))
		return;
	g->is_suspect = true;
	log_error("bypass_suspected", "job=%s kernel=%llu packets=%llu gateway=%llu", c->job_id,
		  (unsigned long long)g->kernel_bytes, (unsigned long long)c->done.egress_packets,
		  (unsigned long long)g->gateway_bytes);
}

static void on_counts(struct gateway_call *call, const struct g_counts *n,
		      const struct g_denied *denied)
{
	struct command *c = of(call);
	struct egress_grant *g = &c->egress;

	if (n->code) {
		settle_without_gateway(c);
	} else {
		g->gateway_bytes = n->wire_bytes;
		g->has_gateway_bytes = true;
		if (c->job)
			c->job->egress.used_bytes = n->used_bytes;
		g->denied = calloc(n->ndenied, sizeof(*denied));
		if (g->denied) {
			memcpy(g->denied, denied, n->ndenied * sizeof(*denied));
			g->ndenied = n->ndenied;
		}
		g->lost = n->denied_unlisted + (g->denied ? 0 : n->ndenied);
		compare_meters(c, n->wire_slack);
	}
	go_on(c);
}

static void on_counts_lost(struct gateway_call *call)
{
	settle_without_gateway(of(call));
	go_on(of(call));
}

static const struct gateway_events counting = {
	.counts = on_counts,
	.lost = on_counts_lost,
};

void egress_unregister(struct command *c)
{
	struct egress_grant *g = &c->egress;
	struct broker *b = c->broker;

	if (g->call.req && !g->is_registered && !g->is_counting) {
		/* Refused while the gateway was being told: it will have been, and is told again. */
		gateway_forget(&b->gateway, &g->call);
		gateway_drop(&b->gateway, c->slot);
	}
	if (!g->is_registered)
		return;
	g->is_registered = false;
	g->kernel_bytes = c->done.egress_out_bytes + c->done.egress_in_bytes;
	g->resent_bytes = c->done.egress_again;
	if (c->job && c->done.egress_used > c->job->egress.kernel_used)
		c->job->egress.kernel_used = c->done.egress_used;
	g->is_counting = gateway_unregister(&b->gateway, &g->call, &counting, c->slot) == 0;
	if (!g->is_counting)
		settle_without_gateway(c);
}

void egress_then(struct command *c, void (*then)(struct command *c))
{
	if (c->egress.is_counting)
		c->egress.then = then;
	else
		then(c);
}

/* --- The result */

static json_t *denied_to_json(const struct egress_grant *g)
{
	json_t *list = json_array();

	for (uint32_t i = 0; list && i < g->ndenied; i++) {
		const struct g_denied *d = &g->denied[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:i, s:s, s:I}", "host", d->host, "port",
						(int)d->port, "reason",
						egress_verdict_row(d->verdict)->code, "count",
						(json_int_t)d->count));
	}
	return list;
}

static json_t *clamped_to_json(const struct egress_grant *g)
{
	json_t *clamped = json_array();

	for (unsigned axis = EGRESS_AXIS_TIER; clamped && axis <= EGRESS_AXIS_BYTES; axis <<= 1)
		if (g->clamped & axis)
			json_array_append_new(clamped, json_string(egress_axis_name(axis)));
	return clamped;
}

json_t *egress_to_json(const struct egress_grant *g)
{
	uint64_t total = g->kernel_bytes > g->gateway_bytes ? g->kernel_bytes : g->gateway_bytes;
	bool is_none = g->tier == EGRESS_TIER_NONE;
	json_t *o = json_pack("{s:s, s:o, s:I, s:I, s:o, s:o}", "mode", egress_tier_name(g->tier),
			      "clamped", clamped_to_json(g), "totalBytes", (json_int_t)total,
			      "kernelBytes", (json_int_t)g->kernel_bytes, "gatewayBytes",
			      g->has_gateway_bytes || is_none
				      ? json_integer((json_int_t)g->gateway_bytes)
				      : json_null(),
			      "denied", denied_to_json(g));

	if (o && g->resent_bytes)
		json_object_set_new(o, "resentBytes", json_integer((json_int_t)g->resent_bytes));
	if (o && g->is_suspect)
		json_object_set_new(o, "suspectedBypass", json_true());
	return o;
}
