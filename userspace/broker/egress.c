/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves and registers egress. The clamp itself is pure (policy/egress.h);
 * here stand the deployment's maximum and the gateway's absence.
 */
#include "broker/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/command.h"
#include "json/json.h"

/* E1: without a gateway the maximum is none. */
static bool has_gateway(const struct broker *b)
{
	(void)b;
	return false;
}

static enum reason set_digest(struct egress_grant *g, struct err *e)
{
	char *text = malloc(EGRESS_CANONICAL_MAX);
	struct egress_policy *none = g->policy ? NULL : calloc(1, sizeof(*none));

	if (!text || (!g->policy && !none)) {
		free(text);
		free(none);
		err_set(e, ENOMEM, "egress: out of memory");
		return REASON_WORKER_ERROR;
	}
	size_t len = egress_policy_canonical(g->policy ? g->policy : none, text);
	digest_sha256(text, len, g->digest);
	free(text);
	free(none);
	g->is_resolved = true;
	return REASON_NONE;
}

enum reason egress_resolve(struct broker *b, const struct egress_policy *asked,
			   struct egress_grant *g, struct err *e)
{
	enum egress_tier want = asked ? asked->tier : (enum egress_tier)b->config.egress_default;

	memset(g, 0, sizeof(*g));
	if (!has_gateway(b)) {
		g->tier = EGRESS_TIER_NONE;
		g->clamped = want != EGRESS_TIER_NONE ? EGRESS_AXIS_TIER : 0;
		return set_digest(g, e);
	}
	err_set(e, ENOSYS, "the tier %s needs a gateway", egress_tier_name(want));
	return REASON_EGRESS_UNAVAILABLE;
}

void egress_grant_done(struct egress_grant *g)
{
	free(g->policy);
	g->policy = NULL;
}

enum net_kind egress_net_kind(const struct egress_grant *g)
{
	return g->tier == EGRESS_TIER_NONE ? NET_NONE : NET_GATEWAY;
}

enum reason egress_register(struct command *c, bool *ret_wait, struct err *e)
{
	*ret_wait = false;
	if (egress_net_kind(&c->egress) == NET_NONE)
		return REASON_NONE; /* an empty network namespace: nothing to register */
	err_set(e, ENOSYS, "no gateway to register with");
	return REASON_EGRESS_UNAVAILABLE;
}

void egress_unregister(struct command *c)
{
	c->egress.is_registered = false;
}

json_t *egress_to_json(const struct egress_grant *g)
{
	json_t *clamped = json_array();

	for (unsigned axis = EGRESS_AXIS_TIER; clamped && axis <= EGRESS_AXIS_BYTES; axis <<= 1)
		if (g->clamped & axis)
			json_array_append_new(clamped, json_string(egress_axis_name(axis)));
	return json_pack("{s:s, s:o, s:I, s:I, s:I, s:[]}", "mode", egress_tier_name(g->tier),
			 "clamped", clamped, "totalBytes",
			 (json_int_t)(g->kernel_bytes > g->gateway_bytes ? g->kernel_bytes :
									   g->gateway_bytes),
			 "kernelBytes", (json_int_t)g->kernel_bytes, "gatewayBytes",
			 (json_int_t)g->gateway_bytes, "denied");
}
