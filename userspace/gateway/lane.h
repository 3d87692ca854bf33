/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_LANE_H
#define CORDON_GATEWAY_LANE_H

/*
 * One direction of a connection: bytes from one socket to another, charged to
 * a room as they are read and never more than it may still move. Small reads
 * are copied through one buffer that all lanes share; a lane that carries much
 * splices through a pipe, which it borrows only while bytes are in it. So an
 * idle tunnel holds neither.
 */
#include <stdbool.h>
#include <stdint.h>

#include "gateway/loop.h"
#include "gateway/room.h"

enum {
	LANE_SCRATCH = 64 * 1024,
	LANE_PIPE_BYTES = 256 * 1024,
	LANE_PIPES_MAX = 48,
};

/* What all lanes share. */
struct lane_ground {
	char *scratch;
	struct lane_pipe {
		int fds[2];
	} pipes[LANE_PIPES_MAX];
	uint8_t free[LANE_PIPES_MAX];
	unsigned nfree, npipes;
};

int lane_ground_open(struct lane_ground *g, struct err *e);
void lane_ground_close(struct lane_ground *g);

/* A socket of a connection and what its last events said (edge triggered). */
struct end {
	struct watch w;
	bool is_readable, is_writable;
	bool has_ended; /* its peer has shut or reset: read on until it shows */
};

struct lane {
	char *held; /* read and not yet written, owned */
	uint32_t held_at, held_len;
	uint32_t piped; /* bytes in the borrowed pipe */
	int8_t pipe;	/* -1: none */
	uint8_t bulk;	/* how much its last reads looked like a bulk transfer */
	bool is_eof;	/* the source has ended */
	bool is_shut;	/* and the target has been told */
};

enum lane_result {
	LANE_BROKEN = 0, /* a socket failed */
	LANE_CUT,	 /* there is more to carry and the ceiling is reached */
	LANE_BLOCKED,	 /* waits for an event */
	LANE_BUSY,	 /* had its turn and could go on */
	LANE_ENDED,	 /* all carried, the target told */
};

void lane_init(struct lane *l);

/* Gives back what it holds. */
void lane_done(struct lane *l, struct lane_ground *g);

/* Puts a copy of bytes before everything that is still to be read. False: out of memory. */
bool lane_hold(struct lane *l, const char *buf, size_t len);

/* Writes what is held or piped. LANE_BLOCKED: not all; LANE_BUSY: all. */
enum lane_result lane_flush(struct lane *l, struct end *to, struct lane_ground *g);

/*
 * Carries until something blocks or a fair share is carried. *ret_moved counts
 * bytes read. At the source's end the target is told, unless @is_last: then both
 * sockets are about to be closed, which says the same.
 */
enum lane_result lane_pump(struct lane *l, struct end *from, struct end *to, struct room *room,
			   struct destination *d, bool is_out, bool is_last,
			   struct lane_ground *g, uint64_t *ret_moved);

/*
 * Reads at most what @room may still move into @buf. Gives the number of bytes,
 * 0 at the end, -EAGAIN, -EDQUOT when there is more and the ceiling is reached,
 * or another -errno. Charges nothing.
 */
int end_read(struct end *from, const struct room *room, char *buf, size_t size);

/* Sends @len bytes or holds what does not fit. False: broken or out of memory. */
bool lane_send(struct lane *l, struct end *to, const char *buf, size_t len);

#endif
