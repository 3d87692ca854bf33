/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the host's addresses; changes none. */
#include "base/interfaces.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/scope.h"

static int take(const struct sockaddr *a, struct interface_address *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (a && a->sa_family == AF_INET) {
		ret->family = 4;
		memcpy(ret->bytes, &((const struct sockaddr_in *)a)->sin_addr, 4);
	} else if (a && a->sa_family == AF_INET6) {
		ret->family = 6;
		memcpy(ret->bytes, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
	}
	return ret->family != 0;
}

int interfaces_addresses(struct interface_address *ret, size_t max, struct err *e)
{
	struct ifaddrs *list;
	size_t n = 0;

	if (getifaddrs(&list) < 0)
		return err_set(e, errno, "the host's addresses: %s", strerror(errno));
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		struct interface_address a;

		if (!take(i->ifa_addr, &a))
			continue;
		if (n == max) {
			freeifaddrs(list);
			return err_set(e, E2BIG, "the host has more than %zu addresses", max);
		}
		ret[n++] = a;
	}
	freeifaddrs(list);
	return (int)n;
}

int interfaces_watch(struct err *e)
{
	struct sockaddr_nl at = { .nl_family = AF_NETLINK,
				  .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC,
				  NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_set(e, errno, "watch the host's addresses: %s", strerror(errno));
	return take_fd(&fd);
}
