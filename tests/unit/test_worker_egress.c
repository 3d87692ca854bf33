/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress programs and the job's network, on the real kernel: loading every
 * program, attaching beside others, metering, denying, ceilings, the second
 * ring, the internal assertion, the nft line. Needs root; makes a cgroup and
 * namespaces of its own and leaves nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "base/scope.h"
#include "worker/egress_kernel.h"
#include "worker/egress_network.h"
#include "worker/egress_nft.h"

#define GATEWAY 0x64400001u /* 100.64.0.1 */
static const uint16_t ports[EGRESS_PORTS] = { 3128, 0 };

static struct {
	char cgroup[256], jobs[280], slot[300], child[320], gateway[280], pins[64];
	int jobs_fd, gateway_fd;
	uint64_t id;
	struct egress_kernel *k;
} t;

static int in_cgroup(const char *dir)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	int fd = open(path, O_WRONLY);
	int rc = fd >= 0 && write(fd, "0", 1) == 1 ? 0 : -1;
	close(fd);
	return rc;
}

/* The v2 tree, wherever it is mounted. */
static bool find_v2(char *ret, size_t size)
{
	char line[1024], where[192], type[64];
	FILE *f = fopen("/proc/self/mounts", "r");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*s %191s %63s", where, type) == 2 &&
			strcmp(type, "cgroup2") == 0;
	if (f)
		fclose(f);
	if (found)
		snprintf(ret, size, "%s/cordon-test-egress-%d", where, getpid());
	return found;
}

