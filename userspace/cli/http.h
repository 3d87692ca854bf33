/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_HTTP_H
#define CORDON_CLI_HTTP_H

/*
 * A client of the broker's socket, as small as speed and strictness ask for:
 * one request per connection, answers end where the connection does or where
 * Content-Length says. Requests are HTTP/1.0, so that no answer is chunked;
 * only a streamed body (http_open_upload) is HTTP/1.1.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
	HTTP_HEAD_MAX = 8192,
	HTTP_PATH_MAX = 8192,
	HTTP_RECEIPT_MAX = 1024,
	HTTP_ANSWER_MAX = 256 << 20, /* two streams of the largest cap, as JSON */
};

struct http_head {
	int status;
	int64_t length; /* -1: up to the end of the connection */
	bool is_stream; /* application/vnd.cordon.stream */
	char receipt[HTTP_RECEIPT_MAX]; /* of an artifact, as JSON; "": none */
};

/*
 * Parses an answer's head out of the first @len bytes. Gives its length, 0
 * when it is not whole yet, -EPROTO for anything strange.
 */
int http_parse_head(const char *buf, size_t len, struct http_head *ret);

/* A connection with an answer being read. */
struct http {
	int fd;
	struct http_head head;
	char buf[HTTP_HEAD_MAX]; /* bytes that came with the head */
	size_t at, end;
	int64_t left; /* of the body; -1: unknown */
};

/* -ENOENT or -ECONNREFUSED: nobody listens. */
int http_connect(const char *socket, struct http *ret, struct err *e);

/* @type NULL: application/json. A NULL @body sends none. */
int http_request(struct http *h, const char *method, const char *path, const char *type,
		 const void *body, size_t len, struct err *e);

/* Reads the answer's head into h->head. */
int http_read_head(struct http *h, struct err *e);

/* Body bytes: their number, 0 at its end, -EPIPE when it was cut short. */
ssize_t http_read(struct http *h, void *buf, size_t max, struct err *e);

/* All of the body. Gives *ret (caller frees, NUL-terminated). */
int http_read_body(struct http *h, char **ret, size_t *ret_len, struct err *e);

/* True while bytes wait that no poll will announce. */
bool http_has_buffered(const struct http *h);

void http_close(struct http *h);

/* The whole of it. Gives *ret_body (caller frees, NUL-terminated) and the status, or -errno. */
int http_call(const char *socket, const char *method, const char *path, const char *body,
	      size_t len, char **ret_body, size_t *ret_len, struct err *e);

/* POST with a chunked body; then http_upload pieces and a final one of 0 bytes. */
int http_open_upload(const char *socket, const char *path, struct http *ret, struct err *e);
int http_upload(struct http *h, const void *buf, size_t len, struct err *e);

/* Appends @part to @path with everything but [A-Za-z0-9._~-] percent-encoded. */
int http_add_part(char path[HTTP_PATH_MAX], const char *part, struct err *e);

#endif
