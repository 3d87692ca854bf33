/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying bytes. Does not know what they mean: tunnels and exchanges
 * (tunnel.c, exchange.c) decide which lanes run.
 */
#include "gateway/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"

enum {
	TURNS = 8,	  /* reads before others have their turn */
	BULK_AFTER = 3,	  /* full reads in a row that make a lane splice */
	BULK_READ = 16384, /* a read that small is no bulk */
};

int lane_ground_open(struct lane_ground *g, struct err *e)
{
	memset(g, 0, sizeof(*g));
	g->scratch = malloc(LANE_SCRATCH);
	return g->scratch ? 0 : err_set(e, ENOMEM, "out of memory");
}

void lane_ground_close(struct lane_ground *g)
{
	for (unsigned i = 0; i < g->npipes; i++) {
		close(g->pipes[i].fds[0]);
		close(g->pipes[i].fds[1]);
	}
	free(g->scratch);
}

static void give_pipe(struct lane *l, struct lane_ground *g)
{
	if (l->pipe >= 0)
		g->free[g->nfree++] = (uint8_t)l->pipe;
	l->pipe = -1;
}

/* A pipe with bytes of a lane that ends in it is not given to the next one. */
static void spoil_pipe(struct lane *l, struct lane_ground *g)
{
	struct lane_pipe *p = &g->pipes[l->pipe];
	int fresh[2];

	if (pipe2(fresh, O_CLOEXEC | O_NONBLOCK) < 0) {
		/* Empty it instead. */
		while (l->piped) {
			ssize_t n = read(p->fds[0], g->scratch,
					 l->piped < LANE_SCRATCH ? l->piped : LANE_SCRATCH);
			if (n <= 0)
				abort(); /* bytes that we put there are there */
			l->piped -= (uint32_t)n;
		}
		return;
	}
	close(p->fds[0]);
	close(p->fds[1]);
	memcpy(p->fds, fresh, sizeof(fresh));
	(void)fcntl(p->fds[1], F_SETPIPE_SZ, LANE_PIPE_BYTES);
	l->piped = 0;
}

static bool take_pipe(struct lane *l, struct lane_ground *g)
{
	if (l->pipe >= 0)
		return true;
	if (!g->nfree && g->npipes < LANE_PIPES_MAX) {
		struct lane_pipe *p = &g->pipes[g->npipes];
		if (pipe2(p->fds, O_CLOEXEC | O_NONBLOCK) < 0)
			return false;
		/* A smaller one works too: root without CAP_SYS_RESOURCE, many users. */
		(void)fcntl(p->fds[1], F_SETPIPE_SZ, LANE_PIPE_BYTES);
		g->free[g->nfree++] = (uint8_t)g->npipes++;
	}
	if (!g->nfree)
		return false;
	l->pipe = (int8_t)g->free[--g->nfree];
	return true;
}

void lane_init(struct lane *l)
{
	memset(l, 0, sizeof(*l));
	l->pipe = -1;
}

void lane_done(struct lane *l, struct lane_ground *g)
{
	if (l->piped)
		spoil_pipe(l, g);
	give_pipe(l, g);
	free(l->held);
	l->held = NULL;
	l->held_at = l->held_len = 0;
}

bool lane_hold(struct lane *l, const char *buf, size_t len)
{
	uint32_t left = l->held_len - l->held_at;
	char *all;

	if (!len)
		return true;
	all = malloc(left + len);
	if (!all)
		return false;
	if (left)
		memcpy(all, l->held + l->held_at, left);
	memcpy(all + left, buf, len);
	free(l->held);
	l->held = all;
	l->held_at = 0;
	l->held_len = (uint32_t)(left + len);
	return true;
}

/* Gives bytes written, -EAGAIN, or another -errno. */
static ssize_t write_end(struct end *to, const char *buf, size_t len)
{
	ssize_t n;

	const size_t whole = len;

	errno = fault_write("gateway.send", &len);
	if (errno)
		return -errno;
	do {
		n = send(to->w.fd, buf, len, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0) {
		if ((size_t)n < whole)
			to->is_writable = false;
		return n;
	}
	if (errno == EAGAIN)
		to->is_writable = false;
	return -errno;
}

static enum lane_result flush_held(struct lane *l, struct end *to)
{
	while (l->held_at < l->held_len) {
		ssize_t n = write_end(to, l->held + l->held_at, l->held_len - l->held_at);
		if (n < 0)
			return n == -EAGAIN ? LANE_BLOCKED : LANE_BROKEN;
		l->held_at += (uint32_t)n;
		if (l->held_at < l->held_len)
			return LANE_BLOCKED;
	}
	free(l->held);
	l->held = NULL;
	l->held_at = l->held_len = 0;
	return LANE_BUSY;
}

static enum lane_result flush_pipe(struct lane *l, struct end *to, struct lane_ground *g)
{
	while (l->piped) {
		ssize_t n = splice(g->pipes[l->pipe].fds[0], NULL, to->w.fd, NULL, l->piped,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n < 0 && errno == EAGAIN) {
				to->is_writable = false;
				return LANE_BLOCKED;
			}
			return LANE_BROKEN;
		}
		l->piped -= (uint32_t)n;
	}
	return LANE_BUSY;
}