static int setup(void **state)
{
	struct stat st;
	struct err e = { 0 };

	(void)state;
	if (geteuid() != 0 || !find_v2(t.cgroup, sizeof(t.cgroup)))
		return 0;
	snprintf(t.jobs, sizeof(t.jobs), "%s/jobs", t.cgroup);
	snprintf(t.slot, sizeof(t.slot), "%s/slot-1", t.jobs);
	snprintf(t.child, sizeof(t.child), "%s/child", t.slot);
	snprintf(t.gateway, sizeof(t.gateway), "%s/gateway", t.cgroup);
	snprintf(t.pins, sizeof(t.pins), "/tmp/cordon-test-bpf-%d", getpid());
	if (mkdir(t.cgroup, 0755) < 0 || mkdir(t.jobs, 0755) < 0 || mkdir(t.slot, 0755) < 0 ||
	    mkdir(t.child, 0755) < 0 || mkdir(t.gateway, 0755) < 0 || mkdir(t.pins, 0700) < 0)
		return -1;
	/* A private bpffs: it goes with this process. */
	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("bpf", t.pins, "bpf", 0, NULL) < 0)
		return -1;
	t.jobs_fd = open(t.jobs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	t.gateway_fd = open(t.gateway, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (stat(t.slot, &st) < 0)
		return -1;
	t.id = st.st_ino;
	if (egress_kernel_open(t.jobs_fd, t.pins, &t.k, &e) < 0) {
		print_error("%s\n", e.msg);
		return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	struct err e;

	(void)state;
	if (!t.cgroup[0])
		return 0;
	egress_kernel_free(t.k);
	egress_kernel_unpin(t.pins, &e);
	umount2(t.pins, MNT_DETACH);
	rmdir(t.pins);
	rmdir(t.child);
	rmdir(t.slot);
	rmdir(t.jobs);
	rmdir(t.gateway);
	rmdir(t.cgroup);
	return 0;
}

#define NEEDS_ROOT() \
	do { \
		if (!t.k) \
			skip(); \
	} while (0)

/* --- A room: a namespace like a slot's */

static void lo_up(uint32_t gateway)
{
	struct ifreq r = { .ifr_name = "lo" };
	struct sockaddr_in *a = (struct sockaddr_in *)&r.ifr_addr;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	r.ifr_flags = IFF_UP;
	ioctl(fd, SIOCSIFFLAGS, &r);
	if (gateway) {
		strcpy(r.ifr_name, "lo:0");
		memset(a, 0, sizeof(*a));
		a->sin_family = AF_INET;
		a->sin_addr.s_addr = htonl(gateway);
		ioctl(fd, SIOCSIFADDR, &r);
		a->sin_addr.s_addr = 0xffffffff;
		ioctl(fd, SIOCSIFNETMASK, &r);
	}
	close(fd);
}


/* Runs @body in a child inside a fresh room (and @cgroup, if any); gives its exit status. */
static int in_room(const char *cgroup, uint32_t gateway, int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(20);
		if (unshare(CLONE_NEWNET) < 0)
			_exit(99);
		lo_up(gateway);
		if (cgroup && in_cgroup(cgroup) < 0)
			_exit(98);
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

static struct sockaddr_in at4(uint32_t address, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(address) };
}

/* errno of a connect, 0 for success. */
static int try_connect(uint32_t address, uint16_t port)
{
	struct sockaddr_in a = at4(address, port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int rc = fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? errno : 0;

	close(fd);
	return rc;
}

static int listen_at(uint32_t address, uint16_t port)
{
	struct sockaddr_in a = at4(address, port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A pair of ends through the door; the listener was made outside the jobs. */
struct tunnel {
	int listener, inside, outside;
};

static int open_tunnel(struct tunnel *x)
{
	struct sockaddr_in a = at4(GATEWAY, 3128);

	x->inside = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(x->inside, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -1;
	x->outside = accept(x->listener, NULL, NULL);
	return 0;
}

/* The listener is made before the child enters the slot, as the worker does. */
static int in_slot_with_door(const char *cgroup, int (*body)(struct tunnel *x))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct tunnel x = { -1, -1, -1 };
		alarm(20);
		if (unshare(CLONE_NEWNET) < 0)
			_exit(99);
		lo_up(GATEWAY);
		x.listener = listen_at(GATEWAY, 3128);
		if (x.listener < 0 || in_cgroup(cgroup) < 0)
			_exit(98);
		_exit(body(&x));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

/* Both ways at once, so that neither socket buffer blocks the test. */
static int exchange(struct tunnel *x, size_t bytes)
{
	static char buf[65536];
	size_t sent = 0, got = 0;

	while (got < bytes) {
		size_t want = bytes - sent < sizeof(buf) ? bytes - sent : sizeof(buf);
		if (want) {
			ssize_t n = send(x->inside, buf, want, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n > 0)
				sent += (size_t)n;
		}
		struct pollfd p = { .fd = x->outside, .events = POLLIN };
		if (poll(&p, 1, 2000) <= 0)
			return -1;
		ssize_t n = recv(x->outside, buf, sizeof(buf), MSG_DONTWAIT);
		if (n <= 0)
			return -1;
		got += (size_t)n;
	}
	return 0;
}

static void open_door(uint64_t budget)
{
	struct err e;

	egress_kernel_token_set(t.k, 1, budget, 0);
	assert_int_equal(egress_kernel_slot_add(t.k, t.id, 1, GATEWAY, ports, &e), 0);
}

static struct egress_slot shut_door(void)
{
	struct egress_slot s = { 0 };
	struct err e;

	assert_int_equal(egress_kernel_slot_take(t.k, t.id, &s, &e), 0);
	return s;
}

/* --- Denied by default */

static int loopback_works(void)
{
	int l = listen_at(0x7f000001, 8080), w = listen_at(0, 8081);

	if (l < 0 || w < 0)
		return 1;
	if (try_connect(0x7f000001, 8080) || try_connect(0x7f000001, 8081) || try_connect(0, 8081))
		return 2;
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(8082),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int s6 = socket(AF_INET6, SOCK_STREAM, 0), c6 = socket(AF_INET6, SOCK_STREAM, 0);
	if (bind(s6, (struct sockaddr *)&a6, sizeof(a6)) < 0 || listen(s6, 1) < 0 ||
	    connect(c6, (struct sockaddr *)&a6, sizeof(a6)) < 0)
		return 3;
	struct sockaddr_in u = at4(0x7f000001, 9000);
	int us = socket(AF_INET, SOCK_DGRAM, 0), uc = socket(AF_INET, SOCK_DGRAM, 0);
	char c;
	if (bind(us, (struct sockaddr *)&u, sizeof(u)) < 0 ||
	    sendto(uc, "x", 1, 0, (struct sockaddr *)&u, sizeof(u)) != 1 || recv(us, &c, 1, 0) != 1)
		return 4;
	return 0;
}

static void loopback_is_free_in_every_tier(void **state)
{
	(void)state;
	NEEDS_ROOT();
	assert_int_equal(in_room(t.slot, 0, loopback_works), 0);
	open_door(UINT64_MAX);
	assert_int_equal(in_room(t.slot, GATEWAY, loopback_works), 0);
	struct egress_slot s = shut_door();
	assert_int_equal(s.out.bytes + s.in.bytes, 0);
}

/* The error of a datagram that is sent, 0 for one that goes. */
static int try_send(uint32_t address, uint16_t port)
{
	struct sockaddr_in a = at4(address, port);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	int rc = sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)) < 0 ? errno : 0;

	close(fd);
	return rc;
}

/* The error of a connection (SOCK_STREAM) or a datagram to @text. */
static int try6(const char *text, int type)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(80) };
	int fd = socket(AF_INET6, type, 0);

	assert_int_equal(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
	int rc = (type == SOCK_STREAM ? connect(fd, (struct sockaddr *)&a, sizeof(a)) :
					sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a))) < 0 ?
			 errno :
			 0;
	close(fd);
	return rc;
}

/* Nothing here has a route but the gateway's address: without a program it is another error. */
static int nothing_but_loopback(void)
{
	if (try_connect(GATEWAY, 3128) != EPERM || try_connect(0xcb007101, 443) != EPERM)
		return 1;
	if (try_send(GATEWAY, 3128) != EPERM || try_send(0xcb007101, 443) != EPERM)
		return 2;
	if (try6("2001:db8::1", SOCK_STREAM) != EPERM || try6("2001:db8::1", SOCK_DGRAM) != EPERM)
		return 3;
	return 0;
}

static void without_an_entry_nothing_but_loopback_is_reached(void **state)
{
	(void)state;
	NEEDS_ROOT();
	assert_int_equal(in_room(t.slot, GATEWAY, nothing_but_loopback), 0);
	assert_int_equal(in_room(t.child, GATEWAY, nothing_but_loopback), 0);
}

static int only_tcp_and_udp(void)
{
	static const struct {
		int type, protocol;
	} bad[] = { { SOCK_RAW, IPPROTO_ICMP }, { SOCK_RAW, IPPROTO_RAW },
		    { SOCK_RAW, IPPROTO_TCP },	{ SOCK_DGRAM, IPPROTO_ICMP },
		    { SOCK_DGRAM, 136 },	{ SOCK_STREAM, IPPROTO_SCTP },
		    { SOCK_SEQPACKET, IPPROTO_SCTP }, { SOCK_STREAM, 262 /* MPTCP */ } };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		for (int family = AF_INET; family <= AF_INET6; family += AF_INET6 - AF_INET) {
			int fd = socket(family, bad[i].type, bad[i].protocol);
			if (fd >= 0)
				return 1 + (int)i;
		}
	return socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_INET6, SOCK_DGRAM, 0) < 0 ? 50 : 0;
}

