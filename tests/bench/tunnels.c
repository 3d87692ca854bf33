/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnels: client, origin and bare relay of the egress benchmark.
 *
 *   tunnels serve ADDRESS PORT          an origin: the first byte of a connection says
 *                                       what it is: e echo, s source without end, k sink
 *   tunnels relay ADDRESS PORT TO PORT  the floor: accepts, connects to TO, splices
 *   tunnels open N AT_A_TIME WHERE      N tunnels, one byte through each; JSON
 *   tunnels bulk BYTES WHERE            so many bytes down one tunnel; JSON
 *   tunnels rtt N WHERE                 N one-byte round trips on one tunnel; JSON
 *   tunnels hold N WHERE                opens N, prints a line, keeps them until stdin ends
 *
 * WHERE: PROXY PORT TARGET CREDENTIAL; TARGET "-": PROXY PORT is a plain relay,
 * no CONNECT is spoken. CREDENTIAL "-": none.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUF = 256 * 1024, EVENTS = 256 };
static char buf[BUF];

static void die(const char *what)
{
	fprintf(stderr, "tunnels: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct sockaddr_in at(const char *address, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
		die(address);
	return a;
}

static void nodelay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static int listen_at(const char *address, const char *port)
{
	struct sockaddr_in a = at(address, port);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	nodelay(fd);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4096) < 0)
		die("listen");
	return fd;
}

/* --- The origin */

struct served {
	int fd;
	char mode;
};

static void serve_one(int ep, struct served *s)
{
	for (int turn = 0; turn < 16; turn++) {
		ssize_t n;

		if (s->mode == 's') {
			n = send(s->fd, buf, sizeof(buf), MSG_NOSIGNAL | MSG_DONTWAIT);
		} else {
			n = recv(s->fd, buf, 65536, MSG_DONTWAIT);
			if (n > 0 && !s->mode)
				s->mode = buf[0];
			if (n > 0 && s->mode == 's') {
				struct epoll_event ev = { .events = EPOLLOUT, .data.ptr = s };
				epoll_ctl(ep, EPOLL_CTL_MOD, s->fd, &ev);
				continue;
			}
			if (n > 0 && s->mode == 'e' && send(s->fd, buf, (size_t)n, MSG_NOSIGNAL) < 0)
				n = 0;
		}
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close(s->fd);
			free(s);
			return;
		}
	}
}

static void serve(const char *address, const char *port)
{
	int ep = epoll_create1(0), listener = listen_at(address, port);
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL }, evs[EVENTS];

	epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, evs, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			if (evs[i].data.ptr) {
				serve_one(ep, evs[i].data.ptr);
				continue;
			}
			int fd;
			while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
				struct served *s = calloc(1, sizeof(*s));
				s->fd = fd;
				ev = (struct epoll_event){ .events = EPOLLIN, .data.ptr = s };
				epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
			}
		}
	}
}

/* --- The bare relay: no limit, no check, one pipe a direction */

struct half {
	int from, to, pipe[2];
	size_t piped;
	bool eof;
	struct half *peer;
	bool is_dead;
};

