/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any packet on a socket between daemons: a handler sees only what its row of
 * the table permits in this state, and descriptors nobody took are closed.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/msg.h"

enum { STATE_NEW = 1, STATE_OPEN = 2 };

static int calls;

static int on_short(void *ctx, struct msg *m, struct err *e)
{
	(void)e;
	calls++;
	assert(*(uint32_t *)ctx == STATE_NEW && m->type == 1 && m->len <= 4 && m->nfds == 0);
	return 0;
}

static int on_long(void *ctx, struct msg *m, struct err *e)
{
	(void)ctx;
	(void)e;
	calls++;
	assert(m->type == 2 && m->len >= 8 && m->len <= 64 && m->nfds <= 1);
	return 0;
}

static const struct msg_permit table[] = {
	{ 1, STATE_NEW, 0, 4, 0, 0, on_short },
	{ 2, STATE_NEW | STATE_OPEN, 8, 64, 0, 1, on_long },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct msg m;
	uint32_t state = size && data[0] & 1 ? STATE_NEW : STATE_OPEN;
	int pair[2];
	struct err e = { 0 };

	if (size < 1 || size > 4096 || msg_pair(pair, &e) < 0)
		return 0;
	assert(send(pair[0], data + 1, size - 1, MSG_NOSIGNAL) == (ssize_t)size - 1);
	calls = 0;
	int rc = msg_recv(pair[1], &m, &e);
	assert(rc == 1 || (rc == 0 && size == 1) || (rc < 0 && e.msg[0]));
	if (rc == 1) {
		assert(m.len == size - 1 - sizeof(struct msg_header));
		rc = msg_dispatch(table, 2, state, &state, &m, &e);
		assert((rc == 0) == (calls == 1) && m.nfds == 0);
	}
	close(pair[0]);
	close(pair[1]);
	return 0;
}
