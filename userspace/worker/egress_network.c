/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's network by netlink (libnl3). Makes no link, address or route: the
 * launcher brings lo up, and there is nothing else to make.
 */
#include "worker/egress_network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <sched.h>
#include <stdbool.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi/address_match.h"
#include "base/scope.h"

enum { LOOPBACK_INDEX = 1, BACKLOG = 4096 };

int egress_network_enter(int pidfd, struct err *e)
{
	autoclose int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (home < 0)
		return err_set(e, errno, "own network namespace: %s", strerror(errno));
	if (setns(pidfd, CLONE_NEWNET) < 0)
		return err_set(e, errno, "enter the slot's network: %s", strerror(errno));
	return take_fd(&home);
}

int egress_network_leave(int home, struct err *e)
{
	autoclose int fd = home;

	if (setns(fd, CLONE_NEWNET) < 0)
		return err_set(e, errno, "leave the slot's network: %s", strerror(errno));
	return 0;
}

static void free_socket(struct nl_sock **sk)
{
	if (*sk)
		nl_socket_free(*sk);
}
#define auto_socket __attribute__((cleanup(free_socket))) struct nl_sock *

static struct nl_sock *open_socket(int protocol, struct err *e)
{
	struct nl_sock *sk = nl_socket_alloc();
	int rc = sk ? nl_connect(sk, protocol) : -NLE_NOMEM;

	if (rc == 0) {
		nl_socket_disable_seq_check(sk);
		return sk;
	}
	if (sk)
		nl_socket_free(sk);
	err_set(e, EIO, "netlink %d: %s", protocol, nl_geterror(rc));
	return NULL;
}

/* Sends a dump request and hands every message of the answer to @each. */
static int dump(struct nl_sock *sk, int type, const void *body, size_t len, nl_recvmsg_msg_cb_t each,
		void *ctx, struct err *e)
{
	int rc = nl_socket_modify_cb(sk, NL_CB_VALID, NL_CB_CUSTOM, each, ctx);

	if (rc == 0)
		rc = nl_send_simple(sk, type, NLM_F_DUMP, (void *)(uintptr_t)body, len);
	if (rc >= 0)
		rc = nl_recvmsgs_default(sk);
	return rc < 0 ? err_set(e, EIO, "netlink dump %d: %s", type, nl_geterror(rc)) : 0;
}

/* --- The assertion */

struct assertion {
	uint32_t gateway;
	bool has_loopback, has_gateway;
	struct err *e;
	int rc;
};

static int more(struct assertion *a, const char *what, const char *name)
{
	if (a->rc == 0)
		a->rc = err_set(a->e, EXDEV, "the job's network is not internal: %s %s", what,
				name);
	return NL_STOP;
}

/*
 * Devices that some kernels put into every new namespace when a tunnel module
 * is loaded (net.core.fb_tunnels_only_for_init_net). Down, they lead nowhere.
 */