static void only_tcp_and_udp_sockets_can_be_made(void **state)
{
	(void)state;
	NEEDS_ROOT();
	assert_int_equal(in_room(t.slot, GATEWAY, only_tcp_and_udp), 0);
	/* The control: outside the jobs raw sockets work. */
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	assert_true(fd >= 0);
	close(fd);
}

/* Neither another protocol at the door's port, nor its address as IPv6. */
static int gateway_address_otherwise(void)
{
	struct sockaddr_in at = at4(GATEWAY, 3128);
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(9997) };
	uint32_t be = htonl(GATEWAY);
	int u = socket(AF_INET, SOCK_DGRAM, 0), six = socket(AF_INET6, SOCK_STREAM, 0);

	mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&mapped.sin6_addr.s6_addr[12], &be, 4);
	if (sendto(u, "x", 1, 0, (struct sockaddr *)&at, sizeof(at)) >= 0 || errno != EPERM)
		return 7;
	if (bind(six, (struct sockaddr *)&mapped, sizeof(mapped)) == 0 || errno != EPERM)
		return 8;
	close(u);
	close(six);
	return 0;
}

static int gateway_address_gives_nothing(struct tunnel *x)
{
	(void)x;
	/* Its port on loopback is the job's own; on its address nothing can be bound. */
	if (listen_at(0x7f000001, 3128) < 0)
		return 1;
	if (listen_at(GATEWAY, 9999) >= 0)
		return 2;
	int w = listen_at(0, 9998);
	if (w < 0)
		return 3;
	if (listen_at(0, 3128) >= 0)
		return 4;
	if (try_connect(GATEWAY, 9998) != EPERM || try_send(GATEWAY, 3128) != EPERM)
		return 5;
	if (try_connect(0x7f000001, 3128) || try_connect(0x7f000001, 9998))
		return 6;
	return gateway_address_otherwise();
}

static void the_gateways_address_gives_a_job_nothing(void **state)
{
	(void)state;
	NEEDS_ROOT();
	open_door(UINT64_MAX);
	assert_int_equal(in_slot_with_door(t.slot, gateway_address_gives_nothing), 0);
	struct egress_slot s = shut_door();
	assert_int_equal(s.out.bytes + s.in.bytes, 0);
	assert_true(s.denied >= 2);
}

static int mapped_is_denied(void)
{
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(3128) };
	uint32_t be = htonl(GATEWAY);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&mapped.sin6_addr.s6_addr[12], &be, 4);
	return connect(fd, (struct sockaddr *)&mapped, sizeof(mapped)) < 0 && errno == EPERM ? 0 : 1;
}

