/* SPDX-License-Identifier: GPL-2.0-or-later OR Apache-2.0 */
#ifndef CORDON_ABI_EGRESS_MATCH_H
#define CORDON_ABI_EGRESS_MATCH_H

/*
 * What a sandbox may reach (E6), judged by the *remote* end alone: daddr and
 * dport of what leaves, saddr and sport of what arrives. Judging "either end"
 * would let a job bind 127.0.0.1 and go uncounted; exempting the loopback
 * interface would exempt the gateway, whose address lies on it.
 *
 * Pure predicates: the kernel, the unit test and the fuzzer run the same ones.
 */
#include "abi/address_match.h"
#include "abi/egress_types.h"

#define EGRESS_PROTO_TCP 6
#define EGRESS_PROTO_UDP 17

enum egress_reach {
	EGRESS_REACH_DENIED = 0,
	EGRESS_REACH_LOOPBACK, /* free and never counted */
	EGRESS_REACH_GATEWAY,  /* counted, and in need of a token */
};

/* The gateway's door: TCP to exactly its address and one of its ports. */
ADDRESS_INLINE int egress_reach_gateway(__u32 remote, __u16 port, __u8 protocol,
					const struct egress_slot *slot)
{
	return protocol == EGRESS_PROTO_TCP && slot->gateway && remote == slot->gateway && port &&
	       (port == slot->ports[0] || port == slot->ports[1]);
}

/* May @len more bytes pass when @used have? Holds at the end of 64 bits too. */
ADDRESS_INLINE int egress_fits(__u64 used, __u64 len, __u64 budget)
{
	return used <= budget && len <= budget - used;
}

/* Is what begins at @seq sent again, when @snd_nxt is what comes next? New data begins there. */
ADDRESS_INLINE int egress_is_again(__u32 seq, __u32 snd_nxt)
{
	return (__s32)(seq - snd_nxt) < 0;
}

/* Socket kinds a sandbox may make: TCP and UDP, nothing that is routed otherwise. */
ADDRESS_INLINE int egress_socket_allowed(__u32 family, __u32 type, __u32 protocol)
{
	if (family != 2 && family != 10) /* AF_INET, AF_INET6: the hook sees no other */
		return 0;
	return (type == 1 && protocol == EGRESS_PROTO_TCP) ||
	       (type == 2 && protocol == EGRESS_PROTO_UDP);
}

/* Local ends a sandbox may take: its loopback, or the wildcard. */
ADDRESS_INLINE int egress_bind4_allowed(__u32 local)
{
	return local == 0 || address4_loopback(local);
}

ADDRESS_INLINE int egress_bind6_allowed(const __u8 *b)
{
	if (address6_mapped(b))
		return egress_bind4_allowed(address_be32(b + 12));
	return address6_loopback(b) || (!address_be32(b) && !address_be32(b + 4) &&
					!address_be32(b + 8) && !address_be32(b + 12));
}

/*
 * Connecting to the unspecified address is connecting to loopback; the kernel
 * rewrites it after the hook has seen it.
 */
ADDRESS_INLINE int egress_connect4_loopback(__u32 remote)
{
	return egress_bind4_allowed(remote);
}

ADDRESS_INLINE int egress_connect6_loopback(const __u8 *b)
{
	return egress_bind6_allowed(b);
}

#endif
