/* SPDX-License-Identifier: GPL-2.0-or-later OR Apache-2.0 */
#ifndef CORDON_ABI_ADDRESS_MATCH_H
#define CORDON_ABI_ADDRESS_MATCH_H

/*
 * Which addresses are protected in every tier (E9): one judgement, used by the
 * gateway before it dials and by the kernel's second ring (E10). Numbers only;
 * text is policy/address.c's business. Everything here is a pure function of
 * its arguments and small enough for the verifier: no loops over input, no
 * memory but the sixteen bytes it is given.
 *
 * IPv4 addresses are in host order, IPv6 ones are bytes in network order.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define ADDRESS_INLINE static inline __attribute__((always_inline))

/* True when @a lies in @net/@bits. */
ADDRESS_INLINE int address4_in(__u32 a, __u32 net, unsigned bits)
{
	return ((a ^ net) >> (32 - bits)) == 0;
}

ADDRESS_INLINE int address4_loopback(__u32 a)
{
	return address4_in(a, 0x7f000000, 8);
}

/* E9's IPv4 list: "this network", private, shared, loopback, link-local, 224.0.0.0 and above. */
ADDRESS_INLINE int address4_protected(__u32 a)
{
	return address4_in(a, 0x00000000, 8) || address4_in(a, 0x0a000000, 8) ||
	       address4_in(a, 0x64400000, 10) || address4_loopback(a) ||
	       address4_in(a, 0xa9fe0000, 16) || address4_in(a, 0xac100000, 12) ||
	       address4_in(a, 0xc0a80000, 16) || a >= 0xe0000000;
}

ADDRESS_INLINE __u32 address_be32(const __u8 *b)
{
	return (__u32)b[0] << 24 | (__u32)b[1] << 16 | (__u32)b[2] << 8 | b[3];
}

ADDRESS_INLINE __u32 address_pick(const __u8 *b, int i, int j, int k, int l)
{
	return (__u32)b[i] << 24 | (__u32)b[j] << 16 | (__u32)b[k] << 8 | b[l];
}

/* ::ffff:a.b.c.d */
ADDRESS_INLINE int address6_mapped(const __u8 *b)
{
	return !address_be32(b) && !address_be32(b + 4) && address_be32(b + 8) == 0xffff;
}

ADDRESS_INLINE int address6_loopback(const __u8 *b)
{
	return !address_be32(b) && !address_be32(b + 4) && !address_be32(b + 8) &&
	       address_be32(b + 12) == 1;
}

enum { ADDRESS_EMBEDDED_MAX = 4 };

/*
 * 64:ff9b:1::/48, the local-use translation prefix (RFC 8215): the operator
 * picks one of RFC 6052's layouts inside it and the address does not say which,
 * so every layout is read. 0/8 is what the empty part of another layout reads
 * as, and no translator forwards to it: such a reading counts as none and
 * repeats another's. With no reading left the address embeds 0.0.0.0.
 */
ADDRESS_INLINE int address6_nat64_local(const __u8 *b, __u32 out[ADDRESS_EMBEDDED_MAX])
{
	__u32 in48 = address_pick(b, 6, 7, 9, 10), in56 = address_pick(b, 7, 9, 10, 11);
	__u32 in64 = address_pick(b, 9, 10, 11, 12), in96 = address_be32(b + 12);
	__u32 any = in48 >> 24 ? in48 : in56 >> 24 ? in56 : in64 >> 24 ? in64 : in96;

	if (!(any >> 24))
		any = 0;
	out[0] = in48 >> 24 ? in48 : any;
	out[1] = in56 >> 24 ? in56 : any;
	out[2] = in64 >> 24 ? in64 : any;
	out[3] = in96 >> 24 ? in96 : any;
	return 4;
}

/*
 * The IPv4 addresses that @b carries, if it has one of the embedding forms:
 *   ::/96 compatible (and with it :: and ::1), ::ffff:0:0/96 mapped,
 *   ::ffff:0:0:0/96 translated (SIIT), 64:ff9b::/96 and 64:ff9b:1::/48 (NAT64),
 *   2002::/16 (6to4), 2001:0::/32 (Teredo: server, and client inverted),
 *   [02]00:5efe in the interface id (ISATAP).
 * Gives how many of @out are filled.
 */
ADDRESS_INLINE int address6_embedded(const __u8 *b, __u32 out[ADDRESS_EMBEDDED_MAX])
{
	__u32 w0 = address_be32(b), w1 = address_be32(b + 4), w2 = address_be32(b + 8);
	__u32 w3 = address_be32(b + 12);
	int n = 0;

	if (w0 == 0x0064ff9b && b[4] == 0 && b[5] == 1)
		return address6_nat64_local(b, out);
	if ((!w0 && !w1 && (w2 == 0 || w2 == 0xffff || w2 == 0xffff0000)) ||
	    (w0 == 0x0064ff9b && !w1 && !w2) || (w2 & 0xfcffffff) == 0x00005efe) {
		out[0] = w3;
		n = 1;
	}
	if (w0 >> 16 == 0x2002) {
		out[1] = w0 << 16 | w1 >> 16;
		if (!n)
			out[0] = out[1];
		return 2;
	}
	if (w0 == 0x20010000) {
		out[1] = w1;
		out[2] = ~w3;
		if (!n)
			out[0] = w1;
		return 3;
	}
	return n;
}

/* E9's IPv6 list, and whatever carries an IPv4 address of the other list. */
ADDRESS_INLINE int address6_protected(const __u8 *b)
{
	__u32 v4[ADDRESS_EMBEDDED_MAX] = { 0 };
	int n;

	if (b[0] == 0xff || (b[0] & 0xfe) == 0xfc || (b[0] == 0xfe && (b[1] & 0xc0) == 0x80))
		return 1;
	n = address6_embedded(b, v4);
	return (n > 0 && address4_protected(v4[0])) || (n > 1 && address4_protected(v4[1])) ||
	       (n > 2 && address4_protected(v4[2])) || (n > 3 && address4_protected(v4[3]));
}

#endif
