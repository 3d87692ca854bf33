/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of what a gateway tier needs beside its BPF programs, in a network
 * namespace of the probe's own: a packet filter with a chain that drops, and the
 * end of somebody's open connection. By raw netlink: cordon links no library
 * that only doctor would use.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/scope.h"
#include "cli/probe.h"

/* A fresh network with its loopback up. */
static int own_network(struct err *e)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	if (unshare(CLONE_NEWNET) < 0)
		return err_set(e, errno, "a network namespace: %s", strerror(errno));
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r) < 0)
		return err_set(e, errno, "loopback: %s", strerror(errno));
	return 0;
}

/* Sends @len bytes of netlink messages and waits for the first refusal or last acknowledgement. */
static int ask(int protocol, const void *messages, size_t len, unsigned acks, const char *what,
	       struct err *e)
{
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	char answer[4096] __attribute__((aligned(NLMSG_ALIGNTO)));

	if (fd < 0 || send(fd, messages, len, 0) < 0)
		return err_set(e, errno, "%s: %s", what, strerror(errno));
	while (acks) {
		ssize_t n = recv(fd, answer, sizeof(answer), 0);
		if (n <= 0)
			return err_set(e, n < 0 ? errno : EIO, "%s: no answer", what);
		for (struct nlmsghdr *h = (struct nlmsghdr *)answer; NLMSG_OK(h, (size_t)n);
		     h = NLMSG_NEXT(h, n)) {
			const struct nlmsgerr *ack = NLMSG_DATA(h);
			if (h->nlmsg_type != NLMSG_ERROR)
				continue;
			if (ack->error)
				return err_set(e, -ack->error, "%s: %s", what, strerror(-ack->error));
			acks--;
		}
	}
	return 0;
}

/* --- nftables */

struct batch {
	char bytes[1024] __attribute__((aligned(NLMSG_ALIGNTO)));
	size_t len;
	struct nlmsghdr *last;
};

static void message(struct batch *b, uint16_t type, uint16_t flags, uint16_t resource)
{
	struct nlmsghdr *h = (struct nlmsghdr *)(b->bytes + b->len);
	struct nfgenmsg *m = NLMSG_DATA(h);

	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	h->nlmsg_len = NLMSG_LENGTH(sizeof(*m));
	m->nfgen_family = resource ? AF_UNSPEC : NFPROTO_INET;
	m->version = NFNETLINK_V0;
	m->res_id = htons(resource);
	b->last = h;
	b->len += NLMSG_ALIGN(h->nlmsg_len);
}

static struct nlattr *attribute(struct batch *b, uint16_t type, const void *value, size_t len)
{
	struct nlattr *a = (struct nlattr *)(b->bytes + b->len);

	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + len);
	if (len)
		memcpy((char *)a + NLA_HDRLEN, value, len);
	b->len += NLA_ALIGN(a->nla_len);
	b->last->nlmsg_len = (uint32_t)(b->bytes + b->len - (char *)b->last);
	return a;
}

static void number(struct batch *b, uint16_t type, uint32_t value)
{
	uint32_t be = htonl(value);

	attribute(b, type, &be, sizeof(be));
}

static void text(struct batch *b, uint16_t type, const char *value)
{
	attribute(b, type, value, strlen(value) + 1);
}

enum { NFT = NFNL_SUBSYS_NFTABLES << 8 };

int probe_nft(struct err *e)
{
	struct batch b = { .len = 0 };

	if (own_network(e) < 0)
		return -e->code;
	message(&b, NFNL_MSG_BATCH_BEGIN, 0, NFNL_SUBSYS_NFTABLES);
	message(&b, NFT | NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_ACK, 0);
	text(&b, NFTA_TABLE_NAME, "doctor");
	message(&b, NFT | NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK, 0);
	text(&b, NFTA_CHAIN_TABLE, "doctor");
	text(&b, NFTA_CHAIN_NAME, "leave");
	struct nlattr *hook = attribute(&b, NFTA_CHAIN_HOOK | NLA_F_NESTED, NULL, 0);
	number(&b, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
	number(&b, NFTA_HOOK_PRIORITY, 0);
	hook->nla_len = (uint16_t)(b.bytes + b.len - (char *)hook);
	number(&b, NFTA_CHAIN_POLICY, NF_DROP);
	text(&b, NFTA_CHAIN_TYPE, "filter");
	message(&b, NFNL_MSG_BATCH_END, 0, NFNL_SUBSYS_NFTABLES);
	if (ask(NETLINK_NETFILTER, b.bytes, b.len, 2, "a chain", e) < 0)
		return -e->code;

	/* It is not there until it drops something. */
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) >= 0 || errno != EPERM)
		return err_set(e, EIO, "a chain that drops lets a packet pass");
	snprintf(e->msg, sizeof(e->msg), "a chain was made and drops");
	return 0;
}

/* --- The end of open connections */

int probe_sock_destroy(struct err *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, mine;
	socklen_t len = sizeof(at), mine_len = sizeof(mine);
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = { .h = { .nlmsg_len = sizeof(q), .nlmsg_type = SOCK_DESTROY,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.r = { .sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP,
		       .idiag_states = ~0u } };
	char c;

	if (own_network(e) < 0)
		return -e->code;
	autoclose int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
	    connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&mine, &mine_len) < 0)
		return err_set(e, errno, "a connection: %s", strerror(errno));
	q.r.id.idiag_sport = mine.sin_port;
	q.r.id.idiag_dport = at.sin_port;
	q.r.id.idiag_src[0] = mine.sin_addr.s_addr;
	q.r.id.idiag_dst[0] = at.sin_addr.s_addr;
	q.r.id.idiag_cookie[0] = q.r.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (ask(NETLINK_SOCK_DIAG, &q, sizeof(q), 1, "SOCK_DESTROY", e) < 0)
		return -e->code;
	if (recv(fd, &c, 1, 0) >= 0 || errno != ECONNABORTED)
		return err_set(e, EIO, "SOCK_DESTROY leaves the connection open");
	snprintf(e->msg, sizeof(e->msg), "an open connection was ended");
	return 0;
}
