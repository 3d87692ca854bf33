/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread, one socket pair: numbers in, descriptors of this same process
 * out. Decides nothing.
 */
#include "opener.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct question {
	uint64_t view;
	int root; /* the thread's to close */
};

static int open_view(const struct question *q)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	char name[32];

	snprintf(name, sizeof(name), "v%llu", (unsigned long long)q->view);
	return (int)syscall(SYS_openat2, q->root, name, &how, sizeof(how));
}

static void *run(void *arg)
{
	struct opener *o = arg;
	struct question q;

	while (recv(o->theirs, &q, sizeof(q), 0) == sizeof(q)) {
		struct opener_answer a = { .view = q.view, .fd = open_view(&q) };
		a.error = a.fd < 0 ? errno : 0;
		close(q.root);
		if (send(o->theirs, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
			break;
	}
	return NULL;
}

int opener_start(struct opener *o, struct err *e)
{
	int pair[2];
	pthread_t thread;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, errno, "opener: %s", strerror(errno));
	o->fd = pair[0];
	o->theirs = pair[1];
	int rc = pthread_create(&thread, NULL, run, o);
	return rc == 0 ? 0 : err_set(e, rc, "opener: %s", strerror(rc));
}

int opener_ask(struct opener *o, int root, uint64_t view, struct err *e)
{
	struct question q = { .view = view, .root = fcntl(root, F_DUPFD_CLOEXEC, 3) };

	if (q.root < 0)
		return err_set(e, errno, "opener: %s", strerror(errno));
	if (send(o->fd, &q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(q))
		return 0;
	int saved = errno;
	close(q.root);
	return err_set(e, saved, "opener: %s", strerror(saved));
}

int opener_answer(struct opener *o, struct opener_answer *ret)
{
	return recv(o->fd, ret, sizeof(*ret), MSG_DONTWAIT) == sizeof(*ret);
}