static void mapped_addresses_obey_the_same_rule(void **state)
{
	(void)state;
	NEEDS_ROOT();
	assert_int_equal(in_room(t.slot, GATEWAY, mapped_is_denied), 0);
}

/* --- Counting */

enum { BULK = 8 << 20, EVENTS_FIT = 64 * 1024 / 16 };

static int carry_bulk(struct tunnel *x)
{
	return open_tunnel(x) < 0 ? 1 : exchange(x, BULK) < 0 ? 2 : 0;
}

static void packets_are_counted_as_they_are(void **state)
{
	(void)state;
	NEEDS_ROOT();
	open_door(UINT64_MAX - 1); /* a ceiling, if no near one: without one the slot alone counts */
	assert_int_equal(in_slot_with_door(t.slot, carry_bulk), 0);
	struct egress_slot s = shut_door();
	assert_true(s.out.bytes >= BULK);
	assert_true(s.out.bytes - BULK <= s.out.packets * 120);
	assert_true(s.in.bytes <= s.in.packets * 120); /* acknowledgements alone */
	assert_int_equal(egress_kernel_token_used(t.k, 1), s.out.bytes + s.in.bytes);
}

enum { LOST = 4000 };

/* Its acknowledgement does not come, for longer than TCP waits; then it does. */
static int send_twice(struct tunnel *x)
{
	static char buf[LOST];

	if (open_tunnel(x) < 0 || exchange(x, 1 << 20) < 0)
		return 1;
	if (system("nft 'add table ip t; add chain ip t c { type filter hook input priority 0; }; "
		   "add rule ip t c tcp sport 3128 drop'") != 0)
		return 2;
	if (send(x->inside, buf, sizeof(buf), MSG_NOSIGNAL) != sizeof(buf))
		return 3;
	usleep(600000);
	if (system("nft delete table ip t") != 0)
		return 4;
	return recv(x->outside, buf, sizeof(buf), MSG_WAITALL) == sizeof(buf) ? 0 : 5;
}

static void what_is_sent_again_is_told_apart(void **state)
{
	(void)state;
	NEEDS_ROOT();
	open_door(UINT64_MAX);
	assert_int_equal(in_slot_with_door(t.slot, send_twice), 0);
	struct egress_slot s = shut_door();
	assert_true(s.again >= LOST);
	/* The rest is what it was: one mebibyte, these bytes, and headers. */
	assert_true(s.out.bytes - s.again >= (1 << 20) + LOST);
	assert_true(s.out.bytes - s.again <= (1 << 20) + LOST + s.out.packets * EGRESS_HEADERS_MAX);
}

static void without_a_ceiling_the_slot_counts_and_the_token_is_told_later(void **state)
{
	(void)state;
	NEEDS_ROOT();
	open_door(EGRESS_NO_BUDGET);
	assert_int_equal(in_slot_with_door(t.slot, carry_bulk), 0);
	struct egress_slot s = shut_door();
	assert_true(s.out.bytes >= BULK);
	assert_int_equal(egress_kernel_token_used(t.k, 1), 0);
	egress_kernel_token_charge(t.k, 1, s.out.bytes + s.in.bytes);
	assert_int_equal(egress_kernel_token_used(t.k, 1), s.out.bytes + s.in.bytes);
}

static void a_child_cgroup_is_judged_as_its_slot(void **state)
{
	(void)state;
	NEEDS_ROOT();
	open_door(UINT64_MAX);
	assert_int_equal(in_slot_with_door(t.child, carry_bulk), 0);
	struct egress_slot s = shut_door();
	assert_true(s.out.bytes >= BULK);
}

/* --- The ceiling */

static int run_into_ceiling(struct tunnel *x)
{
	if (open_tunnel(x) < 0)
		return 1;
	if (exchange(x, BULK) == 0)
		return 2; /* it should have stalled */
	/* From here on a connect fails at once instead of hanging. */
	return try_connect(GATEWAY, 3128) == EPERM ? 0 : 3;
}

