/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: what is sent arrives, what is malformed is refused and its descriptors closed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "wire/msg.h"

static int pair[2];
static struct msg m;

static int start(void **s)
{
	struct err e;

	(void)s;
	return msg_pair(pair, &e);
}

static int stop(void **s)
{
	(void)s;
	close(pair[0]);
	close(pair[1]);
	return 0;
}

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void a_message_arrives_whole_with_its_descriptors(void **s)
{
	int fds[MSG_FDS_MAX];
	struct err e;
	static uint8_t body[MSG_BODY_MAX];

	(void)s;
	for (int i = 0; i < MSG_FDS_MAX; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	memset(body, 0x5a, sizeof(body));
	assert_int_equal(msg_send(pair[0], 7, body, sizeof(body), fds, MSG_FDS_MAX, &e), 0);
	assert_int_equal(msg_recv(pair[1], &m, &e), 1);
	assert_int_equal(m.type, 7);
	assert_int_equal(m.len, sizeof(body));
	assert_memory_equal(m.body, body, sizeof(body));
	assert_int_equal(m.nfds, MSG_FDS_MAX);
	int mine = msg_take_fd(&m, 3);
	assert_true(mine >= 0 && (fcntl(mine, F_GETFD) & FD_CLOEXEC));
	assert_int_equal(msg_take_fd(&m, 3), -1); /* ownership leaves once */
	assert_int_equal(msg_take_fd(&m, MSG_FDS_MAX), -1);
	int before = open_fds();
	msg_close_fds(&m);
	assert_int_equal(open_fds(), before - (MSG_FDS_MAX - 1));
	close(mine);
	for (int i = 0; i < MSG_FDS_MAX; i++)
		close(fds[i]);
}

static void an_empty_message_and_an_end_are_told_apart(void **s)
{
	struct err e;

	(void)s;
	assert_int_equal(msg_send(pair[0], 9, NULL, 0, NULL, 0, &e), 0);
	assert_int_equal(msg_recv(pair[1], &m, &e), 1);
	assert_int_equal(m.type, 9);
	assert_int_equal(m.len, 0);
	shutdown(pair[0], SHUT_WR);
	assert_int_equal(msg_recv(pair[1], &m, &e), 0);
	close(pair[0]);
	pair[0] = -1;
	assert_int_equal(msg_send(pair[1], 9, NULL, 0, NULL, 0, &e), -EPIPE); /* no signal either */
}

static void what_is_too_big_is_not_sent(void **s)
{
	static uint8_t body[MSG_BODY_MAX + 1];
	int fds[MSG_FDS_MAX + 1] = { 0 };
	struct err e;

	(void)s;
	assert_int_equal(msg_send(pair[0], 1, body, sizeof(body), NULL, 0, &e), -EMSGSIZE);
	assert_int_equal(msg_send(pair[0], 1, body, 1, fds, MSG_FDS_MAX + 1, &e), -EMSGSIZE);
}

static void send_raw(const void *buf, size_t len, int nfds)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * 32)];
		struct cmsghdr align;
	} c = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[32] = { 0 };

	if (nfds) {
		mh.msg_control = c.buf;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
		struct cmsghdr *h = CMSG_FIRSTHDR(&mh);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
		memcpy(CMSG_DATA(h), fds, sizeof(int) * (size_t)nfds);
	}
	assert_int_equal(sendmsg(pair[0], &mh, 0), len);
}

static void a_malformed_packet_is_refused_and_leaks_nothing(void **s)
{
	static uint8_t huge[sizeof(struct msg_header) + MSG_BODY_MAX + 1];
	struct msg_header rows[] = {
		{ .version = MSG_VERSION + 1, .type = 1, .len = 0 },
		{ .version = 0, .type = 1, .len = 0 },
		{ .version = MSG_VERSION, .type = 1, .len = 1 },
		{ .version = MSG_VERSION, .type = 1, .len = UINT32_MAX },
	};
	struct err e;
	int before = open_fds();

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		send_raw(&rows[i], sizeof(rows[i]), 2);
		assert_int_equal(msg_recv(pair[1], &m, &e), -EPROTO);
	}
	send_raw(&rows[0], 3, 1); /* not even a header */
	assert_int_equal(msg_recv(pair[1], &m, &e), -EPROTO);
	struct msg_header h = { .version = MSG_VERSION, .type = 1, .len = MSG_BODY_MAX + 1 };
	memcpy(huge, &h, sizeof(h));
	send_raw(huge, sizeof(huge), 1);
	assert_int_equal(msg_recv(pair[1], &m, &e), -EPROTO);
	h.len = 0;
	send_raw(&h, sizeof(h), 20); /* more descriptors than there is room for */
	assert_int_equal(msg_recv(pair[1], &m, &e), -EPROTO);
	assert_int_equal(open_fds(), before);
}

static int handled;

static int handler(void *ctx, struct msg *msg, struct err *e)
{
	(void)e;
	(void)msg;
	handled++;
	return *(int *)ctx;
}

