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

int msg_recv(int fd, struct msg *m, struct err *e)
{
	struct msg_header h;
	struct iovec iov[2] = {
		{ .iov_base = &h, .iov_len = sizeof(h) },
		{ .iov_base = m->body, .iov_len = sizeof(m->body) },
	};
	union control control;
	struct msghdr mh = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t n;

	m->nfds = 0;
	do {
		n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == ECONNRESET)
		return 0;
	if (n < 0)
		return err_set(e, errno, "receive: %s", strerror(errno));
	take_control(&mh, m);
	if (n == 0) {
		msg_close_fds(m);
		return 0;
	}
	if (n < (ssize_t)sizeof(h) || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    h.version != MSG_VERSION || h.len != (size_t)n - sizeof(h)) {
		msg_close_fds(m);
		return err_set(e, EPROTO, "malformed message of %zd bytes", n);
	}
	m->type = h.type;
	m->len = h.len;
	return 1;
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
		rc = err_set(e, EPROTO, "unknown message type %u", m->type);
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
