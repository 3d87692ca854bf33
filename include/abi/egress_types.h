/* SPDX-License-Identifier: GPL-2.0-or-later OR Apache-2.0 */
#ifndef CORDON_ABI_EGRESS_TYPES_H
#define CORDON_ABI_EGRESS_TYPES_H

/*
 * What the egress programs and their userspace twin (worker/egress_kernel.c)
 * share: the values of the maps and the events. Addresses and ports are in
 * host order.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define EGRESS_SLOTS_MAX 4096
#define EGRESS_TOKENS_MAX 1024 /* at one time: those of running commands */
#define EGRESS_NO_BUDGET 0xffffffffffffffffULL /* no ceiling */
#define EGRESS_PORTS 2
#define EGRESS_HEADERS_MAX 120 /* bytes of IP and TCP headers a packet, at most */

/*
 * IP packets with their headers. The two directions are counted on different
 * processors, and what every packet reads lies apart from both: a line of the
 * cache that travels with each packet costs more than all the rest.
 */
struct egress_count {
	__u64 bytes, packets;
	__u64 pad[6];
};

/*
 * Map `slots`: kernel id of a slot's cgroup directory -> this. No entry: only
 * loopback is reachable. Written whole before the command starts and removed
 * when it has ended; in between only the programs add to the counters.
 */
struct egress_slot {
	__u32 token;	/* index into `tokens`; 0 is never one */
	__u32 gateway;	/* IPv4 */
	__u16 ports[EGRESS_PORTS]; /* 0: none */
	__u32 is_over;	/* the ceiling has refused something */
	__u64 denied; /* packets, connects, binds and sockets refused */
	__u64 lost;   /* times that `events` was too full to take the news of it */
	__u64 again;  /* bytes of `out` that TCP had sent before */
	__u32 is_told; /* `events` has taken the news: once is enough */
	__u32 pad0;
	__u64 pad[2];
	struct egress_count out; /* from the sandbox */
	struct egress_count in;
};

/*
 * Map `tokens`: index -> this; an mmap'ed array, so that a budget can change
 * without a race against the programs' additions to @used.
 */
struct egress_token {
	__u64 budget; /* bytes over the life of the token; 0: nothing passes */
	__u64 used;   /* while the budget is EGRESS_NO_BUDGET nothing is added: the slots know */
	__u64 pad[6];
};

/* Ring `events`. */
struct egress_event {
	__u64 cgroup_id; /* of the slot whose token has met its budget */
};

/* Map `gateway_exempt` of the second ring: who may be dialled although protected. */
struct egress_exempt {
	__u8 address[16]; /* IPv4 as ::ffff:a.b.c.d */
	__u16 port;	  /* 0: any */
	__u16 pad;
};

/* Trie `gateway_ranges` of the second ring: protected beyond the list. */
struct egress_range {
	__u32 bits; /* of the sixteen bytes */
	__u8 address[16];
};

#ifndef __VMLINUX_H__
#include <assert.h>
static_assert(sizeof(struct egress_slot) == 192, "egress_slot");
static_assert(sizeof(struct egress_token) == 64, "egress_token");
static_assert(sizeof(struct egress_exempt) == 20, "egress_exempt");
static_assert(sizeof(struct egress_range) == 20, "egress_range");
#endif

#endif