static bool is_fallback_tunnel(const char *name)
{
	static const char *const names[] = { "tunl0",	 "gre0",     "gretap0", "erspan0", "ip_vti0",
					     "ip6_vti0", "sit0",     "ip6tnl0", "ip6gre0" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static int see_link(struct nl_msg *msg, void *ctx)
{
	struct assertion *a = ctx;
	const struct ifinfomsg *link = nlmsg_data(nlmsg_hdr(msg));
	struct nlattr *at = nlmsg_find_attr(nlmsg_hdr(msg), sizeof(*link), IFLA_IFNAME);
	const char *name = at ? nla_get_string(at) : "?";

	if (link->ifi_index == LOOPBACK_INDEX && (link->ifi_flags & IFF_LOOPBACK) &&
	    (link->ifi_flags & IFF_UP))
		a->has_loopback = true;
	else if (!is_fallback_tunnel(name) || (link->ifi_flags & IFF_UP))
		return more(a, "link", name);
	return NL_OK;
}

/* Is @bytes/@bits one of the planned addresses, or a network of them? */
static bool is_planned(const struct assertion *a, int family, const void *bytes, unsigned bits)
{
	if (family == AF_INET) {
		uint32_t v4 = address_be32(bytes);
		return address4_in(v4, 0x7f000000, 8) ? bits >= 8
						      : a->gateway && v4 == a->gateway && bits == 32;
	}
	return family == AF_INET6 && address6_loopback(bytes) && bits == 128;
}

static int see_address(struct nl_msg *msg, void *ctx)
{
	struct assertion *a = ctx;
	const struct ifaddrmsg *addr = nlmsg_data(nlmsg_hdr(msg));
	struct nlattr *at = nlmsg_find_attr(nlmsg_hdr(msg), sizeof(*addr), IFA_LOCAL);
	char text[INET6_ADDRSTRLEN] = "?";

	if (!at)
		at = nlmsg_find_attr(nlmsg_hdr(msg), sizeof(*addr), IFA_ADDRESS);
	if (at && nla_len(at) >= (addr->ifa_family == AF_INET ? 4 : 16)) {
		inet_ntop(addr->ifa_family, nla_data(at), text, sizeof(text));
		if (addr->ifa_index == LOOPBACK_INDEX &&
		    is_planned(a, addr->ifa_family, nla_data(at), addr->ifa_prefixlen)) {
			if (addr->ifa_family == AF_INET && a->gateway &&
			    address_be32(nla_data(at)) == a->gateway)
				a->has_gateway = true;
			return NL_OK;
		}
	}
	return more(a, "address", text);
}

/* Routes that refuse lead nowhere; the multicast one of lo stays on lo. */
static bool is_harmless(const struct rtmsg *rt, const struct nlattr *oif)
{
	if (rt->rtm_type == RTN_UNREACHABLE || rt->rtm_type == RTN_BLACKHOLE ||
	    rt->rtm_type == RTN_PROHIBIT)
		return true;
	return rt->rtm_type == RTN_MULTICAST && oif && nla_get_u32(oif) == LOOPBACK_INDEX;
}

static int see_route(struct nl_msg *msg, void *ctx)
{
	struct assertion *a = ctx;
	struct nlmsghdr *h = nlmsg_hdr(msg);
	const struct rtmsg *rt = nlmsg_data(h);
	struct nlattr *oif = nlmsg_find_attr(h, sizeof(*rt), RTA_OIF);
	struct nlattr *dst = nlmsg_find_attr(h, sizeof(*rt), RTA_DST);
	char text[INET6_ADDRSTRLEN] = "default";

	if (is_harmless(rt, oif))
		return NL_OK;
	if (dst && nla_len(dst) >= (rt->rtm_family == AF_INET ? 4 : 16)) {
		inet_ntop(rt->rtm_family, nla_data(dst), text, sizeof(text));
		if (oif && nla_get_u32(oif) == LOOPBACK_INDEX &&
		    !nlmsg_find_attr(h, sizeof(*rt), RTA_GATEWAY) &&
		    !nlmsg_find_attr(h, sizeof(*rt), RTA_VIA) &&
		    !nlmsg_find_attr(h, sizeof(*rt), RTA_MULTIPATH) &&
		    is_planned(a, rt->rtm_family, nla_data(dst), rt->rtm_dst_len))
			return NL_OK;
	}
	return more(a, "route", text);
}

int egress_network_assert_internal(uint32_t gateway, struct err *e)
{
	struct assertion a = { .gateway = gateway, .e = e };
	struct ifinfomsg link = { .ifi_family = AF_UNSPEC };
	struct ifaddrmsg addr = { .ifa_family = AF_UNSPEC };
	struct rtmsg route = { .rtm_family = AF_UNSPEC };
	auto_socket sk = open_socket(NETLINK_ROUTE, e);
	int rc;

	if (!sk)
		return -e->code;
	rc = dump(sk, RTM_GETLINK, &link, sizeof(link), see_link, &a, e);
	if (rc == 0 && a.rc == 0)
		rc = dump(sk, RTM_GETADDR, &addr, sizeof(addr), see_address, &a, e);
	if (rc == 0 && a.rc == 0)
		rc = dump(sk, RTM_GETROUTE, &route, sizeof(route), see_route, &a, e);
	if (rc < 0 || a.rc < 0)
		return rc < 0 ? rc : a.rc;
	if (!a.has_loopback || (gateway && !a.has_gateway))
		return err_set(e, EXDEV, "the job's network is not as planned: %s is missing",
			       a.has_loopback ? "the gateway's address" : "loopback");
	return 0;
}

/* --- The door */

void egress_network_calm(void)
{
	static const char path[] = "/proc/sys/net/ipv4/tcp_congestion_control";
	static const char *const names[] = { "cubic", "reno" };
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(names); i++)
		if (write(fd, names[i], strlen(names[i])) > 0)
			return;
}

int egress_network_listen(uint32_t gateway, uint16_t port, struct err *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(gateway) };
	autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	static const struct linger at_once = { .l_onoff = 1 };
	static const int one = 1;

	/*
	 * What is accepted inherits both. A connection whose holder dies is reset: a
	 * download that is cut short must not look like one that has ended.
	 */
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, errno, "the gateway's door: %s", strerror(errno));
	return take_fd(&fd);
}

/* --- The end of open sockets */


struct doomed {
	uint32_t gateway;
	const uint16_t *ports;
	struct nl_sock *killer;
	int count;
};

static bool is_door(const struct doomed *d, int family, const __be32 address[4], __be16 port_be)
{
	uint16_t port = ntohs(port_be);
	const uint8_t *b = (const uint8_t *)address;

	if (family == AF_INET6 && !address6_mapped(b))
		return false;
	if (address_be32(family == AF_INET6 ? b + 12 : b) != d->gateway || !port)
		return false;
	return port == d->ports[0] || port == d->ports[1];
}

static int see_socket(struct nl_msg *msg, void *ctx)
{
	struct doomed *d = ctx;
	const struct inet_diag_msg *s = nlmsg_data(nlmsg_hdr(msg));
	struct inet_diag_req_v2 req = { .sdiag_family = s->idiag_family,
					.sdiag_protocol = IPPROTO_TCP,
					.id = s->id };

	if (!is_door(d, s->idiag_family, s->id.idiag_src, s->id.idiag_sport) &&
	    !is_door(d, s->idiag_family, s->id.idiag_dst, s->id.idiag_dport))
		return NL_OK;
	if (nl_send_simple(d->killer, SOCK_DESTROY, 0, &req, sizeof(req)) >= 0)
		d->count++;
	return NL_OK;
}

int egress_network_destroy(uint32_t gateway, const uint16_t ports[EGRESS_PORTS], struct err *e)
{
	static const uint8_t families[] = { AF_INET, AF_INET6 };
	auto_socket lister = open_socket(NETLINK_SOCK_DIAG, e);
	auto_socket killer = lister ? open_socket(NETLINK_SOCK_DIAG, e) : NULL;
	struct doomed d = { .gateway = gateway, .ports = ports, .killer = killer };

	if (!killer)
		return -e->code;
	nl_socket_disable_auto_ack(killer); /* nobody would read the answers */
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		struct inet_diag_req_v2 req = { .sdiag_family = families[i],
						.sdiag_protocol = IPPROTO_TCP,
						.idiag_states = ~(1u << TCP_LISTEN) };
		int rc = dump(lister, SOCK_DIAG_BY_FAMILY, &req, sizeof(req), see_socket, &d, e);
		if (rc < 0)
			return rc;
	}
	return d.count;
}