/* Not even a SYN passes. */
static int run_into_wall(struct tunnel *x)
{
	struct sockaddr_in a = at4(GATEWAY, 3128);
	struct pollfd p = { .events = POLLOUT };

	(void)x;
	p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect(p.fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return 1;
	/* At once, where a packet of an earlier test's socket has met the budget before. */
	return errno != EPERM && (errno != EINPROGRESS || poll(&p, 1, 100) != 0);
}

static uint64_t over_id;
static int times_over;

static void note_over(void *ctx, uint64_t id)
{
	(void)ctx;
	over_id = id;
	times_over++;
}

static void the_ceiling_is_never_overshot_and_said_once(void **state)
{
	enum { CEILING = 1 << 20 };

	(void)state;
	NEEDS_ROOT();
	open_door(CEILING);
	assert_int_equal(in_slot_with_door(t.slot, run_into_ceiling), 0);
	struct egress_slot s = shut_door();
	assert_true(egress_kernel_token_used(t.k, 1) <= CEILING);
	assert_true(s.out.bytes + s.in.bytes > CEILING / 2);
	assert_int_equal(s.is_over, 1);
	over_id = 0, times_over = 0;
	egress_kernel_events_read(t.k, note_over, NULL);
	assert_int_equal(over_id, t.id);
	assert_int_equal(times_over, 1);
}

/* One refused SYN an event: more than the ring holds, with nobody reading. */
static int many_events(struct tunnel *x)
{
	struct sockaddr_in a = at4(GATEWAY, 3128);
	struct egress_slot s;
	struct err e;

	(void)x;
	for (int i = 0; i < EVENTS_FIT + 50; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
			return 1;
		close(fd);
		if (egress_kernel_slot_take(t.k, t.id, &s, &e) < 0 ||
		    egress_kernel_slot_add(t.k, t.id, 1, GATEWAY, ports, &e) < 0)
			return 2;
		if (!s.is_over || s.out.bytes)
			return 3; /* whatever became of the event: nothing has passed */
		if (s.lost ? s.is_told || i < EVENTS_FIT / 2 : !s.is_told)
			return 4;
		if (i == EVENTS_FIT + 49 && !s.lost)
			return 5;
	}
	return 0;
}

static int events_read;

static void count_over(void *ctx, uint64_t id)
{
	(void)ctx, (void)id;
	events_read++;
}

static void a_full_ring_is_counted_and_nothing_passes(void **state)
{
	(void)state;
	NEEDS_ROOT();
	open_door(10); /* less than a SYN, more than nothing: connect is let try */
	assert_int_equal(in_slot_with_door(t.slot, many_events), 0);
	shut_door();
	egress_kernel_events_read(t.k, count_over, NULL);
	assert_in_range(events_read, EVENTS_FIT / 2, EVENTS_FIT);
	/* The control: with room in the ring the news is told again. */
	open_door(10);
	assert_int_equal(in_slot_with_door(t.slot, run_into_wall), 0);
	struct egress_slot s = shut_door();
	assert_true(s.is_told && !s.lost);
	events_read = 0;
	egress_kernel_events_read(t.k, count_over, NULL);
	assert_int_equal(events_read, 1);
}

static void a_full_map_opens_no_door_and_shuts_none(void **state)
{
	struct egress_slot s;
	struct err e = { 0 };
	uint64_t n = 0;
	int rc = 0;

	(void)state;
	NEEDS_ROOT();
	open_door(UINT64_MAX);
	while (n <= EGRESS_SLOTS_MAX &&
	       (rc = egress_kernel_slot_add(t.k, UINT64_MAX - n, 1, GATEWAY, ports, &e)) == 0)
		n++;
	assert_int_equal(rc, -E2BIG);
	assert_int_equal(n, EGRESS_SLOTS_MAX - 1);
	assert_non_null(strstr(e.msg, "slot's door"));
	assert_int_equal(in_slot_with_door(t.slot, carry_bulk), 0); /* no entry was given up for another */
	while (n-- > 0)
		assert_int_equal(egress_kernel_slot_take(t.k, UINT64_MAX - n, &s, &e), 0);
	assert_true(shut_door().out.bytes >= BULK);
}

static void a_token_counts_beyond_32_bits_and_stops_at_the_end_of_64(void **state)
{
	(void)state;
	NEEDS_ROOT();
	open_door(UINT64_MAX);
	egress_kernel_token_set(t.k, 1, UINT64_MAX - 1, UINT32_MAX - 1000);
	assert_int_equal(in_slot_with_door(t.slot, carry_bulk), 0);
	assert_true(egress_kernel_token_used(t.k, 1) > UINT32_MAX + (uint64_t)BULK - 1000);
	shut_door();
	/* Nothing wraps round to a fresh budget. */
	open_door(UINT64_MAX - 1);
	egress_kernel_token_set(t.k, 1, UINT64_MAX - 1, UINT64_MAX - 30);
	assert_int_equal(in_slot_with_door(t.slot, run_into_wall), 0);
	assert_int_equal(shut_door().out.bytes, 0);
}

static int destroyed_promptly(struct tunnel *x)
{
	struct pollfd p = { .events = POLLIN };
	struct err e;
	int code = 0;
	socklen_t len = sizeof(code);

	if (open_tunnel(x) < 0)
		return 1;
	if (egress_network_destroy(GATEWAY, ports, &e) < 2) /* both ends lie here */
		return 2;
	p.fd = x->inside;
	if (poll(&p, 1, 100) != 1)
		return 3;
	getsockopt(x->inside, SOL_SOCKET, SO_ERROR, &code, &len);
	/* The other end, which lies here too, may have gone first and said so. */
	if (code != ECONNABORTED && code != ECONNRESET)
		return 4;
	return listen_at(0x7f000001, 7000) < 0 || try_connect(0x7f000001, 7000) ? 5 : 0;
}

static void open_connections_end_with_an_error_at_once(void **state)
{
	(void)state;
	NEEDS_ROOT();
	open_door(UINT64_MAX);
	assert_int_equal(in_slot_with_door(t.slot, destroyed_promptly), 0);
	shut_door();
}

/* --- Pins */

static int still_denied(void)
{
	return try_connect(0xcb007101, 443) == EPERM ? 0 : 1;
}

static int reaches_out(void)
{
	return try_connect(0xcb007101, 443) == ENETUNREACH ? 0 : 1;
}

static void enforcement_outlives_its_loader(void **state)
{
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT();
	egress_kernel_free(t.k);
	t.k = NULL;
	assert_int_equal(in_room(t.slot, 0, still_denied), 0);
	/* The control: with the pins gone the guard is; the kernel takes a moment to let go. */
	assert_int_equal(egress_kernel_unpin(t.pins, &e), 0);
	for (int i = 0; i < 100 && in_room(t.slot, 0, reaches_out) != 0; i++)
		usleep(10000);
	assert_int_equal(in_room(t.slot, 0, reaches_out), 0);
	assert_int_equal(egress_kernel_open(t.jobs_fd, t.pins, &t.k, &e), 0);
	assert_int_equal(in_room(t.slot, 0, still_denied), 0);
}

static void a_second_loader_takes_over(void **state)
{
	struct egress_kernel *other = NULL;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT();
	assert_int_equal(egress_kernel_open(t.jobs_fd, t.pins, &other, &e), 0);
	egress_kernel_free(t.k);
	t.k = other;
	assert_int_equal(in_room(t.slot, 0, still_denied), 0);
}

/* A program of somebody else, attached to @dir with @flags. Gives its descriptor. */
static int attach_foreign(int dirfd, unsigned flags)
{
	const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = BPF_CGROUP_INET_EGRESS);
	int fd = bpf_prog_load(BPF_PROG_TYPE_CGROUP_SKB, "foreign", "GPL", pass, 2, &opts);

	assert_true(fd >= 0);
	assert_int_equal(bpf_prog_attach(fd, dirfd, BPF_CGROUP_INET_EGRESS, flags), 0);
	return fd;
}

