/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach V4 V6 PORT: tries to get one packet to those addresses through a socket
 * of every family, type and protocol that exists, connected and unconnected,
 * also v4-mapped. Prints `LABEL socket ERRNO` where none could be made, else
 * `LABEL sent ERRNO` with the last try's error (0: it believes to have sent).
 * Ends with `door ERRNO`, a TCP connect to DOOR where one is given as 4th and
 * 5th argument.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const int families[] = { AF_INET, AF_INET6, AF_PACKET, AF_VSOCK, AF_NETLINK, AF_KEY,
				AF_ALG,	 AF_CAN,   AF_XDP,    AF_TIPC,	AF_SMC,	    AF_RDS,
				AF_PPPOX, AF_BLUETOOTH, AF_LLC, AF_APPLETALK };
static const struct {
	const char *name;
	int type;
} types[] = { { "stream", SOCK_STREAM }, { "dgram", SOCK_DGRAM },	{ "raw", SOCK_RAW },
	      { "rdm", SOCK_RDM },	 { "seqpacket", SOCK_SEQPACKET }, { "packet", SOCK_PACKET },
	      { "dccp", SOCK_DCCP } };
static const int protocols[] = { 0,   IPPROTO_ICMP, IPPROTO_IGMP, IPPROTO_TCP, IPPROTO_UDP,
				 33 /* DCCP */, 47 /* GRE */, 50 /* ESP */, IPPROTO_ICMPV6,
				 IPPROTO_SCTP, 136 /* UDP-Lite */, IPPROTO_RAW, 262 /* MPTCP */ };

static struct sockaddr_in v4;
static struct sockaddr_in6 v6, mapped;

static int try_address(int fd, const void *address, socklen_t len)
{
	static const char payload[] = "cordon-reach-probe";
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int code = 0;
	socklen_t size = sizeof(code);

	if (sendto(fd, payload, sizeof(payload), MSG_DONTWAIT | MSG_NOSIGNAL, address, len) >= 0)
		return 0;
	code = errno;
	/* TCP fast open is a way of its own. */
	if (sendto(fd, payload, sizeof(payload), MSG_DONTWAIT | MSG_NOSIGNAL | 0x20000000, address,
		   len) >= 0)
		return 0;
	if (connect(fd, address, len) < 0 && errno != EINPROGRESS)
		return errno;
	if (poll(&p, 1, 50) > 0)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
	else
		code = ETIMEDOUT;
	if (send(fd, payload, sizeof(payload), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return code;
}

static int try_all(int family, int type, int protocol)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_ifindex = 1,
				  .sll_protocol = htons(ETH_P_IP), .sll_halen = 6 };
	struct sockaddr_vm vm = { .svm_family = AF_VSOCK, .svm_cid = 2, .svm_port = 1234 };
	struct {
		const void *address;
		socklen_t len;
	} ways[4] = { 0 };
	int n = 0, code = 0;

	if (family == AF_INET) {
		ways[n].address = &v4, ways[n++].len = sizeof(v4);
	} else if (family == AF_INET6) {
		ways[n].address = &v6, ways[n++].len = sizeof(v6);
		ways[n].address = &mapped, ways[n++].len = sizeof(mapped);
	} else if (family == AF_PACKET) {
		ways[n].address = &ll, ways[n++].len = sizeof(ll);
	} else if (family == AF_VSOCK) {
		ways[n].address = &vm, ways[n++].len = sizeof(vm);
	} else {
		return 0; /* that it could be made is what is told */
	}
	for (int i = 0; i < n; i++) {
		int fd = socket(family, type | SOCK_NONBLOCK, protocol);
		if (fd < 0)
			return errno;
		code = try_address(fd, ways[i].address, ways[i].len);
		close(fd);
		if (code == 0)
			return 0;
	}
	return code;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	v4.sin_family = AF_INET;
	v6.sin6_family = mapped.sin6_family = AF_INET6;
	v4.sin_port = v6.sin6_port = mapped.sin6_port = htons((uint16_t)atoi(argv[3]));
	if (inet_pton(AF_INET, argv[1], &v4.sin_addr) != 1 ||
	    inet_pton(AF_INET6, argv[2], &v6.sin6_addr) != 1)
		return 2;
	mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&mapped.sin6_addr.s6_addr[12], &v4.sin_addr, 4);
	for (unsigned f = 0; f < sizeof(families) / sizeof(families[0]); f++)
		for (unsigned t = 0; t < sizeof(types) / sizeof(types[0]); t++)
			for (unsigned p = 0; p < sizeof(protocols) / sizeof(protocols[0]); p++) {
				int fd = socket(families[f], types[t].type, protocols[p]);
				if (fd < 0) {
					printf("%d/%s/%d socket %d\n", families[f], types[t].name,
					       protocols[p], errno);
					continue;
				}
				close(fd);
				printf("%d/%s/%d sent %d\n", families[f], types[t].name, protocols[p],
				       try_all(families[f], types[t].type, protocols[p]));
			}
	if (argc == 6) {
		v4.sin_port = htons((uint16_t)atoi(argv[5]));
		inet_pton(AF_INET, argv[4], &v4.sin_addr);
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		printf("door %d\n", connect(fd, (struct sockaddr *)&v4, sizeof(v4)) < 0 ? errno : 0);
	}
	return 0;
}
