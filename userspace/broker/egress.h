/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_EGRESS_H
#define CORDON_BROKER_EGRESS_H

/*
 * The door to the egress room: what a command may reach, and making that so
 * before its first instruction (E1, E4, E5). Today a plane has no gateway, so
 * its maximum is none; a gateway tier that is left after the clamp is refused.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "digest/digest.h"
#include "policy/egress.h"
#include "policy/reason.h"
#include "proto/worker.h"

struct broker;
struct command;

/* The policy in force for one command. */
struct egress_grant {
	bool is_resolved;
	struct egress_policy *policy; /* NULL: tier none without a ceiling */
	enum egress_tier tier;
	unsigned clamped; /* enum egress_axis */
	uint8_t digest[DIGEST_LEN];
	bool is_registered;
	uint64_t kernel_bytes, gateway_bytes;
};

/* What @asked (NULL: the configured default) becomes under the maximum. */
enum reason egress_resolve(struct broker *b, const struct egress_policy *asked,
			   struct egress_grant *ret, struct err *e);
void egress_grant_done(struct egress_grant *g);

enum net_kind egress_net_kind(const struct egress_grant *g);

/*
 * Registers the command's slot, token and policy. REASON_NONE with *ret_wait
 * set: command_go_on() or command_refuse() follows.
 */
enum reason egress_register(struct command *c, bool *ret_wait, struct err *e);
/* The command has ended: its connections end, its bytes are read. */
void egress_unregister(struct command *c);

/* The result's member. NULL: out of memory. */
json_t *egress_to_json(const struct egress_grant *g);

#endif