static void only_permitted_messages_reach_a_handler(void **s)
{
	static const struct msg_permit table[] = {
		{ .type = 1, .states = 1u << 0, .len_min = 4, .len_max = 8, .nfds_min = 1, .nfds_max = 1, .handler = handler },
		{ .type = 2, .states = 1u << 1 | 1u << 2, .len_min = 0, .len_max = 0, .handler = handler },
	};
	static const struct {
		uint16_t type;
		uint32_t len, state, nfds;
		bool permitted;
	} rows[] = {
		{ 1, 4, 1, 1, true },  { 1, 8, 1, 1, true },  { 1, 3, 1, 1, false }, { 1, 9, 1, 1, false },
		{ 1, 4, 2, 1, false }, { 1, 4, 1, 0, false }, { 1, 4, 1, 2, false }, { 2, 0, 2, 0, true },
		{ 2, 0, 4, 0, true },  { 2, 0, 1, 0, false }, { 2, 0, 0, 0, false }, { 3, 0, 1, 0, false },
		{ 0, 0, 7, 0, false },
	};
	int answer = 5;

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err e = { 0 };
		int before = open_fds();
		m.type = rows[i].type;
		m.len = rows[i].len;
		m.nfds = rows[i].nfds;
		for (unsigned f = 0; f < m.nfds; f++)
			m.fds[f] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		handled = 0;
		int rc = msg_dispatch(table, ARRAY_SIZE(table), rows[i].state, &answer, &m, &e);
		assert_int_equal(rc, rows[i].permitted ? 5 : -EPROTO);
		assert_int_equal(handled, rows[i].permitted);
		assert_int_equal(open_fds(), before); /* what nobody took is closed */
	}
}

static struct msg many[MSG_MANY];

static void what_is_there_is_received_together_in_its_order(void **s)
{
	static uint8_t body[MSG_BODY_MAX];
	struct err e;

	(void)s;
	assert_int_equal(msg_recv_many(pair[1], many, MSG_MANY, &e), -EAGAIN); /* never waits */
	for (uint16_t i = 0; i < MSG_MANY + 5; i++) {
		memset(body, i, sizeof(body));
		assert_int_equal(msg_send(pair[0], i + 1, body, i * 7u, NULL, 0, &e), 0);
	}
	for (uint16_t at = 0; at < MSG_MANY + 5;) {
		int want = at ? 5 : MSG_MANY;
		assert_int_equal(msg_recv_many(pair[1], many, at ? MSG_MANY : 1000, &e), want);
		for (int i = 0; i < want; i++, at++) {
			memset(body, at, sizeof(body));
			assert_int_equal(many[i].type, at + 1);
			assert_int_equal(many[i].len, at * 7);
			assert_int_equal(many[i].nfds, 0);
			assert_memory_equal(many[i].body, body, many[i].len);
		}
	}
	assert_int_equal(msg_send(pair[0], 1, body, sizeof(body), NULL, 0, &e), 0);
	assert_int_equal(msg_send(pair[0], 2, body, sizeof(body), NULL, 0, &e), 0);
	assert_int_equal(msg_recv_many(pair[1], many, 1, &e), 1); /* no more than asked for */
	assert_int_equal(many[0].len, sizeof(body));
	assert_int_equal(msg_recv_many(pair[1], many, 1, &e), 1);
	assert_int_equal(many[0].type, 2);
}

static void a_malformed_packet_among_many_is_refused_and_leaks_nothing(void **s)
{
	static const struct msg_permit table[] = {
		{ .type = 1, .states = 1, .nfds_max = 2, .handler = handler },
	};
	struct msg_header good = { .version = MSG_VERSION, .type = 1 };
	struct msg_header bad = { .version = MSG_VERSION, .type = 1, .len = 1 };
	int before = open_fds(), answer = 5;
	struct err e;

	(void)s;
	send_raw(&good, sizeof(good), 2);
	send_raw(&bad, sizeof(bad), 2);
	send_raw(&good, sizeof(good), 20); /* more descriptors than there is room for */
	send_raw(&good, sizeof(good), 1);
	assert_int_equal(msg_recv_many(pair[1], many, MSG_MANY, &e), 4);
	for (int i = 0; i < 4; i++) {
		bool is_good = i == 0 || i == 3;
		assert_int_equal(many[i].type, is_good ? 1 : MSG_MALFORMED);
		assert_int_equal(msg_dispatch(table, 1, 1, &answer, &many[i], &e), is_good ? 5 : -EPROTO);
	}
	assert_int_equal(open_fds(), before);
}

static void an_end_behind_messages_is_told_when_they_were_taken(void **s)
{
	int before = open_fds();
	struct err e;

	(void)s;
	send_raw(&(struct msg_header){ .version = MSG_VERSION, .type = 4 }, 8, 0);
	send_raw("", 0, 2); /* no bytes: what an end looks like */
	send_raw(&(struct msg_header){ .version = MSG_VERSION, .type = 5 }, 8, 2);
	shutdown(pair[0], SHUT_WR);
	assert_int_equal(msg_recv_many(pair[1], many, MSG_MANY, &e), 1);
	assert_int_equal(many[0].type, 4);
	assert_int_equal(msg_recv_many(pair[1], many, MSG_MANY, &e), 0);
	assert_int_equal(open_fds(), before);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
	static const struct CMUnitTest tests[] = {
		T(a_message_arrives_whole_with_its_descriptors),
		T(an_empty_message_and_an_end_are_told_apart),
		T(what_is_too_big_is_not_sent),
		T(a_malformed_packet_is_refused_and_leaks_nothing),
		T(only_permitted_messages_reach_a_handler),
		T(what_is_there_is_received_together_in_its_order),
		T(a_malformed_packet_among_many_is_refused_and_leaks_nothing),
		T(an_end_behind_messages_is_told_when_they_were_taken),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
