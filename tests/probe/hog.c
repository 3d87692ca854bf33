/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hog: takes what is not its own to take.
 *   anon MB      touches anonymous memory         shm MB    System V shared memory
 *   memfd MB     a file in memory                 pipes N   fills N pipes
 *   tables MB    one page every 2 MiB, for page tables
 *   aio N        N events of the kernel's native AIO, a pool of the whole host
 *   tcp MB       unread bytes in loopback TCP connections      udp MB    in datagrams
 *   local MB     unread bytes in unix sockets
 *   threads N    N threads      forks [N]   a fork bomb that never waits (N: says how many it got)
 *   flood BYTES  zeros to standard output        line BYTES  one endless line
 * A third argument: seconds to keep it. Prints `held` when it got all of it, `errno N` when it was refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static int refused(void)
{
	printf("errno %d\n", errno);
	return 3;
}

static int anon(size_t n)
{
	for (; n; n--) {
		char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return refused();
		memset(p, 0x5a, MIB);
	}
	return 0;
}

static int shm(size_t n)
{
	for (; n; n--) {
		int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
		char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
		if (p == (char *)-1)
			return refused();
		memset(p, 0x5a, MIB);
		shmdt(p); /* it stays charged without a process that holds it */
	}
	return 0;
}

static int write_all(int fd, size_t bytes, char fill)
{
	static char block[65536];

	memset(block, fill, sizeof(block));
	while (bytes) {
		ssize_t n = write(fd, block, bytes < sizeof(block) ? bytes : sizeof(block));
		if (n <= 0)
			return refused();
		bytes -= (size_t)n;
	}
	return 0;
}

static int memfd(size_t n)
{
	int fd = memfd_create("hog", 0);

	signal(SIGXFSZ, SIG_IGN);
	return fd < 0 ? refused() : write_all(fd, n * MIB, 0x5a);
}

static int pipes(size_t n)
{
	static char block[65536];

	for (; n; n--) {
		int p[2];
		if (pipe2(p, O_NONBLOCK) < 0)
			return refused();
		fcntl(p[1], F_SETPIPE_SZ, MIB);
		while (write(p[1], block, sizeof(block)) > 0)
			;
	}
	return 0;
}

static int tables(size_t mib)
{
	size_t step = 2 * MIB, span = 1024;
	size_t want = mib * MIB / 4096;

	while (want) {
		char *p = mmap(NULL, step * span, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return refused();
		madvise(p, step * span, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < span && want; i++, want--)
			(void)*(volatile char *)(p + i * step); /* the zero page: only the table costs */
	}
	return 0;
}

static int aio(size_t n)
{
	unsigned long context = 0;

	return syscall(SYS_io_setup, n, &context) < 0 ? refused() : 0;
}

/* Sends until the pair takes no more; gives the bytes that now lie in the kernel. */
static size_t stuff(int fd)
{
	static char block[16384];
	size_t total = 0;
	ssize_t n;

	while ((n = send(fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
		total += (size_t)n;
	return total;
}

static int sockets(size_t mib, int family, int type)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int big = 64 * MIB, pair[2];
	size_t held = 0;

	while (held < mib * MIB) {
		int listener = -1, from = -1, to = -1;
		if (family == AF_UNIX) {
			if (socketpair(AF_UNIX, type, 0, pair) < 0)
				return refused();
			from = pair[0];
			to = pair[1];
		} else {
			a.sin_port = 0;
			listener = socket(AF_INET, type, 0);
			from = socket(AF_INET, type, 0);
			if (from < 0 || bind(listener, (struct sockaddr *)&a, len) < 0 ||
			    getsockname(listener, (struct sockaddr *)&a, &len) < 0 ||
			    (type == SOCK_STREAM && listen(listener, 1) < 0))
				return refused();
			setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &big, sizeof(big));
			if (connect(from, (struct sockaddr *)&a, len) < 0)
				return refused();
			to = type == SOCK_STREAM ? accept(listener, NULL, NULL) : listener;
			if (to != listener)
				close(listener);
		}
		setsockopt(from, SOL_SOCKET, SO_SNDBUF, &big, sizeof(big));
		setsockopt(to, SOL_SOCKET, SO_RCVBUF, &big, sizeof(big));
		size_t more = stuff(from);
		held += type == SOCK_DGRAM && more > 2 * MIB ? 2 * MIB : more; /* the rest was dropped */
	}
	return 0;
}

static int tcp(size_t mib)
{
	return sockets(mib, AF_INET, SOCK_STREAM);
}

static int udp(size_t mib)
{
	return sockets(mib, AF_INET, SOCK_DGRAM);
}

static int local(size_t mib)
{
	return sockets(mib, AF_UNIX, SOCK_STREAM);
}

static void *wait_for_ever(void *arg)
{
	pause();
	return arg;
}

static int threads(size_t n)
{
	pthread_attr_t a;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	for (size_t i = 0; i < n; i++) {
		pthread_t t;
		int rc = pthread_create(&t, &a, wait_for_ever, NULL);
		if (rc) {
			printf("got %zu\n", i);
			errno = rc;
			return refused();
		}
	}
	return 0;
}

static int forks(size_t n)
{
	size_t got = 0;

	while (!n) /* a bomb: every copy goes on */
		fork();
	for (; got < n; got++) {
		pid_t pid = fork();
		if (pid < 0) {
			printf("got %zu\n", got);
			return refused();
		}
		if (pid == 0) {
			pause();
			_exit(0);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*take)(size_t);
	} ways[] = { { "anon", anon },	   { "shm", shm }, { "memfd", memfd }, { "pipes", pipes },
		     { "tables", tables }, { "aio", aio }, { "tcp", tcp },     { "udp", udp },
		     { "local", local },   { "threads", threads }, { "forks", forks } };
	const char *how = argc > 1 ? argv[1] : "";
	size_t n = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;

	if (!strcmp(how, "flood") || !strcmp(how, "line"))
		return write_all(1, n, how[0] == 'f' ? 0 : 'x');
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(how, ways[i].name)) {
			int rc = ways[i].take(n);
			if (rc == 0)
				printf("held\n");
			if (argc > 3) /* and keeps it so long */
				sleep((unsigned)atoi(argv[3]));
			return rc;
		}
	return 2;
}
