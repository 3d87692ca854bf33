/* SPDX-License-Identifier: Apache-2.0 */
/*
 * before V4 V6 PORT: makes one socket of every kind there is a way out by, all at
 * once and before anything is sent: `NAME made` or `NAME socket ERRNO` each,
 * then `ready`. From then on a line of standard input is an order: `go` sends
 * one packet with each of them (`NAME sent` or `NAME error ERRNO`, then `done`),
 * `!COMMAND` is run by the shell (`ran STATUS`). Row N goes to port PORT + N, and
 * what has no ports carries "cordon-before NAME;": so whoever looks on can
 * tell by which way a packet came.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum to { V4, V6, MAPPED, LINK, VSOCK, NETLINK };
enum way { CONNECT, SENDTO, FASTOPEN, ECHO_REQUEST, WHOLE_PACKET };

enum { UDPLITE = 136, MPTCP = 262, USERSOCK = NETLINK_USERSOCK };

static const struct row {
	const char *name;
	int family, type, protocol;
	enum to to;
	enum way way;
} rows[] = {
	{ "tcp4", AF_INET, SOCK_STREAM, 0, V4, CONNECT },
	{ "tcp6", AF_INET6, SOCK_STREAM, 0, V6, CONNECT },
	{ "tcp-mapped", AF_INET6, SOCK_STREAM, 0, MAPPED, CONNECT },
	{ "tcp4-fastopen", AF_INET, SOCK_STREAM, 0, V4, FASTOPEN },
	{ "mptcp4", AF_INET, SOCK_STREAM, MPTCP, V4, CONNECT },
	{ "mptcp6", AF_INET6, SOCK_STREAM, MPTCP, V6, CONNECT },
	{ "sctp4", AF_INET, SOCK_STREAM, IPPROTO_SCTP, V4, CONNECT },
	{ "sctp6", AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP, V6, CONNECT },
	{ "udp4", AF_INET, SOCK_DGRAM, 0, V4, CONNECT },
	{ "udp4-sendto", AF_INET, SOCK_DGRAM, 0, V4, SENDTO },
	{ "udp6", AF_INET6, SOCK_DGRAM, 0, V6, CONNECT },
	{ "udp6-sendto", AF_INET6, SOCK_DGRAM, 0, V6, SENDTO },
	{ "udp-mapped", AF_INET6, SOCK_DGRAM, 0, MAPPED, SENDTO },
	{ "udplite4", AF_INET, SOCK_DGRAM, UDPLITE, V4, SENDTO },
	{ "udplite6", AF_INET6, SOCK_DGRAM, UDPLITE, V6, SENDTO },
	{ "ping4", AF_INET, SOCK_DGRAM, IPPROTO_ICMP, V4, ECHO_REQUEST },
	{ "ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6, V6, ECHO_REQUEST },
	{ "icmp4", AF_INET, SOCK_RAW, IPPROTO_ICMP, V4, ECHO_REQUEST },
	{ "icmp6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6, V6, ECHO_REQUEST },
	{ "raw4", AF_INET, SOCK_RAW, 253, V4, SENDTO },
	{ "raw6", AF_INET6, SOCK_RAW, 253, V6, SENDTO },
	{ "raw4-header", AF_INET, SOCK_RAW, IPPROTO_RAW, V4, WHOLE_PACKET },
	{ "packet-raw", AF_PACKET, SOCK_RAW, 0, LINK, SENDTO },
	{ "packet-dgram", AF_PACKET, SOCK_DGRAM, 0, LINK, SENDTO },
	{ "vsock", AF_VSOCK, SOCK_STREAM, 0, VSOCK, CONNECT },
	{ "netlink", AF_NETLINK, SOCK_RAW, USERSOCK, NETLINK, SENDTO },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_ll link;
	struct sockaddr_vm vsock;
	struct sockaddr_nl netlink;
};

static struct in_addr host4;
static struct in6_addr host6;
static int port;
static int fds[ROWS];

static socklen_t address_of(int n, union address *a)
{
	const struct row *r = &rows[n];
	uint16_t at = r->type == SOCK_RAW ? 0 : htons((uint16_t)(port + n));

	memset(a, 0, sizeof(*a));
	switch (r->to) {
	case V4:
		a->v4 = (struct sockaddr_in){ AF_INET, at, host4, { 0 } };
		return sizeof(a->v4);
	case V6:
	case MAPPED:
		a->v6.sin6_family = AF_INET6;
		a->v6.sin6_port = at;
		a->v6.sin6_addr = host6;
		if (r->to == MAPPED) {
			memset(&a->v6.sin6_addr, 0, sizeof(host6));
			memset(&a->v6.sin6_addr.s6_addr[10], 0xff, 2);
			memcpy(&a->v6.sin6_addr.s6_addr[12], &host4, 4);
		}
		return sizeof(a->v6);
	case LINK:
		a->link.sll_family = AF_PACKET;
		a->link.sll_protocol = htons(ETH_P_IP);
		a->link.sll_ifindex = (int)if_nametoindex("up0");
		if (!a->link.sll_ifindex)
			a->link.sll_ifindex = 1;
		a->link.sll_halen = 6;
		memset(a->link.sll_addr, 0xff, 6);
		return sizeof(a->link);
	case VSOCK:
		a->vsock.svm_family = AF_VSOCK;
		a->vsock.svm_cid = 1; /* VMADDR_CID_LOCAL */
		a->vsock.svm_port = (unsigned)port;
		return sizeof(a->vsock);
	case NETLINK:
		a->netlink.nl_family = AF_NETLINK;
		a->netlink.nl_pid = (unsigned)port;
		return sizeof(a->netlink);
	}
	return 0;
}

