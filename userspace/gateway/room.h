/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_ROOM_H
#define CORDON_GATEWAY_ROOM_H

/*
 * Rooms: the doors of slots, and what is registered for the command in each
 * (E5, E7). A connection's room is the listener it came through, so whose it is
 * is never a matter of what it says; a token is only ever compared with the one
 * of its own room. Counts per destination live and end here (E12).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/loop.h"
#include "policy/egress.h"
#include "proto/gateway.h"

enum {
	ROOM_BUCKETS = 1024,
	ROOM_DESTINATIONS_MAX = 256, /* per command; beyond, one entry without a name */
};

/* What a command asked for at one host and port, with one outcome. */
struct destination {
	struct target target; /* port 0: the request named none, or the table is full */
	uint32_t hash;
	uint32_t verdict; /* enum egress_verdict */
	uint32_t open;
	uint64_t count; /* requests */
	uint64_t out_bytes, in_bytes;
};

struct conn;
struct gateway;
struct room;

struct door {
	struct watch w; /* fd -1: none */
	struct room *room;
};

struct room {
	struct room *next; /* in its bucket */
	uint64_t slot;
	struct gateway *g; /* door.c's */
	struct door doors[G_LISTENERS_MAX];
	bool is_paused; /* at its cap of connections, or out of descriptors */
	struct deadline retry;
	struct conn *conns;
	uint32_t nconns;
	/* Of the registered command; without one nothing is let through. */
	bool is_registered;
	char token[G_TOKEN_MAX];
	struct egress_policy *policy;
	uint64_t used_bytes; /* of the token */
	uint64_t out_bytes, in_bytes, wire_bytes, wire_slack;
	uint64_t allowed, denied;
	struct destination **destinations;
	uint32_t ndestinations;
};

struct rooms {
	struct room *buckets[ROOM_BUCKETS];
	uint32_t count;
};

/* NULL: none. */
struct room *rooms_find(const struct rooms *rs, uint64_t slot);

/* A fresh room without listeners. -EEXIST, -ENOMEM. */
int rooms_add(struct rooms *rs, uint64_t slot, struct room **ret, struct err *e);

/* Takes it out and frees it. Its listeners and connections are gone already. */
void rooms_remove(struct rooms *rs, struct room *r);

/* Is @token registered in any room? */
bool rooms_know_token(const struct rooms *rs, const char *token);

/*
 * The policy of a message: @text holds what its lengths say. Gives a policy the
 * caller frees, or NULL with *e: an entry that names nothing, a bad tier, more
 * entries than fit.
 */
struct egress_policy *room_read_policy(const struct g_register *g, const char *text, size_t len,
				       struct err *e);

/* Puts token and policy in force. -EEXIST: the room or the token has one. */
int room_register(struct rooms *rs, struct room *r, const struct g_register *g, const char *text,
		  size_t len, struct err *e);

/* Ends the registration; counts stay until the room is removed. */
void room_unregister(struct room *r);

/* Policy of @token here; NULL: not registered, or not this sandbox's. */
const struct egress_policy *room_policy(const struct room *r, const char *token);

/* Counts one request. Gives its destination, never NULL. */
struct destination *room_count(struct room *r, const struct target *target,
			       enum egress_verdict v);

/* Payload that the token may still move; UINT64_MAX without a ceiling. */
uint64_t room_allowance(const struct room *r);

/* Books @n bytes of payload. */
void room_charge(struct room *r, struct destination *d, uint64_t n, bool is_out);

#endif