static void a_foreign_program_stays_beside_ours(void **state)
{
	struct egress_kernel *other = NULL;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT();
	int foreign = attach_foreign(t.jobs_fd, BPF_F_ALLOW_MULTI);
	assert_int_equal(egress_kernel_open(t.jobs_fd, t.pins, &other, &e), 0);
	egress_kernel_free(t.k);
	t.k = other;
	assert_int_equal(in_room(t.slot, 0, still_denied), 0);
	/* It is there still, and goes without taking ours along. */
	assert_int_equal(bpf_prog_detach2(foreign, t.jobs_fd, BPF_CGROUP_INET_EGRESS), 0);
	close(foreign);
	assert_int_equal(in_room(t.slot, 0, still_denied), 0);
}

static void an_exclusive_foreign_program_is_an_error_and_no_guard_is_left(void **state)
{
	char dir[300], jobs[320], pins[96];
	struct egress_kernel *other = NULL;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT();
	snprintf(dir, sizeof(dir), "%s-foreign", t.cgroup);
	snprintf(jobs, sizeof(jobs), "%s/jobs", dir);
	snprintf(pins, sizeof(pins), "%s/foreign", t.pins);
	assert_int_equal(mkdir(dir, 0755) | mkdir(jobs, 0755) | mkdir(pins, 0700), 0);
	int top = open(dir, O_RDONLY | O_DIRECTORY), below = open(jobs, O_RDONLY | O_DIRECTORY);
	int foreign = attach_foreign(top, 0);
	int rc = egress_kernel_open(below, pins, &other, &e);
	bpf_prog_detach2(foreign, top, BPF_CGROUP_INET_EGRESS);
	close(foreign);
	close(top);
	close(below);
	rmdir(jobs);
	rmdir(dir);
	assert_int_equal(rc, -EPERM);
	assert_non_null(strstr(e.msg, "foreign program"));
	assert_int_equal(rmdir(pins), 0); /* nothing was left pinned */
}

