/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect: tries to reach somebody.
 *   unix NAME        a stream socket; a leading @ means the abstract name space
 *   dgram NAME       a datagram to it
 *   inet ADDR PORT   TCP, IPv4 or IPv6       udp ADDR PORT   one datagram
 *   echo NAME        listens on NAME, connects to itself through a child, says it back
 * Prints `connected` or `errno N`. No attempt lasts longer than two seconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int said(int rc)
{
	if (rc < 0)
		printf("errno %d\n", errno);
	else
		printf("connected\n");
	return rc < 0 ? 3 : 0;
}

static socklen_t unix_address(const char *name, struct sockaddr_un *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	strncpy(ret->sun_path, name, sizeof(ret->sun_path) - 1);
	if (*name == '@')
		ret->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + (*name != '@'));
}

static int reach_unix(const char *name, int type)
{
	struct sockaddr_un a;
	socklen_t len = unix_address(name, &a);
	int fd = socket(AF_UNIX, type, 0);

	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&a, len);
}

static int reach_inet(const char *address, const char *port, int type)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(port)) };
	int is_v6 = inet_pton(AF_INET, address, &v4.sin_addr) != 1;

	if (is_v6 && inet_pton(AF_INET6, address, &v6.sin6_addr) != 1)
		exit(2);
	const struct sockaddr *a = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t len = is_v6 ? sizeof(v6) : sizeof(v4);
	int fd = socket(a->sa_family, type, 0);
	if (fd < 0)
		return -1;
	if (type == SOCK_DGRAM)
		return (int)sendto(fd, "x", 1, 0, a, len);
	return connect(fd, a, len);
}

static int echo(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = unix_address(name, &a);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), status;
	char c = 0;

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 1) < 0)
		return -1;
	if (fork() == 0) {
		int to = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(to, (struct sockaddr *)&a, len) < 0)
			_exit(errno);
		_exit(write(to, "e", 1) == 1 ? 0 : 1);
	}
	int from = accept(fd, NULL, NULL);
	if (from < 0 || read(from, &c, 1) != 1 || c != 'e' || wait(&status) < 0 || status != 0)
		return -1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";

	alarm(2);
	if (!strcmp(how, "unix"))
		return said(reach_unix(argv[2], SOCK_STREAM));
	if (!strcmp(how, "dgram"))
		return said(reach_unix(argv[2], SOCK_DGRAM));
	if (!strcmp(how, "echo"))
		return said(echo(argv[2]));
	if (argc > 3 && !strcmp(how, "inet"))
		return said(reach_inet(argv[2], argv[3], SOCK_STREAM));
	if (argc > 3 && !strcmp(how, "udp"))
		return said(reach_inet(argv[2], argv[3], SOCK_DGRAM));
	return 2;
}
