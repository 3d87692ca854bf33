/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slot's own network namespace: its loopback is brought up (E2), IPv6
 * beyond ::1 never has an address, and with a gateway tier the gateway's
 * address is added to lo as a /32 (E3). Nothing else exists here and nothing
 * else is made.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/launcher.h"

static int lo_ioctl(int fd, unsigned long request, const char *name, uint32_t addr_be,
		    short flags)
{
	struct ifreq r;

	memset(&r, 0, sizeof(r));
	strncpy(r.ifr_name, name, sizeof(r.ifr_name) - 1);
	if (request == SIOCSIFFLAGS) {
		r.ifr_flags = flags;
	} else {
		struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = addr_be };
		memcpy(&r.ifr_addr, &a, sizeof(a));
	}
	return ioctl(fd, request, &r);
}

int network_up(uint32_t gateway_addr_be, struct failure *f)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return fail(f, errno, "network socket");
	rc = lo_ioctl(fd, SIOCSIFFLAGS, "lo", 0, IFF_UP);
	if (rc == 0 && gateway_addr_be) {
		rc = lo_ioctl(fd, SIOCSIFADDR, "lo:0", gateway_addr_be, 0);
		if (rc == 0)
			rc = lo_ioctl(fd, SIOCSIFNETMASK, "lo:0", 0xffffffffu, 0);
	}
	int saved = errno;
	close(fd);
	return rc < 0 ? fail(f, saved, "loopback") : 0;
}
