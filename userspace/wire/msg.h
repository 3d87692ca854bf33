/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WIRE_MSG_H
#define CORDON_WIRE_MSG_H

/*
 * Messages between the plane's processes: SOCK_SEQPACKET, one header and one
 * fixed or bounded body per packet, descriptors beside it. Both ends are ours,
 * of one build and one host: bodies are C structs with asserted sizes
 * (include/proto). The receiver still checks version, type, length and number
 * of descriptors against its permission table before a handler sees anything.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	MSG_VERSION = 1,
	MSG_BODY_MAX = 60 * 1024, /* SEQPACKET itself stops near 200 KB */
	MSG_FDS_MAX = 8,
	MSG_MANY = 32,	   /* received at a time, at most */
	MSG_MALFORMED = 0, /* a type that no table lists */
};

struct msg_header {
	uint16_t version;
	uint16_t type;
	uint32_t len; /* of the body, bytes */
};

/* A received message. Its descriptors are the receiver's: take or msg_close_fds(). */
struct msg {
	uint16_t type;
	uint32_t len;
	int fds[MSG_FDS_MAX];
	unsigned nfds;
	uint8_t body[MSG_BODY_MAX] __attribute__((aligned(8)));
};

/* A connected pair, close-on-exec. */
int msg_pair(int ret_fds[2], struct err *e);

/* Sends one message whole; borrows body and descriptors. Non-blocking sockets give -EAGAIN. */
int msg_send(int fd, uint16_t type, const void *body, size_t len, const int *fds, unsigned nfds,
	     struct err *e);

/*
 * Receives one message. 1: *m filled; 0: the peer is gone; -EAGAIN: none there.
 * A malformed packet is -EPROTO, its descriptors closed: the peer is not to be
 * spoken to again.
 */
int msg_recv(int fd, struct msg *m, struct err *e);

/*
 * Receives what is there now, up to @max (at most MSG_MANY) messages, and never
 * waits. Their number; 0: the peer is gone; -EAGAIN: none there. Fewer than were
 * asked for: there were no more. A malformed packet comes as MSG_MALFORMED, which
 * msg_dispatch() refuses; what comes behind it is not to be looked at.
 */
int msg_recv_many(int fd, struct msg *m, unsigned max, struct err *e);

void msg_close_fds(struct msg *m);

/*
 * The permission table: a type not listed, out of its states, of the wrong
 * size or with the wrong number of descriptors is fatal for that peer.
 */
struct msg_permit {
	uint16_t type;
	uint32_t states; /* bit set of the receiver's states in which it is allowed */
	uint32_t len_min, len_max;
	uint8_t nfds_min, nfds_max;
	int (*handler)(void *ctx, struct msg *m, struct err *e);
};

/*
 * Looks @m up in @table and calls its handler. Gives the handler's result, or
 * -EPROTO with a message naming the type. Closes descriptors nobody took.
 */
int msg_dispatch(const struct msg_permit *table, size_t n, uint32_t state, void *ctx,
		 struct msg *m, struct err *e);

/* A descriptor out of a message, ownership to the caller; -1 where there is none. */
int msg_take_fd(struct msg *m, unsigned i);

#endif
