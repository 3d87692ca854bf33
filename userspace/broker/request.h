/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_REQUEST_H
#define CORDON_BROKER_REQUEST_H

/*
 * Bodies that ask for a command: strict JSON into a checked struct. Behind this
 * door nobody re-checks. What a field needs that is not built yet is refused
 * here by name (not_available), never ignored.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/egress.h"
#include "policy/limits.h"
#include "policy/reason.h"

enum {
	REQUEST_STDIN_MAX = 4 << 20, /* inline; more goes through a stream */
	REQUEST_BODY_MAX = 14 << 20,
	REQUEST_ID_MAX = 128,
	REQUEST_IMAGE_MAX = 127,
};

/* Ids the broker gives begin so, and callers' may not. */
#define REQUEST_AUTO_PREFIX "auto."

enum request_stdin { STDIN_NOTHING = 0, STDIN_INLINE, STDIN_STREAM };

struct exec_request {
	json_t *body; /* owns what the text members point into */
	char *args;   /* argc strings, each with its NUL */
	size_t args_len;
	uint32_t argc;
	const char *cwd; /* below /workspace, without a leading slash; "" */
	struct limits asked;
	struct egress_policy *egress; /* NULL: the default */
	const char *image;	      /* "", a name, or sha256:HEX */
	const char *command_id;	      /* NULL: none given */
	enum request_stdin stdin_kind;
	uint8_t *stdin_buf;
	size_t stdin_len;
	bool is_stream;
	const char *voucher;
	const json_t *skills; /* of POST /v1/run; NULL: none */
	/* POST /v1/run */
	const char *org_id, *user_id, *surface, *run_id;
};

enum request_kind { REQUEST_RUN, REQUEST_EXEC };

/*
 * Parses @text. REASON_NONE with *ret filled (request_done() frees); else the
 * reason, with *e saying what is wrong and *ret still to be freed: what was
 * understood before the fault stands in it.
 */
enum reason request_parse(const char *text, size_t len, enum request_kind kind,
			  struct exec_request *ret, struct err *e);
void request_done(struct exec_request *r);

/* The member `egress` of a body; tier EGRESS_TIER_COUNT: no mode was named. Caller frees *ret. */
int request_read_egress(const json_t *obj, struct egress_policy **ret, struct err *e);

/* [A-Za-z0-9._-]{1,@max}. */
bool request_is_id(const char *s, size_t max);

#endif
