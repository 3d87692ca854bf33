// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The second ring (E10): attached to the gateway's own cgroup directory. A bug
 * in the gateway must not become a way into protected ranges, so the kernel
 * judges its connects by the same list. Exempt are the resolver (its port) and
 * the operator's exceptions, which the worker writes into gateway_exempt.
 *
 * The userspace twin is worker/egress_kernel.c.
 */
#include "vmlinux.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi/egress_match.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct egress_exempt);
	__type(value, __u32);
} gateway_exempt SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct egress_range);
	__type(value, __u32);
} gateway_ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} gateway_denied SEC(".maps");

static __always_inline int is_exempt(const __u8 *address, __u16 port)
{
	struct egress_exempt key = { .port = port };

	__builtin_memcpy(key.address, address, 16);
	if (bpf_map_lookup_elem(&gateway_exempt, &key))
		return 1;
	key.port = 0;
	return bpf_map_lookup_elem(&gateway_exempt, &key) != NULL;
}

/* @address: sixteen bytes, IPv4 as ::ffff:a.b.c.d. */
static __always_inline int may_dial(const __u8 *address, __u16 port)
{
	struct egress_range range = { .bits = 128 };
	__u32 zero = 0;
	__u64 *denied;

	if (is_exempt(address, port))
		return 1;
	__builtin_memcpy(range.address, address, 16);
	if (!address6_protected(address) && !bpf_map_lookup_elem(&gateway_ranges, &range))
		return 1;
	denied = bpf_map_lookup_elem(&gateway_denied, &zero);
	if (denied)
		__sync_fetch_and_add(denied, 1);
	return 0;
}

static __always_inline int dial4(const struct bpf_sock_addr *ctx)
{
	__u32 address[4] = { 0, 0, bpf_htonl(0xffff), ctx->user_ip4 };

	return may_dial((const __u8 *)address, bpf_ntohs(ctx->user_port));
}

static __always_inline int dial6(const struct bpf_sock_addr *ctx)
{
	__u32 address[4] = { ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2],
			     ctx->user_ip6[3] };

	return may_dial((const __u8 *)address, bpf_ntohs(ctx->user_port));
}

SEC("cgroup/connect4")
int gateway_connect4(struct bpf_sock_addr *ctx)
{
	return dial4(ctx);
}

SEC("cgroup/connect6")
int gateway_connect6(struct bpf_sock_addr *ctx)
{
	return dial6(ctx);
}

SEC("cgroup/sendmsg4")
int gateway_sendmsg4(struct bpf_sock_addr *ctx)
{
	return dial4(ctx);
}

SEC("cgroup/sendmsg6")
int gateway_sendmsg6(struct bpf_sock_addr *ctx)
{
	return dial6(ctx);
}

SEC("cgroup/sock_create")
int gateway_sock_create(struct bpf_sock *ctx)
{
	return egress_socket_allowed(ctx->family, ctx->type, ctx->protocol) ? 1 : 0;
}

char LICENSE[] SEC("license") = "GPL";
