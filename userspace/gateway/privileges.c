/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gateway keeps, and why: sockets and nothing else. No capability, no
 * path at all, no process. What it may connect to is held by the second ring on
 * its cgroup (bpf/gateway.bpf.c), which it could not lift.
 */
#include "gateway/privileges.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/scope.h"

static const struct confine_call calls[] = {
	CALL("accept4", "connections out of sandboxes"),
	CALL_IF("socket", "upstreams, the resolver", 0, 0xffffffff, AF_INET),
	CALL_IF("socket", "upstreams, the resolver", 0, 0xffffffff, AF_INET6),
	CALL_IF("socket", "reading the host's addresses again", 0, 0xffffffff, AF_NETLINK),
	CALL("bind", "reading the host's addresses again"),
	CALL("connect", "upstreams, the resolver"),
	CALL("splice", "bulk bytes through a tunnel"),
	CALL("getpeername", "c-ares checks who answered"),
	CALL("poll", "a full channel"),
	CALL("epoll_ctl", "the loop"),
};

static const struct confine_limit limits[] = {
	{ RLIMIT_NOFILE, 65536, "two descriptors a tunnel" },
	{ RLIMIT_NPROC, 0, "no process, no thread" },
};

const struct confinement gateway_confinement = {
	.program = "cordon-gateway",
	.calls = calls,
	.ncalls = ARRAY_SIZE(calls),
	.limits = limits,
	.nlimits = ARRAY_SIZE(limits),
};
