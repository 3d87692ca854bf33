/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic: tunnels through the proxy of $http_proxy.
 *
 *   traffic down HOST PORT N [MAX] N tunnels at once, read until each ends or MAX bytes of
 *                                  it have come. Per tunnel
 *                                  `flow BYTES ERRNO` (0: an end of file, -1: none
 *                                  within 10 s), then `total BYTES` and `worst US`:
 *                                  the longest time from the last byte anybody got to
 *                                  a tunnel's end
 *   traffic up HOST PORT BYTES     sends them through one tunnel and waits for its end
 *   traffic times HOST PORT N      N tunnels one after another, one byte there and back:
 *                                  `p50 US` and `p95 US`
 *   traffic flood N                N connections to the proxy that say nothing, held until
 *                                  standard input ends: `asked N` and `connected N`
 *   traffic bind ADDRESS PORT      a server there, and a client of 127.0.0.1 that looks for it:
 *                                  `ADDRESS bound ERRNO` and `reached ERRNO`, 0 for yes
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FLOWS_MAX = 64, TIMES_MAX = 4096, PER_PROCESS = 2500, WAIT_MS = 10000 };

static struct sockaddr_in proxy = { .sin_family = AF_INET };
static int64_t most = INT64_MAX;
static char token[128], buf[65536];

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void die(const char *what)
{
	printf("failed %s %d\n", what, errno);
	exit(1);
}

static void read_proxy(void)
{
	const char *url = getenv("http_proxy");
	char address[64];
	int port;

	if (!url || sscanf(url, "http://%127[^:]:x@%63[^:]:%d", token, address, &port) != 3 ||
	    inet_pton(AF_INET, address, &proxy.sin_addr) != 1)
		die("http_proxy");
	proxy.sin_port = htons((uint16_t)port);
}

static void base64(const char *in, char *out)
{
	static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strlen(in);

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = 0;
		for (size_t k = 0; k < 3; k++)
			v = v << 8 | (i + k < n ? (uint8_t)in[i + k] : 0);
		for (int k = 0; k < 4; k++)
			*out++ = i + (size_t)k > n ? '=' : set[v >> (18 - 6 * k) & 63];
	}
	*out = 0;
}

/* A tunnel, or -1 with errno. */
static int tunnel(const char *host, const char *port)
{
	char head[1024], pair[160], secret[256];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	size_t got = 0;

	snprintf(pair, sizeof(pair), "%s:x", token);
	base64(pair, secret);
	int n = snprintf(head, sizeof(head),
			 "CONNECT %s:%s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\n\r\n",
			 host, port, host, secret);
	if (fd < 0 || connect(fd, (struct sockaddr *)&proxy, sizeof(proxy)) < 0 ||
	    send(fd, head, (size_t)n, MSG_NOSIGNAL) != n) {
		close(fd);
		return -1;
	}
	memset(head, 0, sizeof(head));
	while (!strstr(head, "\r\n\r\n")) {
		ssize_t more = got < sizeof(head) - 1 ? recv(fd, head + got, 1, 0) : 0;
		if (more <= 0) {
			close(fd);
			return -1;
		}
		got += (size_t)more;
	}
	if (strncmp(head, "HTTP/1.1 200", 12) != 0) {
		close(fd);
		errno = EACCES;
		return -1;
	}
	return fd;
}

struct flow {
	int64_t bytes, ended_us;
	int how;
};

/* One read. False: it has ended. */
static bool take(struct pollfd *p, struct flow *f, int64_t *last_us)
{
	ssize_t n = recv(p->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n > 0) {
		f->bytes += n;
		*last_us = now_us();
		if (f->bytes < most)
			return true;
		n = 0;
	}
	if (n < 0 && errno == EAGAIN)
		return true;
	f->how = n < 0 ? errno : 0;
	f->ended_us = now_us();
	close(p->fd);
	p->fd = -1;
	return false;
}

static void down(const char *host, const char *port, int n)
{
	struct pollfd p[FLOWS_MAX];
	struct flow f[FLOWS_MAX] = { 0 };
	int64_t last_us = 0, total = 0, worst = 0;
	int open = n;

	for (int i = 0; i < n; i++) {
		p[i] = (struct pollfd){ .fd = tunnel(host, port), .events = POLLIN };
		if (p[i].fd < 0)
			die("tunnel");
		f[i].how = -1;
	}
	for (int i = 0; i < n; i++) /* the origin waits for a word */
		send(p[i].fd, "x", 1, MSG_NOSIGNAL);
	last_us = now_us();
	while (open && poll(p, (nfds_t)n, WAIT_MS) > 0)
		for (int i = 0; i < n; i++)
			if (p[i].fd >= 0 && p[i].revents && !take(&p[i], &f[i], &last_us))
				open--;
	for (int i = 0; i < n; i++) {
		printf("flow %lld %d\n", (long long)f[i].bytes, f[i].how);
		total += f[i].bytes;
		if (f[i].how >= 0 && f[i].ended_us - last_us > worst)
			worst = f[i].ended_us - last_us;
	}
	printf("total %lld\nworst %lld\n", (long long)total, (long long)worst);
}

