// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The job programs (E6): attached once to an instance's jobs directory. They
 * meter every packet of a sandbox, both ways, per command and per token, and
 * deny by default. Thin: fetch, ask include/abi, count, answer. Which slot a
 * packet belongs to is the ancestor of its socket's cgroup at slot_level, so a
 * child cgroup is judged as its slot.
 *
 * The userspace twin is worker/egress_kernel.c; nobody else touches the maps.
 */
#include "vmlinux.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi/egress_match.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IP_FRAGMENT 0x3fff /* MF and offset */
#define TCP_RST 0x04

const volatile __u32 slot_level;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EGRESS_SLOTS_MAX);
	__type(key, __u64);
	__type(value, struct egress_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, EGRESS_TOKENS_MAX);
	__type(key, __u32);
	__type(value, struct egress_token);
} tokens SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} events SEC(".maps");

/*
 * Says once per command that its token has met its budget. A full ring is
 * counted and tried again by the next packet; nothing passes meanwhile.
 */
static __always_inline void report_over(struct egress_slot *slot, __u64 id)
{
	struct egress_event *ev;

	slot->is_over = 1;
	if (slot->is_told)
		return;
	ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);
	if (!ev) {
		__sync_fetch_and_add(&slot->lost, 1);
		return;
	}
	ev->cgroup_id = id;
	bpf_ringbuf_submit(ev, 0);
	slot->is_told = 1;
}

/* fetch_add first and undo: two packets at once can never both pass the last byte. */
static __always_inline int charge(const struct egress_slot *slot, __u64 len)
{
	__u32 index = slot->token;
	struct egress_token *token = bpf_map_lookup_elem(&tokens, &index);
	__u64 old;

	if (!index || !token)
		return 0;
	/* Nothing to stop at: the token's line of the cache need not travel. */
	if (token->budget == EGRESS_NO_BUDGET)
		return 1;
	old = __sync_fetch_and_add(&token->used, len);
	if (egress_fits(old, len, token->budget))
		return 1;
	__sync_fetch_and_add(&token->used, -len);
	return 0;
}

/* What judging a packet takes, out of its headers. */
struct packet {
	__u32 remote;
	__u16 port; /* the remote end's; TCP only */
	__u8 protocol;
	__u8 flags; /* of TCP */
	__u32 seq;  /* likewise */
};

#define TCP_BYTES 14 /* up to and with the flags */

static __always_inline void take_tcp(struct packet *p, const __u8 *tcp, int is_out)
{
	p->port = is_out ? tcp[2] << 8 | tcp[3] : tcp[0] << 8 | tcp[1];
	p->flags = tcp[13];
	p->seq = address_be32(tcp + 4);
}

static __always_inline void take_ip(struct packet *p, const struct iphdr *ip, int is_out)
{
	p->remote = bpf_ntohl(is_out ? ip->daddr : ip->saddr);
	/* A fragment has no ports to go by: it is of no protocol that is let through. */
	p->protocol = ip->frag_off & bpf_htons(IP_FRAGMENT) ? 0 : ip->protocol;
}

/* Headers with options, or not in the linear part: rare, and by copy. */
static __noinline int read4_slowly(struct __sk_buff *skb, struct packet *p, int is_out)
{
	struct iphdr ip;
	__u8 tcp[TCP_BYTES];

	if (!p || bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) < 0)
		return 0;
	take_ip(p, &ip, is_out);
	if (p->protocol != EGRESS_PROTO_TCP)
		return 1;
	if (bpf_skb_load_bytes(skb, ip.ihl * 4, tcp, sizeof(tcp)) < 0)
		return 0;
	take_tcp(p, tcp, is_out);
	return 1;
}

static __always_inline int read4(struct __sk_buff *skb, struct packet *p, int is_out)
{
	const __u8 *data = (const __u8 *)(long)skb->data;
	const struct iphdr *ip = (const struct iphdr *)data;

	if (data + sizeof(*ip) + TCP_BYTES > (const __u8 *)(long)skb->data_end || ip->ihl != 5)
		return read4_slowly(skb, p, is_out);
	take_ip(p, ip, is_out);
	if (p->protocol == EGRESS_PROTO_TCP)
		take_tcp(p, data + sizeof(*ip), is_out);
	return 1;
}

static __always_inline int is_loopback6(struct __sk_buff *skb, int is_out)
{
	struct ipv6hdr ip6;

	return bpf_skb_load_bytes(skb, 0, &ip6, sizeof(ip6)) == 0 &&
	       address6_loopback((const __u8 *)(is_out ? &ip6.daddr : &ip6.saddr));
}

/*
 * What a sandbox's TCP sends a second time passes the meter twice and the
 * gateway's books once (E16). Packets without payload are too small to matter.
 */
static __always_inline void note_again(struct __sk_buff *skb, struct egress_slot *slot, __u32 seq)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tcp;

	if (skb->len <= EGRESS_HEADERS_MAX || !sk)
		return;
	sk = bpf_sk_fullsock(sk);
	tcp = sk ? bpf_tcp_sock(sk) : NULL;
	if (tcp && egress_is_again(seq, tcp->snd_nxt))
		__sync_fetch_and_add(&slot->again, skb->len);
}