static void a_slot_has_one_entry(void **state)
{
	struct err e = { 0 };
	struct egress_slot s;

	(void)state;
	NEEDS_ROOT();
	open_door(1);
	assert_int_equal(egress_kernel_slot_add(t.k, t.id, 1, GATEWAY, ports, &e), -EEXIST);
	shut_door();
	assert_int_equal(egress_kernel_slot_take(t.k, t.id, &s, &e), -ENOENT);
	assert_int_equal(egress_kernel_slot_add(t.k, t.id, 0, GATEWAY, ports, &e), -ERANGE);
}

/* --- The second ring */

static int ring_holds(void)
{
	if (try_connect(0x0a000001, 80) != EPERM || try_connect(0x7f000001, 80) != EPERM ||
	    try_connect(0xa9fea9fe, 80) != EPERM || try_connect(GATEWAY, 3128) != EPERM)
		return 1;
	if (try_connect(0xcb007105, 80) != EPERM) /* a configured range */
		return 2;
	if (try_connect(0xcb007205, 80) != ENETUNREACH) /* public: the ring lets it go */
		return 3;
	if (try_connect(0x0a000035, 53) != ENETUNREACH || try_connect(0x0a000035, 54) != EPERM)
		return 4; /* the resolver, its port alone */
	if (try_connect(0x0a000909, 8080) != ENETUNREACH)
		return 5; /* an exception, any port */
	static const char *const bad[] = { "::1", "fd00::1", "64:ff9b::7f00:1", "::ffff:10.0.0.1",
					   "2002:a00:1::", "fe80::1" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (try6(bad[i], SOCK_STREAM) != EPERM || try6(bad[i], SOCK_DGRAM) != EPERM)
			return 10 + (int)i;
	if (try_send(0x0a000001, 80) != EPERM || try_send(0x0a000035, 54) != EPERM)
		return 7;
	return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0 ? 6 : 0;
}

static void the_second_ring_holds_the_gateway(void **state)
{
	struct address_rules rules = { .nexempt = 1, .nranges = 1 };
	struct address resolver;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT();
	assert_true(address_parse("10.0.0.53", 9, &resolver));
	assert_true(address_parse("10.0.9.9", 8, &rules.exempt[0]));
	assert_true(address_parse_range("203.0.113.0/24", 14, &rules.ranges[0]));
	assert_int_equal(egress_kernel_open_ring(t.k, t.gateway_fd, t.pins, &resolver, 1, 53, &rules,
						 &e), 0);
	assert_int_equal(in_room(t.gateway, 0, ring_holds), 0);
	assert_true(egress_kernel_ring_denied(t.k) >= 10);
	/* The control: the same outside the gateway's cgroup is no EPERM. */
	assert_int_equal(in_room(NULL, 0, ring_holds), 1);
}

/* --- The network */

static int is_internal(void)
{
	struct err e = { 0 };

	return egress_network_assert_internal(GATEWAY, &e) == 0 ? 0 : 1;
}

static int is_empty(void)
{
	struct err e = { 0 };

	return egress_network_assert_internal(0, &e) == 0 ? 0 : 1;
}

static int refused_with(const char *command)
{
	struct err e = { 0 };

	if (system(command) != 0)
		return 2;
	return egress_network_assert_internal(GATEWAY, &e) == -EXDEV ? 0 : 1;
}

static int extra_link(void)
{
	return refused_with("ip link add v0 type veth peer name v1");
}

static int extra_veth(void)
{
	return refused_with("ip link add v0 type veth peer name v1 && ip link set v0 up");
}

static int extra_address(void)
{
	return refused_with("ip addr add 192.0.2.1/32 dev lo");
}

static int extra_address6(void)
{
	return refused_with("ip addr add 2001:db8::1/128 dev lo");
}

static int extra_route(void)
{
	return refused_with("ip route add 203.0.113.0/24 dev lo");
}

static int extra_default(void)
{
	return refused_with("ip route add default dev lo");
}

static int wide_gateway(void)
{
	return refused_with("ip addr add 100.64.0.1/10 dev lo");
}

static int lo_down(void)
{
	return refused_with("ip link set lo down");
}

static void a_network_is_internal_or_refused(void **state)
{
	(void)state;
	NEEDS_ROOT();
	assert_int_equal(in_room(NULL, GATEWAY, is_internal), 0);
	assert_int_equal(in_room(NULL, 0, is_empty), 0);
	assert_int_equal(in_room(NULL, GATEWAY, is_empty), 1);
	assert_int_equal(in_room(NULL, 0, is_internal), 1);
	assert_int_equal(in_room(NULL, GATEWAY, extra_link), 0);
	assert_int_equal(in_room(NULL, GATEWAY, extra_veth), 0);
	assert_int_equal(in_room(NULL, GATEWAY, extra_address), 0);
	assert_int_equal(in_room(NULL, GATEWAY, extra_address6), 0);
	assert_int_equal(in_room(NULL, GATEWAY, extra_route), 0);
	assert_int_equal(in_room(NULL, GATEWAY, extra_default), 0);
	assert_int_equal(in_room(NULL, GATEWAY, wide_gateway), 0);
	assert_int_equal(in_room(NULL, GATEWAY, lo_down), 0);
}

static int nft_holds(struct tunnel *x)
{
	struct err e = { 0 };

	if (egress_nft_load(GATEWAY, ports, &e) < 0) {
		print_error("%s\n", e.msg);
		return 1;
	}
	if (loopback_works())
		return 2;
	if (open_tunnel(x) < 0 || exchange(x, 1 << 20) < 0)
		return 3;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in a = at4(GATEWAY, 3128);
	if (sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)) >= 0)
		return 4;
	return system("nft list counters | grep -A2 'counter denied' | grep -q 'packets [1-9]'") ? 5
												 : 0;
}