enum lane_result lane_flush(struct lane *l, struct end *to, struct lane_ground *g)
{
	enum lane_result r = LANE_BUSY;

	if (!l->held && !l->piped)
		return LANE_BUSY;
	if (!to->is_writable)
		return LANE_BLOCKED;
	if (l->held)
		r = flush_held(l, to);
	return r == LANE_BUSY && l->piped ? flush_pipe(l, to, g) : r;
}

bool lane_send(struct lane *l, struct end *to, const char *buf, size_t len)
{
	ssize_t n = 0;

	if (!l->held && to->is_writable) {
		n = write_end(to, buf, len);
		if (n == -EAGAIN)
			n = 0;
		if (n < 0)
			return false;
	}
	return lane_hold(l, buf + n, len - (size_t)n);
}

/* A read that gave less than asked has emptied the socket, unless its end is there too. */
static void note_read(struct end *from, size_t asked, ssize_t got)
{
	if (got < 0 || ((size_t)got < asked && !from->has_ended))
		from->is_readable = false;
}

/* At the ceiling: is there more, an end, or nothing yet? */
static int peek(struct end *from)
{
	char byte;
	ssize_t n = recv(from->w.fd, &byte, 1, MSG_PEEK);

	if (n > 0)
		return -EDQUOT;
	if (n < 0 && errno == EAGAIN)
		from->is_readable = false;
	return n == 0 ? 0 : -errno;
}

int end_read(struct end *from, const struct room *room, char *buf, size_t size)
{
	uint64_t allowance = room_allowance(room);
	ssize_t n;

	if (allowance == 0)
		return peek(from);
	if (allowance < size)
		size = (size_t)allowance;
	do {
		n = recv(from->w.fd, buf, size, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	note_read(from, size, n);
	return (int)n;
}

static int splice_read(struct lane *l, struct end *from, const struct room *room,
		       struct lane_ground *g)
{
	uint64_t allowance = room_allowance(room);
	size_t size = allowance < LANE_PIPE_BYTES ? (size_t)allowance : LANE_PIPE_BYTES;
	ssize_t n;

	if (allowance == 0)
		return peek(from);
	do {
		n = splice(from->w.fd, NULL, g->pipes[l->pipe].fds[1], NULL, size,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		n = -errno;
		from->is_readable = false;
	}
	/* No conclusion from a short one: the pipe counts segments, not bytes. */
	if (n > 0)
		l->piped = (uint32_t)n;
	return (int)n;
}

/* A lane that carries much in a row is worth a pipe; one that stops is not. */
static void judge_bulk(struct lane *l, int n)
{
	if (n >= BULK_READ)
		l->bulk = l->bulk < 2 * BULK_AFTER ? l->bulk + 1 : l->bulk;
	else
		l->bulk = l->bulk ? l->bulk - 1 : 0;
}

/* One read and one write. LANE_BUSY: carried something. */
static enum lane_result carry(struct lane *l, struct end *from, struct end *to, struct room *room,
			      struct destination *d, bool is_out, struct lane_ground *g,
			      uint64_t *ret_moved)
{
	bool by_pipe = l->bulk >= BULK_AFTER && take_pipe(l, g);
	int n = by_pipe ? splice_read(l, from, room, g)
			: end_read(from, room, g->scratch, LANE_SCRATCH);

	if (n == -EAGAIN)
		return LANE_BLOCKED;
	if (n < 0)
		return n == -EDQUOT ? LANE_CUT : LANE_BROKEN;
	if (n == 0) {
		l->is_eof = true;
		return LANE_BUSY;
	}
	room_charge(room, d, (uint64_t)n, is_out);
	*ret_moved += (uint64_t)n;
	judge_bulk(l, n);
	if (!by_pipe && !lane_send(l, to, g->scratch, (size_t)n))
		return LANE_BROKEN;
	return LANE_BUSY;
}

enum lane_result lane_pump(struct lane *l, struct end *from, struct end *to, struct room *room,
			   struct destination *d, bool is_out, bool is_last,
			   struct lane_ground *g, uint64_t *ret_moved)
{
	enum lane_result r = LANE_BUSY;

	for (int turn = 0; turn < TURNS && r == LANE_BUSY; turn++) {
		r = lane_flush(l, to, g);
		if (r != LANE_BUSY)
			break;
		if (l->is_eof) {
			if (!l->is_shut && !is_last)
				shutdown(to->w.fd, SHUT_WR);
			l->is_shut = true;
			r = LANE_ENDED;
			break;
		}
		if (!from->is_readable) {
			r = LANE_BLOCKED;
			break;
		}
		r = carry(l, from, to, room, d, is_out, g, ret_moved);
	}
	if (!l->piped)
		give_pipe(l, g);
	return r;
}
