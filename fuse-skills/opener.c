/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread, one socket pair: a root and a number in, a handle out. Decides
 * nothing.
 */
#include "opener.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/scope.h"
#include "wire/msg.h"

enum { ASK = 1, ANSWER };

struct question {
	uint64_t view;
};

struct answer {
	uint64_t view;
	int32_t error;
	uint32_t pad;
};

static int open_view(int root, uint64_t view)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	char name[32];

	snprintf(name, sizeof(name), "v%llu", (unsigned long long)view);
	errno = fault_hit("skills.open");
	return errno ? -1 : (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
}

static int answer_one(int fd, struct msg *m, struct err *e)
{
	struct question q;

	memcpy(&q, m->body, sizeof(q));
	autoclose int root = msg_take_fd(m, 0);
	autoclose int view = open_view(root, q.view);
	struct answer a = { .view = q.view, .error = view < 0 ? errno : 0 };
	return msg_send(fd, ANSWER, &a, sizeof(a), &view, view >= 0, e);
}

static void *run(void *arg)
{
	struct opener *o = arg;
	struct msg *m = malloc(sizeof(*m));
	int fd = o->theirs, rc = m ? 1 : -ENOMEM;
	struct err e;

	/* The keeper's table goes on with all but this end, this one with nothing else. */
	if (unshare(CLONE_FILES) < 0 || syscall(SYS_close_range, (unsigned)fd + 1, ~0u, 0) < 0 ||
	    syscall(SYS_close_range, 3u, (unsigned)fd - 1, 0) < 0)
		rc = -errno;
	while (rc > 0) {
		rc = msg_recv(fd, m, &e);
		if (rc > 0 && m->type == ASK && m->len == sizeof(struct question) && m->nfds == 1 &&
		    answer_one(fd, m, &e) < 0)
			rc = -e.code;
		if (rc > 0)
			msg_close_fds(m);
	}
	close(fd); /* the keeper sees it */
	free(m);
	return NULL;
}

int opener_start(struct opener *o, struct err *e)
{
	int pair[2];
	pthread_t thread;

	if (msg_pair(pair, e) < 0)
		return -e->code;
	/* Not the lowest number there is: the thread closes what is below. */
	o->theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
	close(pair[1]);
	o->fd = pair[0];
	if (o->theirs < 0 || fcntl(o->fd, F_SETFL, O_NONBLOCK) < 0)
		return err_set(e, errno, "opener: %s", strerror(errno));
	int rc = pthread_create(&thread, NULL, run, o);
	return rc == 0 ? 0 : err_set(e, rc, "opener: %s", strerror(rc));
}

int opener_ask(struct opener *o, int root, uint64_t view, struct err *e)
{
	struct question q = { .view = view };

	return msg_send(o->fd, ASK, &q, sizeof(q), &root, 1, e);
}

int opener_answer(struct opener *o, struct msg *m, struct opener_answer *ret, struct err *e)
{
	struct answer a;
	int rc = msg_recv(o->fd, m, e);

	if (rc == -EAGAIN)
		return 0;
	if (rc == 0)
		return err_set(e, EPIPE, "the opener is gone");
	if (rc < 0)
		return rc;
	memcpy(&a, m->body, sizeof(a));
	*ret = (struct opener_answer){ .view = a.view, .fd = msg_take_fd(m, 0), .error = a.error };
	msg_close_fds(m);
	return 1;
}
