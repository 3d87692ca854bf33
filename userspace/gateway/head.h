/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_HEAD_H
#define CORDON_GATEWAY_HEAD_H

/*
 * HTTP/1.1 message heads, parsed strictly (E13, RFC 9112). What is refused
 * everywhere: bare CR or LF, NUL and other controls, obs-fold, a blank before
 * the colon, anything before the start line, a version other than 1.0 or 1.1.
 * A head that two parsers could read differently is not forwarded by this one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HEAD_MAX = 16 * 1024, /* bytes of one head */
	HEAD_FIELDS_MAX = 96,
};

/* Bytes of the buffer that was parsed. */
struct span {
	const char *at;
	uint32_t len;
};

struct field {
	struct span name, value; /* value without blanks around it */
};

struct head {
	uint32_t len; /* of the whole head, its empty line included */
	uint8_t minor; /* HTTP/1.minor */
	uint16_t status;	     /* of a response */
	struct span method, target;  /* of a request */
	struct span reason;	     /* of a response */
	uint32_t nfields;
	struct field fields[HEAD_FIELDS_MAX];
};

enum head_result {
	HEAD_BAD = 0,
	HEAD_MORE, /* not all there yet */
	HEAD_DONE,
};

/*
 * Looks for the end of a head in @len bytes, of which *scanned are known to
 * hold none: each byte is looked at once, however slowly they come. HEAD_DONE:
 * *scanned is the head's length. HEAD_BAD as soon as a byte says so, or when
 * HEAD_MAX bytes hold no end.
 */
enum head_result head_scan(const char *buf, size_t len, size_t *scanned);

/* Parses the @len bytes that head_scan found. *ret points into @buf. */
bool head_parse_request(const char *buf, size_t len, struct head *ret);
bool head_parse_response(const char *buf, size_t len, struct head *ret);

/* ASCII case-insensitive. */
bool span_is(struct span s, const char *text);

/* The only field of that name: NULL with *ret_count 0 or more than 1. */
const struct field *head_find(const struct head *h, const char *name, unsigned *ret_count);

/* How a message's body is delimited. */
enum framing {
	FRAMING_BAD = 0,
	FRAMING_NONE,
	FRAMING_LENGTH,
	FRAMING_CHUNKED,
	FRAMING_UNTIL_CLOSE, /* responses only */
};

/*
 * One Content-Length of digits alone, or Transfer-Encoding of exactly
 * `chunked` under HTTP/1.1, or neither; both, doubles and lists are bad.
 */
enum framing head_request_framing(const struct head *h, uint64_t *ret_length);

/* @is_head: of an answer to HEAD. */
enum framing head_response_framing(const struct head *h, bool is_head, uint64_t *ret_length);

/* True when some Connection field of @h names @name. */
bool head_connection_names(const struct head *h, struct span name);

/* Hop-by-hop (E13): by itself, or named by Connection; proxy credentials are. */
bool head_is_hop_by_hop(const struct head *h, const struct field *f);

#endif
