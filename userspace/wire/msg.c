/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message layer: packets in and out, and the permission table that stands
 * before every handler. Does not know any message's meaning.
 */
#include "wire/msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/scope.h"

union control {
	char buf[CMSG_SPACE(sizeof(int) * MSG_FDS_MAX)];
	struct cmsghdr align;
};

int msg_pair(int ret_fds[2], struct err *e)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0)
		return err_set(e, errno, "socketpair: %s", strerror(errno));
	return 0;
}

int msg_send(int fd, uint16_t type, const void *body, size_t len, const int *fds, unsigned nfds,
	     struct err *e)
{
	struct msg_header h = { .version = MSG_VERSION, .type = type, .len = (uint32_t)len };
	struct iovec iov[2] = {
		{ .iov_base = &h, .iov_len = sizeof(h) },
		{ .iov_base = (void *)(uintptr_t)body, .iov_len = len },
	};
	union control control;
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = len ? 2 : 1 };

	if (len > MSG_BODY_MAX || nfds > MSG_FDS_MAX)
		return err_set(e, EMSGSIZE, "message %u of %zu bytes, %u descriptors", type, len,
			       nfds);
	if (nfds) {
		memset(&control, 0, sizeof(control));
		mh.msg_control = control.buf;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
	}
	for (;;) {
		if (sendmsg(fd, &mh, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return err_set(e, errno, "send message %u: %s", type, strerror(errno));
	}
}

static void take_control(struct msghdr *mh, struct msg *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n && m->nfds < MSG_FDS_MAX; i++)
			memcpy(&m->fds[m->nfds++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
}

/* Where one packet goes, and what the kernel says of it. */
struct slot {
	struct msg_header h;
	struct iovec iov[2];
	union control control;
};

static void prepare(struct slot *s, struct msg *m, struct msghdr *mh)
{
	s->iov[0] = (struct iovec){ &s->h, sizeof(s->h) };
	s->iov[1] = (struct iovec){ m->body, sizeof(m->body) };
	*mh = (struct msghdr){
		.msg_iov = s->iov,
		.msg_iovlen = 2,
		.msg_control = s->control.buf,
		.msg_controllen = sizeof(s->control.buf),
	};
	m->nfds = 0;
}

/* A packet of @n bytes came. False: malformed; then it keeps no descriptor. */
static bool accept_packet(const struct slot *s, struct msghdr *mh, size_t n, struct msg *m)
{
	take_control(mh, m);
	if (n < sizeof(s->h) || (mh->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    s->h.version != MSG_VERSION || s->h.len != n - sizeof(s->h)) {
		msg_close_fds(m);
		return false;
	}
	m->type = s->h.type;
	m->len = s->h.len;
	return true;
}

int msg_recv(int fd, struct msg *m, struct err *e)
{
	struct slot s;
	struct msghdr mh;
	ssize_t n;

	prepare(&s, m, &mh);
	do {
		n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == ECONNRESET)
		return 0;
	if (n < 0)
		return err_set(e, errno, "receive: %s", strerror(errno));
	if (!accept_packet(&s, &mh, (size_t)n, m))
		return n == 0 ? 0 : err_set(e, EPROTO, "malformed message of %zd bytes", n);
	return 1;
}

int msg_recv_many(int fd, struct msg *m, unsigned max, struct err *e)
{
	struct slot s[MSG_MANY];
	struct mmsghdr mh[MSG_MANY];
	int n, taken;

	if (max > MSG_MANY)
		max = MSG_MANY;
	for (unsigned i = 0; i < max; i++)
		prepare(&s[i], &m[i], &mh[i].msg_hdr);
	do {
		n = recvmmsg(fd, mh, max, MSG_CMSG_CLOEXEC | MSG_DONTWAIT, NULL);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == ECONNRESET)
		return 0;
	if (n < 0)
		return err_set(e, errno, "receive: %s", strerror(errno));
	taken = n;
	for (int i = n - 1; i >= 0; i--) {
		if (!accept_packet(&s[i], &mh[i].msg_hdr, mh[i].msg_len, &m[i]))
			m[i].type = MSG_MALFORMED;
		if (mh[i].msg_len == 0)
			taken = i; /* gone: so says every slot from here on */
	}
	for (int i = taken; i < n; i++)
		msg_close_fds(&m[i]);
	return taken;
}

void msg_close_fds(struct msg *m)
{
	for (unsigned i = 0; i < m->nfds; i++)
		if (m->fds[i] >= 0)
			close(m->fds[i]);
	m->nfds = 0;
}

int msg_take_fd(struct msg *m, unsigned i)
{
	return i < m->nfds ? take_fd(&m->fds[i]) : -1;
}

int msg_dispatch(const struct msg_permit *table, size_t n, uint32_t state, void *ctx,
		 struct msg *m, struct err *e)
{
	const struct msg_permit *p = table;
	int rc;

	while (p < table + n && p->type != m->type)
		p++;
	if (p == table + n)
		rc = m->type == MSG_MALFORMED ? err_set(e, EPROTO, "malformed message") :
						err_set(e, EPROTO, "unknown message type %u", m->type);
	else if (!(p->states & state))
		rc = err_set(e, EPROTO, "message type %u out of state", m->type);
	else if (m->len < p->len_min || m->len > p->len_max)
		rc = err_set(e, EPROTO, "message type %u of %u bytes", m->type, m->len);
	else if (m->nfds < p->nfds_min || m->nfds > p->nfds_max)
		rc = err_set(e, EPROTO, "message type %u with %u descriptors", m->type, m->nfds);
	else
		rc = p->handler(ctx, m, e);
	msg_close_fds(m);
	return rc;
}