static int nft_room(void)
{
	struct tunnel x = { .listener = listen_at(GATEWAY, 3128) };

	return nft_holds(&x);
}

static void the_second_line_loads_and_counts(void **state)
{
	(void)state;
	NEEDS_ROOT();
	assert_int_equal(in_room(NULL, GATEWAY, nft_room), 0);
}

static int enters_and_leaves(void)
{
	int ready[2], go[2];
	char c;
	struct err e = { 0 };

	if (pipe(ready) < 0 || pipe(go) < 0)
		return 1;
	pid_t pid = fork();
	if (pid == 0) {
		unshare(CLONE_NEWNET);
		lo_up(GATEWAY);
		if (write(ready[1], "x", 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(1);
		_exit(try_connect(GATEWAY, 3128));
	}
	if (read(ready[0], &c, 1) != 1)
		return 2;
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), status;
	int home = egress_network_enter(pidfd, &e);
	if (home < 0)
		return 3;
	int door = egress_network_listen(GATEWAY, 3128, &e);
	if (egress_network_leave(home, &e) < 0 || door < 0)
		return 4;
	if (listen_at(GATEWAY, 3128) >= 0) /* no such address at home */
		return 5;
	if (write(go[1], "x", 1) != 1 || waitpid(pid, &status, 0) != pid)
		return 6;
	return status;
}

static void the_door_lies_inside_and_its_holder_outside(void **state)
{
	(void)state;
	NEEDS_ROOT();
	assert_int_equal(in_room(NULL, 0, enters_and_leaves), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback_is_free_in_every_tier),
		cmocka_unit_test(without_an_entry_nothing_but_loopback_is_reached),
		cmocka_unit_test(only_tcp_and_udp_sockets_can_be_made),
		cmocka_unit_test(the_gateways_address_gives_a_job_nothing),
		cmocka_unit_test(mapped_addresses_obey_the_same_rule),
		cmocka_unit_test(packets_are_counted_as_they_are),
		cmocka_unit_test(what_is_sent_again_is_told_apart),
		cmocka_unit_test(without_a_ceiling_the_slot_counts_and_the_token_is_told_later),
		cmocka_unit_test(a_child_cgroup_is_judged_as_its_slot),
		cmocka_unit_test(the_ceiling_is_never_overshot_and_said_once),
		cmocka_unit_test(a_full_ring_is_counted_and_nothing_passes),
		cmocka_unit_test(a_full_map_opens_no_door_and_shuts_none),
		cmocka_unit_test(a_token_counts_beyond_32_bits_and_stops_at_the_end_of_64),
		cmocka_unit_test(open_connections_end_with_an_error_at_once),
		cmocka_unit_test(enforcement_outlives_its_loader),
		cmocka_unit_test(a_second_loader_takes_over),
		cmocka_unit_test(a_foreign_program_stays_beside_ours),
		cmocka_unit_test(an_exclusive_foreign_program_is_an_error_and_no_guard_is_left),
		cmocka_unit_test(a_slot_has_one_entry),
		cmocka_unit_test(the_second_ring_holds_the_gateway),
		cmocka_unit_test(a_network_is_internal_or_refused),
		cmocka_unit_test(the_second_line_loads_and_counts),
		cmocka_unit_test(the_door_lies_inside_and_its_holder_outside),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("worker_egress", tests, setup, teardown);
}