/* To the last byte there is: events come once. */
static bool splice_half(struct half *h)
{
	for (;;) {
		ssize_t n;

		if (!h->piped && !h->eof) {
			n = splice(h->from, NULL, h->pipe[1], NULL, BUF, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
			if (n < 0)
				return errno == EAGAIN;
			if (n == 0) {
				h->eof = true;
				shutdown(h->to, SHUT_WR);
				return true;
			}
			h->piped = (size_t)n;
		}
		if (!h->piped)
			return true;
		n = splice(h->pipe[0], NULL, h->to, NULL, h->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n < 0)
			return errno == EAGAIN;
		h->piped -= (size_t)n;
	}
}

static void drop_pair(struct half *h)
{
	struct half *p = h->peer;

	close(h->from), close(h->to);
	close(h->pipe[0]), close(h->pipe[1]), close(p->pipe[0]), close(p->pipe[1]);
	h->is_dead = p->is_dead = true; /* leaked: events of this round may still name them */
}

static struct half *half_new(int from, int to)
{
	struct half *h = calloc(1, sizeof(*h));

	h->from = from;
	h->to = to;
	if (pipe2(h->pipe, O_NONBLOCK) < 0)
		die("pipe");
	fcntl(h->pipe[1], F_SETPIPE_SZ, BUF);
	return h;
}

static void relay(const char *address, const char *port, const char *to, const char *to_port)
{
	struct sockaddr_in target = at(to, to_port);
	int ep = epoll_create1(0), listener = listen_at(address, port);
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL }, evs[EVENTS];

	epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, evs, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			struct half *h = evs[i].data.ptr;
			if (h) {
				if (h->is_dead)
					continue;
				if (!splice_half(h) || !splice_half(h->peer) ||
				    (h->eof && h->peer->eof))
					drop_pair(h);
				continue;
			}
			int fd;
			while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
				int up = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
				nodelay(up);
				connect(up, (struct sockaddr *)&target, sizeof(target));
				struct half *a = half_new(fd, up), *b = half_new(up, fd);
				a->peer = b, b->peer = a;
				ev = (struct epoll_event){ .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = a };
				epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
				ev.data.ptr = b;
				epoll_ctl(ep, EPOLL_CTL_ADD, up, &ev);
			}
		}
	}
}

/* --- The client */

struct where {
	struct sockaddr_in proxy;
	char head[1024];
	size_t head_len;
};

static struct where read_where(char **argv)
{
	struct where w = { .proxy = at(argv[0], argv[1]) };

	if (strcmp(argv[2], "-") == 0)
		return w;
	int n = snprintf(w.head, sizeof(w.head), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", argv[2], argv[2]);
	if (strcmp(argv[3], "-") != 0)
		n += snprintf(w.head + n, sizeof(w.head) - (size_t)n, "Proxy-Authorization: Basic %s\r\n",
			      argv[3]);
	n += snprintf(w.head + n, sizeof(w.head) - (size_t)n, "\r\n");
	w.head_len = (size_t)n;
	return w;
}

/* Blocking: an open tunnel, or the end. */
static int open_tunnel(const struct where *w)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char answer[4096];
	size_t have = 0;

	nodelay(fd);
	if (connect(fd, (const struct sockaddr *)&w->proxy, sizeof(w->proxy)) < 0)
		die("connect");
	if (!w->head_len)
		return fd;
	if (send(fd, w->head, w->head_len, 0) < 0)
		die("send");
	while (have < 4 || !memmem(answer, have, "\r\n\r\n", 4)) {
		ssize_t n = recv(fd, answer + have, sizeof(answer) - have, 0);
		if (n <= 0)
			die("no answer");
		have += (size_t)n;
	}
	if (memcmp(answer + 8, " 200", 4) != 0) {
		fprintf(stderr, "%.*s\n", (int)have, answer);
		exit(1);
	}
	return fd;
}

struct flight {
	int fd, stage; /* 0 connecting, 1 head sent, 2 byte sent */
	uint64_t started;
	size_t have;
	char answer[1024];
};

static void launch(int ep, struct flight *f, const struct where *w)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = f };

	f->started = now_ns();
	f->stage = 0;
	f->have = 0;
	f->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	nodelay(f->fd);
	if (connect(f->fd, (const struct sockaddr *)&w->proxy, sizeof(w->proxy)) < 0 &&
	    errno != EINPROGRESS)
		die("connect");
	epoll_ctl(ep, EPOLL_CTL_ADD, f->fd, &ev);
}

