/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_EGRESS_H
#define CORDON_BROKER_EGRESS_H

/*
 * What a command may reach, and making that so before its first instruction
 * (E1, E4, E5): the clamp, the registration with the gateway, what both meters
 * said at the end (E16). The kernel's half of the registration travels with
 * W_RUN: the worker puts it in force before the launcher hears of the command.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/gateway.h"
#include "config/config.h"
#include "digest/digest.h"
#include "policy/egress.h"
#include "policy/reason.h"
#include "proto/worker.h"

struct broker;
struct command;

/* The policy in force for one command, and what became of it. */
struct egress_grant {
	bool is_resolved;
	struct egress_policy *policy; /* NULL: tier none without a ceiling */
	enum egress_tier tier;
	unsigned clamped; /* enum egress_axis */
	uint8_t digest[DIGEST_LEN];
	bool is_registered, is_counting;
	bool has_gateway_bytes, is_suspect; /* the meters disagree */
	uint64_t kernel_bytes, gateway_bytes;
	uint64_t resent_bytes; /* of the kernel's: TCP sent them more than once */
	struct g_denied *denied;
	uint32_t ndenied;
	uint64_t lost; /* denials of this command that no list holds */
	struct gateway_call call;
	void (*then)(struct command *c); /* waits for the counts */
};

/* The deployment's maximum out of the configuration. -EINVAL names a host that is none. */
int egress_maximum(const struct config *c, struct egress_policy *ret, struct err *e);

/* A copy of @p as large as what it says; NULL: out of memory. Caller frees. */
struct egress_policy *egress_policy_keep(const struct egress_policy *p);

/* What @asked (NULL: the configured default) becomes under the maximum. */
enum reason egress_resolve(struct broker *b, const struct egress_policy *asked,
			   struct egress_grant *ret, struct err *e);
/* Forgets what is still asked of the gateway. */
void egress_grant_done(struct broker *b, struct egress_grant *g);

enum net_kind egress_net_kind(const struct egress_grant *g);

/*
 * Registers the command's slot, token and policy. REASON_NONE with *ret_wait
 * set: command_go_on() or command_refuse() follows.
 */
enum reason egress_register(struct command *c, bool *ret_wait, struct err *e);

/* What W_RUN says of egress: the proxy's URL, the kernel's token and budget. */
void egress_fill_run(const struct command *c, struct w_run *r);

/* The command has ended, or is refused: its connections end, its bytes are asked for. */
void egress_unregister(struct command *c);

/* Calls @then when the counts are known, which may be now. */
void egress_then(struct command *c, void (*then)(struct command *c));

/* The result's member. NULL: out of memory. */
json_t *egress_to_json(const struct egress_grant *g);

#endif