/* What is sent, for ways that need a head of their own in front of it. */
static size_t packet_of(const struct row *r, char out[256])
{
	size_t head = 0;

	memset(out, 0, 256);
	if (r->way == ECHO_REQUEST) {
		out[0] = r->family == AF_INET ? ICMP_ECHO : (char)ICMP6_ECHO_REQUEST;
		head = 8;
	} else if (r->way == WHOLE_PACKET) {
		struct ip *ip = (struct ip *)out;
		ip->ip_v = 4, ip->ip_hl = 5, ip->ip_ttl = 64, ip->ip_p = 253, ip->ip_dst = host4;
		head = sizeof(*ip);
	} else if (r->to == LINK && r->type == SOCK_RAW) {
		memset(out, 0xff, 6);
		out[12] = 0x08;
		head = 14;
	}
	return head + (size_t)sprintf(out + head, "cordon-before %s;", r->name);
}

/* 0, or the errno of the last try. */
static int go(int n)
{
	const struct row *r = &rows[n];
	union address a;
	socklen_t len = address_of(n, &a), size = sizeof(int);
	char packet[256];
	size_t bytes = packet_of(r, packet);
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL, code = 0;
	struct pollfd p = { .fd = fds[n], .events = POLLOUT };

	if (r->way != CONNECT)
		return sendto(fds[n], packet, bytes, flags | (r->way == FASTOPEN ? MSG_FASTOPEN : 0),
			      &a.any, len) < 0 && errno != EINPROGRESS ? errno : 0;
	if (connect(fds[n], &a.any, len) < 0 && errno != EINPROGRESS && errno != EISCONN &&
	    errno != EALREADY)
		return errno;
	if (poll(&p, 1, 200) > 0)
		getsockopt(fds[n], SOL_SOCKET, SO_ERROR, &code, &size);
	if (code || r->type == SOCK_STREAM)
		return code ? code : p.revents & POLLOUT ? 0 : ETIMEDOUT;
	return send(fds[n], packet, bytes, flags) < 0 ? errno : 0;
}

int main(int argc, char **argv)
{
	char line[4096];

	if (argc != 4 || inet_pton(AF_INET, argv[1], &host4) != 1 ||
	    inet_pton(AF_INET6, argv[2], &host6) != 1)
		return 2;
	port = atoi(argv[3]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int n = 0; n < ROWS; n++) {
		fds[n] = socket(rows[n].family, rows[n].type | SOCK_NONBLOCK, rows[n].protocol);
		if (fds[n] < 0)
			printf("%s socket %d\n", rows[n].name, errno);
		else
			printf("%s made\n", rows[n].name);
	}
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] == '!') {
			fflush(stdout);
			printf("ran %d\n", system(line + 1));
			continue;
		}
		for (int n = 0; n < ROWS; n++) {
			int code = fds[n] < 0 ? 0 : go(n);
			if (fds[n] >= 0)
				printf(code ? "%s error %d\n" : "%s sent\n", rows[n].name, code);
		}
		puts("done");
	}
	return 0;
}
