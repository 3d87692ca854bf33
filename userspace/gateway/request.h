/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_REQUEST_H
#define CORDON_GATEWAY_REQUEST_H

/*
 * What a head asks the proxy for (E8, E13): the target, the credential, the
 * framing; and the head that goes upstream instead of it. The target decides:
 * Host is written from it, whatever the request said.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/head.h"
#include "policy/egress.h"

struct request {
	bool is_connect;
	bool is_head; /* HEAD: the answer has no body */
	bool keep_alive; /* the client may send another one here */
	bool has_target; /* @target is what it named, also when the request is refused */
	bool has_credential;
	uint8_t minor;
	struct target target;
	char token[EGRESS_TOKEN_MAX];
	struct span path; /* origin form: path and query; "*" for OPTIONS without one */
	enum framing framing;
	uint64_t length;
};

/*
 * Reads a parsed head. False: EGRESS_BAD_REQUEST (target, port, framing, form);
 * *ret then holds what was recognised.
 */
bool request_read(const struct head *h, struct request *ret);

/*
 * The head for upstream: origin form, Host from the target, no hop-by-hop
 * field, no proxy credential, framing as parsed, one request a connection.
 * Gives its length, 0 when @cap is too small.
 */
size_t request_render(const struct head *h, const struct request *r, char *out, size_t cap);

/* The head for the client: hop-by-hop fields dropped, framing as parsed. 0: too small. */
size_t response_render(const struct head *h, enum framing framing, bool keep_alive, char *out,
		       size_t cap);

/* A refusal (E8): status, Cordon-Reason, body. @target NULL: unknown. Gives its length. */
size_t refusal_render(enum egress_verdict v, const struct target *target, char *out, size_t cap);

#endif
