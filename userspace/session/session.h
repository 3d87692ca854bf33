/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SESSION_SESSION_H
#define CORDON_SESSION_SESSION_H

/*
 * Who asks (S1): exactly {orgId, userId, surface, runId?}. A struct session
 * exists only as session_mint() or carrier_open() made it: trimmed, valid
 * UTF-8 without NUL, identity not empty, a known surface.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/reason.h"

enum {
	SESSION_FIELD_MAX = 512, /* bytes of org, user and run, each */
};

/* The reserved identity of the readiness handshake (S8), as org and as user. */
#define SESSION_HANDSHAKE "cordon:handshake"

enum surface {
	SURFACE_NONE = 0,
	SURFACE_CHAT,
	SURFACE_AGENT_RUN,
	SURFACE_DETERMINISTIC_TASK,
	SURFACE_SKILL_TASK,
	SURFACE_COUNT
};

struct session {
	char org_id[SESSION_FIELD_MAX + 1];
	char user_id[SESSION_FIELD_MAX + 1];
	char run_id[SESSION_FIELD_MAX + 1]; /* "": none */
	enum surface surface;
};

/* What a caller says about itself. Borrows; NULL counts as empty. */
struct session_claim {
	const char *org_id, *user_id, *surface, *run_id;
};

enum session_mint_flags {
	MINT_HANDSHAKE = 1u << 0, /* the readiness handshake itself: may use S8's identity */
};

/*
 * REASON_NONE with *ret set, or REASON_NO_SESSION (empty org or user, unknown
 * surface, reserved identity) or REASON_INVALID_REQUEST (too long, not UTF-8).
 * *ret_why (may be NULL) then says which field, in a constant string.
 */
enum reason session_mint(const struct session_claim *claim, unsigned flags, struct session *ret,
			 const char **ret_why);

/* NULL for SURFACE_NONE; SURFACE_NONE for an unknown name (exact, no trimming). */
const char *surface_name(enum surface s);
enum surface surface_from_name(const char *name);

/*
 * Trims as ECMAScript does: white space and line terminators, among them NBSP,
 * BOM, U+2028 and U+2029. Gives where the rest starts and sets *ret_len.
 */
const char *session_trim(const char *text, size_t len, size_t *ret_len);

#endif
