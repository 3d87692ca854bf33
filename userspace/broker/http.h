/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_HTTP_H
#define CORDON_BROKER_HTTP_H

/*
 * The door: HTTP/1.1 on the socket cordond listens on, by libmicrohttpd inside
 * the broker's loop. Owns connections, bodies and answers; what a request means
 * is its route's business. Bounded everywhere: connections in all and per user,
 * heads, bodies, the bytes of bodies and answers held at once, and time.
 *
 * An exchange is one request and its answer. Its route's handler answers at
 * once, or keeps the pointer and answers later; until it has answered, on_gone
 * is called once when the client goes away, and the pointer is dead from then on.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "broker/loop.h"
#include "broker/peer.h"

enum {
	HTTP_CONNECTIONS_MAX = 4096,
	HTTP_POOL_BYTES = 16 * 1024,	/* of a connection: its head and buffers */
	HTTP_HELD_MAX = 96 << 20,	/* bodies and answers of all connections */
	HTTP_IDLE_S = 60,		/* nothing sent, nothing taken */
	HTTP_RECEIVE_S = 60,		/* from connect or the last answer to a whole request */
	HTTP_PARAM_MAX = 256,
	HTTP_PARAMS = 2,
};

struct broker;
struct exchange;
struct MHD_Daemon;
struct MHD_Connection;
struct MHD_Response;

struct route {
	const char *method, *path; /* "/v1/jobs/{job}/kill": {x} matches one part */
	unsigned roles;		   /* any of them; 0: any peer */
	size_t body_max;	   /* 0: none is taken */
	void (*handle)(struct broker *b, struct exchange *x);
	/* Streamed bodies: begin may answer; chunk gives how much it took (less: exchange_go_on). */
	void (*begin)(struct broker *b, struct exchange *x);
	size_t (*chunk)(struct exchange *x, const void *buf, size_t len);
};

struct client {
	struct watch hangup;
	struct http *http;
	struct peer peer;
	int fd;
	struct exchange *exchange;
	uint64_t since_ms;
	struct client *prev, *next;
};

struct exchange {
	struct http *http;
	struct client *client;
	const struct peer *peer;
	struct MHD_Connection *connection;
	const struct route *route;
	char param[HTTP_PARAMS][HTTP_PARAM_MAX];
	char *body; /* NUL-terminated */
	size_t body_len, body_cap, held;
	uint64_t received; /* of a streamed body; the handler's */
	struct MHD_Response *response;
	unsigned status;
	bool is_begun, is_suspended, is_gone, is_too_large, is_streaming;
	void (*on_gone)(struct exchange *x);
	void *owner; /* the handler's */
	/* A streamed answer: gives bytes put into @buf, 0: none now, -1: the end. */
	ssize_t (*pull)(void *owner, char *buf, size_t max);
};

struct http {
	struct broker *broker;
	struct loop *loop;
	struct MHD_Daemon *daemon;
	struct watch daemon_watch, listen_watch;
	struct timer sweep;
	const struct route *routes;
	size_t nroutes;
	struct peer_rules *rules;
	struct client *clients, **by_fd;
	size_t nclients, nfds, clients_max;
	size_t held;
	uint64_t refused; /* connections over a limit */
	int listen_fd;
	bool wants_run;
	uint64_t due_ms; /* libmicrohttpd has something to time out then; 0: never */
};

/* Takes @listen_fd. */
int http_open(struct http *h, struct broker *b, struct loop *l, int listen_fd,
	      const struct route *routes, size_t n, struct peer_rules *rules, struct err *e);
/* Opens the door: until then who connects waits. */
int http_listen(struct http *h, struct err *e);
void http_stop_listening(struct http *h);

/* Lets libmicrohttpd do what can be done now. Gives how long the loop may wait, as before_wait. */
int http_before_wait(struct http *h);

/* True when bodies and answers already hold too much to take more work. */
bool http_is_full(const struct http *h);

/* Answers; @body is taken (free()d), also on failure. */
void exchange_answer(struct exchange *x, unsigned status, const char *type, char *body,
		     size_t len);
/* A field of the answer that was just given. */
void exchange_add_field(struct exchange *x, const char *name, const char *value);
/* Answers from static memory. */
void exchange_answer_static(struct exchange *x, unsigned status, const char *type,
			    const char *body, size_t len);
/* Answers with what @pull gives; x->owner is handed to it, exchange_go_on() says there is more. */
void exchange_answer_stream(struct exchange *x, const char *type,
			    ssize_t (*pull)(void *owner, char *buf, size_t max));
/* The stream has more, or a streamed body may go on. */
void exchange_go_on(struct exchange *x);
/* The same, and it is the last of it: a client that does not take it is not waited for. */
void exchange_hurry(struct exchange *x);
/* A parameter of the query, or NULL. */
const char *exchange_query(struct exchange *x, const char *key);
/* False when the query has a parameter not in the NULL-ended list @known. */
bool exchange_query_is(struct exchange *x, const char *const *known);

#endif