static __always_inline int through_door(struct __sk_buff *skb, struct egress_slot *slot, __u64 id,
					const struct packet *p, int is_out)
{
	if (!egress_reach_gateway(p->remote, p->port, p->protocol, slot))
		return 0;
	/* A reset carries nothing and is what ends a connection promptly: never held back. */
	if (!(p->flags & TCP_RST) && !charge(slot, skb->len)) {
		report_over(slot, id);
		return 0;
	}
	__sync_fetch_and_add(is_out ? &slot->out.bytes : &slot->in.bytes, skb->len);
	__sync_fetch_and_add(is_out ? &slot->out.packets : &slot->in.packets, 1);
	if (is_out)
		note_again(skb, slot, p->seq);
	return 1;
}

static __always_inline int judge(struct __sk_buff *skb, int is_out)
{
	struct packet p = { 0 };
	struct egress_slot *slot;
	int is_v4 = skb->protocol == bpf_htons(ETH_P_IP), pass = 0;
	__u64 id;

	if (is_v4 && !read4(skb, &p, is_out))
		return 0;
	if (is_v4 ? address4_loopback(p.remote) :
		    skb->protocol == bpf_htons(ETH_P_IPV6) && is_loopback6(skb, is_out))
		return 1;
	id = bpf_skb_ancestor_cgroup_id(skb, slot_level);
	slot = bpf_map_lookup_elem(&slots, &id);
	if (!slot)
		return 0;
	pass = is_v4 && through_door(skb, slot, id, &p, is_out);
	if (!pass)
		__sync_fetch_and_add(&slot->denied, 1);
	return pass ? 1 : 0;
}

SEC("cgroup_skb/egress")
int meter_out(struct __sk_buff *skb)
{
	return judge(skb, 1);
}

SEC("cgroup_skb/ingress")
int meter_in(struct __sk_buff *skb)
{
	return judge(skb, 0);
}

static __always_inline struct egress_slot *current_slot(__u64 *ret_id)
{
	*ret_id = bpf_get_current_ancestor_cgroup_id(slot_level);
	return bpf_map_lookup_elem(&slots, ret_id);
}

static __always_inline int refuse(struct egress_slot *slot)
{
	if (slot)
		__sync_fetch_and_add(&slot->denied, 1);
	return 0;
}

/* An exhausted token fails here, at once, instead of hanging in SYN retries. */
static __always_inline int may_connect4(__u32 remote, __u16 port, __u8 protocol)
{
	struct egress_token *token;
	struct egress_slot *slot;
	__u32 index;
	__u64 id;

	if (egress_connect4_loopback(remote))
		return 1;
	slot = current_slot(&id);
	if (!slot || !egress_reach_gateway(remote, port, protocol, slot))
		return refuse(slot);
	index = slot->token;
	token = bpf_map_lookup_elem(&tokens, &index);
	if (!index || !token || token->used >= token->budget || slot->is_over)
		return refuse(slot);
	return 1;
}

static __always_inline int may_connect6(const __u8 *remote, __u16 port, __u8 protocol)
{
	__u64 id;

	if (egress_connect6_loopback(remote))
		return 1;
	if (address6_mapped(remote))
		return may_connect4(address_be32(remote + 12), port, protocol);
	return refuse(current_slot(&id));
}

static __always_inline void remote6(const struct bpf_sock_addr *ctx, __u32 out[4])
{
	out[0] = ctx->user_ip6[0];
	out[1] = ctx->user_ip6[1];
	out[2] = ctx->user_ip6[2];
	out[3] = ctx->user_ip6[3];
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *ctx)
{
	return may_connect4(bpf_ntohl(ctx->user_ip4), bpf_ntohs(ctx->user_port), ctx->protocol);
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *ctx)
{
	__u32 remote[4];

	remote6(ctx, remote);
	return may_connect6((const __u8 *)remote, bpf_ntohs(ctx->user_port), ctx->protocol);
}

SEC("cgroup/sendmsg4")
int sendmsg4(struct bpf_sock_addr *ctx)
{
	return may_connect4(bpf_ntohl(ctx->user_ip4), bpf_ntohs(ctx->user_port), ctx->protocol);
}

SEC("cgroup/sendmsg6")
int sendmsg6(struct bpf_sock_addr *ctx)
{
	__u32 remote[4];

	remote6(ctx, remote);
	return may_connect6((const __u8 *)remote, bpf_ntohs(ctx->user_port), ctx->protocol);
}

SEC("cgroup/bind4")
int bind4(struct bpf_sock_addr *ctx)
{
	__u64 id;

	return egress_bind4_allowed(bpf_ntohl(ctx->user_ip4)) ? 1 : refuse(current_slot(&id));
}

SEC("cgroup/bind6")
int bind6(struct bpf_sock_addr *ctx)
{
	__u32 local[4];
	__u64 id;

	remote6(ctx, local);
	return egress_bind6_allowed((const __u8 *)local) ? 1 : refuse(current_slot(&id));
}

SEC("cgroup/sock_create")
int sock_create(struct bpf_sock *ctx)
{
	__u64 id;

	return egress_socket_allowed(ctx->family, ctx->type, ctx->protocol) ?
		       1 : refuse(current_slot(&id));
}

char LICENSE[] SEC("license") = "GPL";
