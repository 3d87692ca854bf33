/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROTO_GATEWAY_H
#define CORDON_PROTO_GATEWAY_H

/*
 * The gateway's control channels, one SEQPACKET pair each with the worker and
 * the broker, made by cordond: nothing in a sandbox has a name for them (E5).
 *
 *   worker                         gateway
 *   G_ROOM [listeners] --------->          a slot's door; sent before W_SLOT
 *   G_ROOM_GONE ---------------->          the slot is no more
 *
 *   broker                         gateway
 *               <----------------  G_READY       once, when it can serve
 *   G_REGISTER ----------------->          token and policy of the slot's next command
 *               <----------------  G_REGISTERED  or why not
 *   G_UNREGISTER --------------->          the command has ended
 *               <----------------  G_COUNTS      its connections are shut
 *   G_LIVE --------------------->          what goes where right now (E12)
 *               <----------------  G_DESTINATION ..., G_END
 *   G_CHECK -------------------->          what would happen to a request
 *               <----------------  G_CHECKED
 *
 * A gateway starts knowing nothing. The room of a slot is known to it before
 * the slot's registration, because the worker tells it first.
 */
#include <stdint.h>

enum gateway_msg {
	G_ROOM = 1,
	G_ROOM_GONE,
	G_READY,
	G_REGISTER,
	G_REGISTERED,
	G_UNREGISTER,
	G_COUNTS,
	G_LIVE,
	G_DESTINATION,
	G_END,
	G_CHECK,
	G_CHECKED,
};

enum {
	G_TOKEN_MAX = 65,
	G_HOST_MAX = 254,
	G_LISTENERS_MAX = 2,
	G_HOSTS_TEXT_MAX = 34 * 1024, /* the policy's entries, each ended by NUL */
	G_DENIED_MAX = 32,	      /* denials listed with the counts */
};

struct g_room { /* G_ROOM, G_ROOM_GONE */
	uint64_t slot;
};

/* Followed by @hosts_len bytes of text: @nhosts canonical entries, each ended by NUL. */
struct g_register { /* G_REGISTER, G_CHECK */
	uint64_t req;
	uint64_t slot;	     /* G_CHECK: 0 */
	uint64_t max_bytes;  /* 0: none */
	uint64_t used_bytes; /* of the token, by commands before this one */
	uint32_t tier;	     /* enum egress_tier */
	uint32_t nhosts;
	uint32_t hosts_len;
	uint32_t port;	     /* G_CHECK */
	char token[72];
	char host[256];	     /* G_CHECK: canonical */
};

struct g_registered {
	uint64_t req;
	int32_t code; /* 0, or an errno value */
	uint32_t pad;
	char text[112];
};

struct g_unregister { /* G_UNREGISTER; G_LIVE with slot 0 for all */
	uint64_t req;
	uint64_t slot;
};

/* One destination a command asked for, with E8's answer where it was refused. */
struct g_denied {
	char host[256];
	uint32_t port;
	uint32_t verdict; /* enum egress_verdict */
	uint64_t count;
};

/* Followed by @ndenied struct g_denied. */
struct g_counts {
	uint64_t req;
	uint64_t slot;
	int32_t code;	     /* 0; ENOENT: no such registration */
	uint32_t ndenied;
	uint64_t used_bytes; /* of the token, payload, with this command's */
	uint64_t out_bytes, in_bytes; /* payload of this command, from and to the sandbox */
	uint64_t wire_bytes; /* all that passed the sockets on the sandbox's side (E16) */
	uint64_t wire_slack; /* what was on its way when connections were cut */
	uint64_t allowed, denied; /* requests */
	uint64_t denied_unlisted; /* denials that did not fit the list */
};

struct g_destination { /* live */
	uint64_t req;
	uint64_t slot;
	char host[256];
	uint32_t port;
	uint32_t open; /* connections right now */
	uint64_t allowed, denied;
	uint64_t out_bytes, in_bytes;
};

struct g_end {
	uint64_t req;
};

struct g_checked {
	uint64_t req;
	uint32_t verdict; /* enum egress_verdict; EGRESS_ALLOW: would be dialled */
	uint32_t pad;
	char address[48]; /* the one that would be dialled first, or "" */
};

#endif