static void up(const char *host, const char *port, int64_t bytes)
{
	int fd = tunnel(host, port);

	if (fd < 0)
		die("tunnel");
	for (int64_t sent = 0; sent < bytes;) {
		size_t want = bytes - sent < (int64_t)sizeof(buf) ? (size_t)(bytes - sent) : sizeof(buf);
		ssize_t n = send(fd, buf, want, MSG_NOSIGNAL);
		if (n <= 0)
			die("send");
		sent += n;
	}
	shutdown(fd, SHUT_WR);
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	printf("sent %lld\n", (long long)bytes);
}

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void times(const char *host, const char *port, int n)
{
	static int64_t us[TIMES_MAX];

	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		int fd = tunnel(host, port);
		char c = 'x';
		if (fd < 0 || send(fd, &c, 1, MSG_NOSIGNAL) != 1 || recv(fd, &c, 1, 0) != 1)
			die("tunnel");
		us[i] = now_us() - began;
		close(fd);
	}
	qsort(us, (size_t)n, sizeof(us[0]), by_size);
	printf("p50 %lld\np95 %lld\n", (long long)us[n / 2], (long long)us[n * 95 / 100]);
}

/* Asks for @n connections and holds them. Gives how many the kernel says are there. */
static int hold(int n)
{
	static int fds[PER_PROCESS];
	struct pollfd p = { .events = POLLOUT };
	int there = 0;

	for (int i = 0; i < n; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (fds[i] < 0)
			die("socket");
		connect(fds[i], (struct sockaddr *)&proxy, sizeof(proxy));
	}
	usleep(500000);
	for (int i = 0; i < n; i++) {
		p.fd = fds[i];
		p.revents = 0;
		there += poll(&p, 1, 0) == 1 && !(p.revents & (POLLERR | POLLHUP));
	}
	return there;
}

static void flood(int n)
{
	int pipefd[2], connected = 0, processes = 0;
	char c;

	if (pipe(pipefd) < 0)
		die("pipe");
	for (int left = n; left > 0; left -= PER_PROCESS, processes++)
		if (fork() == 0) {
			int there = hold(left < PER_PROCESS ? left : PER_PROCESS);
			if (write(pipefd[1], &there, sizeof(there)) != sizeof(there))
				exit(1);
			while (read(0, &c, 1) > 0)
				;
			_exit(0);
		}
	for (int i = 0; i < processes; i++) {
		int there = 0;
		if (read(pipefd[0], &there, sizeof(there)) == sizeof(there))
			connected += there;
	}
	printf("asked %d\nconnected %d\n", n, connected);
	fflush(stdout);
	while (wait(NULL) > 0)
		;
}

static void bind_at(const char *address, const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), code;

	inet_pton(AF_INET, address, &at.sin_addr);
	code = bind(server, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(server, 1) < 0 ? errno : 0;
	printf("%s bound %d\n", address, code);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	code = connect(client, (struct sockaddr *)&at, sizeof(at)) < 0 ? errno : 0;
	printf("reached %d\n", code);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	long long n = argc > 2 ? atoll(argv[argc > 4 ? 4 : argc - 1]) : 0;

	read_proxy();
	if (argc == 6)
		most = atoll(argv[5]);
	if (strcmp(mode, "down") == 0 && (argc == 5 || argc == 6) && n > 0 && n <= FLOWS_MAX)
		down(argv[2], argv[3], (int)n);
	else if (strcmp(mode, "up") == 0 && argc == 5)
		up(argv[2], argv[3], n);
	else if (strcmp(mode, "times") == 0 && argc == 5 && n > 0 && n <= TIMES_MAX)
		times(argv[2], argv[3], (int)n);
	else if (strcmp(mode, "bind") == 0 && argc == 4)
		bind_at(argv[2], argv[3]);
	else if (strcmp(mode, "flood") == 0 && argc == 3)
		flood((int)n);
	else
		return 2;
	return 0;
}