/* True when the byte has come back. */
static bool advance(struct flight *f, const struct where *w)
{
	ssize_t n;

	if (f->stage == 0) {
		n = w->head_len ? send(f->fd, w->head, w->head_len, MSG_NOSIGNAL)
				: send(f->fd, "e", 1, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0)
			die("send");
		f->stage = w->head_len ? 1 : 2;
	}
	while ((n = recv(f->fd, f->answer + f->have, sizeof(f->answer) - f->have, 0)) > 0) {
		f->have += (size_t)n;
		if (f->stage == 2)
			return true;
		if (memmem(f->answer, f->have, "\r\n\r\n", 4)) {
			if (memcmp(f->answer + 8, " 200", 4) != 0) {
				fprintf(stderr, "%.*s\n", (int)f->have, f->answer);
				exit(1);
			}
			f->have = 0;
			f->stage = 2;
			if (send(f->fd, "e", 1, MSG_NOSIGNAL) != 1)
				die("send");
		}
	}
	if (n == 0 || errno != EAGAIN)
		die("the tunnel ended");
	return false;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void run_open(long n, int at_a_time, const struct where *w)
{
	struct flight *flights = calloc((size_t)at_a_time, sizeof(*flights));
	uint64_t *took = calloc((size_t)n, sizeof(*took)), started = now_ns();
	struct epoll_event evs[EVENTS];
	long launched = 0, done = 0;
	int ep = epoll_create1(0);

	for (; launched < at_a_time && launched < n; launched++)
		launch(ep, &flights[launched], w);
	while (done < n) {
		int k = epoll_wait(ep, evs, EVENTS, 10000);
		if (k <= 0)
			die("no event for ten seconds");
		for (int i = 0; i < k; i++) {
			struct flight *f = evs[i].data.ptr;
			if (!advance(f, w))
				continue;
			took[done++] = now_ns() - f->started;
			close(f->fd);
			if (launched < n) {
				launched++;
				launch(ep, f, w);
			}
		}
	}
	double elapsed = (double)(now_ns() - started) / 1e9;
	qsort(took, (size_t)n, sizeof(*took), compare);
	printf("{\"per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", (double)n / elapsed,
	       (double)took[n / 2] / 1e3, (double)took[n * 99 / 100] / 1e3);
}

static void run_bulk(double bytes, const struct where *w)
{
	int fd = open_tunnel(w);
	uint64_t started = now_ns();
	double got = 0;

	if (send(fd, "s", 1, 0) != 1)
		die("send");
	while (got < bytes) {
		/* MSG_TRUNC: the bytes are thrown away in the kernel, so the relay is what is clocked */
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_TRUNC);
		if (n <= 0)
			die("bulk ended");
		got += (double)n;
	}
	printf("{\"gb_per_s\": %.3f}\n", got / ((double)(now_ns() - started)));
}

static void run_rtt(long n, const struct where *w)
{
	uint64_t *took = calloc((size_t)n, sizeof(*took));
	int fd = open_tunnel(w);
	char c;

	for (long i = 0; i < n; i++) {
		uint64_t started = now_ns();
		if (send(fd, "e", 1, 0) != 1 || recv(fd, &c, 1, 0) != 1)
			die("round trip");
		took[i] = now_ns() - started;
	}
	qsort(took, (size_t)n, sizeof(*took), compare);
	printf("{\"p50_us\": %.1f, \"p99_us\": %.1f}\n", (double)took[n / 2] / 1e3,
	       (double)took[n * 99 / 100] / 1e3);
}

static void run_hold(long n, const struct where *w)
{
	char c;

	for (long i = 0; i < n; i++) {
		int fd = open_tunnel(w);
		if (send(fd, "e", 1, 0) != 1 || recv(fd, &c, 1, 0) != 1)
			die("hold");
	}
	puts("held");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		serve(argv[2], argv[3]);
	if (argc == 6 && strcmp(argv[1], "relay") == 0)
		relay(argv[2], argv[3], argv[4], argv[5]);
	if (argc < 7)
		return 2;
	struct where w = read_where(argv + (strcmp(argv[1], "open") == 0 ? 4 : 3));
	if (strcmp(argv[1], "open") == 0 && argc == 8)
		run_open(atol(argv[2]), atoi(argv[3]), &w);
	else if (strcmp(argv[1], "bulk") == 0)
		run_bulk(atof(argv[2]), &w);
	else if (strcmp(argv[1], "rtt") == 0)
		run_rtt(atol(argv[2]), &w);
	else if (strcmp(argv[1], "hold") == 0)
		run_hold(atol(argv[2]), &w);
	else
		return 2;
	return 0;
}
