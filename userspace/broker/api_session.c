/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The issuing seam (S5): seals for peers with the role issuer, within what they
 * may name. Does not authenticate whom it seals for; the peer does.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "broker/api.h"
#include "broker/reply.h"
#include "session/carrier.h"

struct seal_body {
	const char *org_id, *user_id, *surface, *run_id;
};

static const struct json_field seal_fields[] = {
	FIELD(struct seal_body, org_id, "orgId", FIELD_PTR, 0, 0),
	FIELD(struct seal_body, user_id, "userId", FIELD_PTR, 0, 0),
	FIELD(struct seal_body, surface, "surface", FIELD_PTR, 0, 0),
	FIELD(struct seal_body, run_id, "runId", FIELD_PTR, 0, 0),
};

static json_t *session_to_json(const struct session *s)
{
	return json_pack("{s:s, s:s, s:s, s:s*}", "orgId", s->org_id, "userId", s->user_id,
			 "surface", surface_name(s->surface), "runId",
			 s->run_id[0] ? s->run_id : NULL);
}

void api_seal(struct broker *b, struct exchange *x)
{
	struct seal_body body = { 0 };
	auto_json json_t *v = reply_body(x, seal_fields, ARRAY_SIZE(seal_fields), &body);

	if (!v)
		return;
	struct session_claim claim = { body.org_id, body.user_id, body.surface, body.run_id };
	autofree struct session *s = malloc(sizeof(*s));
	autofree char *carrier = malloc(CARRIER_MAX);
	const char *text = NULL;
	size_t len;
	enum reason why = s && carrier ? session_mint(&claim, 0, s, &text) :
					 REASON_CAPABILITY_UNAVAILABLE;
	if (why == REASON_NONE && !peer_may_name(x->peer, s->org_id, s->user_id)) {
		why = REASON_CAPABILITY_DENIED;
		text = "this peer may not name that organisation or user";
	}
	if (why == REASON_NONE)
		why = carrier_seal(b->keys.carrier, s, clock_realtime_ns() / 1000000,
				   b->config.carrier_ttl_ms, carrier, &len);
	if (why != REASON_NONE)
		reply_reason(x, why, text);
	else
		reply_json(x, 200, json_pack("{s:s#}", "carrier", carrier, (int)len));
}

void api_open(struct broker *b, struct exchange *x)
{
	struct {
		const char *carrier;
	} body = { 0 };
	const struct json_field fields[] = {
		{ "carrier", FIELD_PTR, FIELD_REQUIRED, 0, sizeof(body.carrier), 0 },
	};
	auto_json json_t *v = reply_body(x, fields, ARRAY_SIZE(fields), &body);
	uint64_t exp_ms;

	if (!v)
		return;
	autofree struct session *s = malloc(sizeof(*s));
	enum reason why = s ? carrier_open(b->keys.carrier, body.carrier, strlen(body.carrier),
					   clock_realtime_ns() / 1000000, s, &exp_ms) :
			      REASON_CAPABILITY_UNAVAILABLE;
	if (why == REASON_NONE && !peer_may_name(x->peer, s->org_id, s->user_id)) {
		reply_reason(x, REASON_CAPABILITY_DENIED,
			     "this peer may not name that organisation or user");
		return;
	}
	if (why != REASON_NONE)
		reply_reason(x, why, NULL);
	else
		reply_json(x, 200, json_pack("{s:o, s:I}", "session", session_to_json(s), "exp",
					     (json_int_t)exp_ms));
}
