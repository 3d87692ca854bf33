/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_CONN_H
#define CORDON_GATEWAY_CONN_H

/*
 * A connection out of a sandbox, from accept to its end:
 *
 *   HEAD -> RESOLVING -> DIALLING -> TUNNEL             -> gone
 *     |         |           |     \-> EXCHANGE -> HEAD (kept alive)
 *     \---------\-----------\------------\-----> REFUSING -> gone
 *
 * conn.c owns the life and the head, dial.c the way to the upstream,
 * exchange.c one plain HTTP request and its answer.
 */
#include "gateway/body.h"
#include "gateway/gateway.h"
#include "gateway/request.h"

enum conn_state {
	CONN_HEAD = 0,
	CONN_RESOLVING,
	CONN_DIALLING,
	CONN_TUNNEL,
	CONN_EXCHANGE,
	CONN_REFUSING,
};

/* While a way to the upstream is looked for. */
struct dialling {
	struct target target;
	struct address list[DNS_ADDRESSES_MAX];
	uint32_t n, at;
	enum dns_type asked; /* 0: an address was named */
	struct lookup *lookup;
};

/* One plain HTTP request and its answer. */
struct exchange {
	struct body request, response;
	bool is_head, keep_alive;
	bool has_response; /* its head is with the client */
	uint8_t minor;
	char *head; /* of the response, while it comes */
	uint32_t head_len;
	size_t scanned;
};

struct conn {
	struct end client, upstream;
	struct gateway *g;
	struct room *room;
	struct conn *prev, *next; /* of the room */
	struct destination *dest; /* NULL until connected */
	struct deadline deadline;
	struct chore chore;
	struct lane out, back; /* from the client; to it */
	uint8_t state;	       /* enum conn_state */
	bool is_connect;
	/* Bytes of the client not yet used: a head that is coming, what came behind one. */
	char *in;
	uint32_t in_len;
	uint32_t drained; /* thrown away behind a refusal */
	size_t in_scanned;
	struct dialling *dial;
	struct exchange *ex;
};

/* Takes the accepted socket @fd. False: it is closed. */
bool conn_open(struct gateway *g, struct room *room, int fd);

/* Ends it in an orderly way, or (@reset) so that both peers see an error at once. */
void conn_close(struct conn *c, bool reset);

/*
 * Books what really passed a client's socket that is about to close, both ways,
 * by the kernel's own books (E16), and what may have been on its way.
 */
void conn_count_wire(struct room *room, int fd, bool reset);

/* Does whatever its state can do now. May free it. */
void conn_step(struct conn *c);

/* Answers with @v and ends when the client has read it. Counts. */
void conn_refuse(struct conn *c, enum egress_verdict v, const struct target *target);

/* The upstream is there: 200 and a tunnel, or the exchange begins. */
void conn_connected(struct conn *c);

/* Lets the client read what is on its way, then closes. */
void conn_linger(struct conn *c);

/* An exchange is over and the client may send another request. */
void conn_next_request(struct conn *c);

/* Puts bytes that came too early aside for later, before those that are there. False: memory. */
bool conn_keep(struct conn *c, const char *buf, size_t len);

/* dial.c: from a target to a connected upstream; ends in conn_connected or conn_refuse. */
void dial_start(struct conn *c, const struct target *target);
void dial_on_upstream(struct conn *c);
void dial_next(struct conn *c);
void dial_stop(struct conn *c);

/* exchange.c */
bool exchange_prepare(struct conn *c, const struct head *h, const struct request *r);
void exchange_step(struct conn *c);
void exchange_stop(struct conn *c);

#endif
