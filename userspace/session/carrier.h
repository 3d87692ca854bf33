/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SESSION_CARRIER_H
#define CORDON_SESSION_CARRIER_H

/*
 * Carriers (S2, S3): v1.<base64url(payload)>.<base64url(mac)>, no padding.
 * Only the broker holds the secrets. A carrier is a bearer credential: it goes
 * into no log, ledger, command line or sandbox (S6).
 */
#include "digest/secrets.h"
#include "session/session.h"

enum {
	CARRIER_TTL_MS = 15 * 60 * 1000, /* the default */
	CARRIER_PAYLOAD_MAX = 10 * 1024, /* three fields of control characters, and a bit */
	CARRIER_MAX = 14 * 1024,	 /* bytes of text, with its NUL */
};

/*
 * Seals @s, valid from @now_ms for @ttl_ms, under the current secret into
 * @out (CARRIER_MAX bytes). REASON_NONE with *ret_len set;
 * REASON_CAPABILITY_UNAVAILABLE without a secret. The reserved identity is
 * refused at minting, before a session exists.
 */
enum reason carrier_seal(const struct secret_set *secrets, const struct session *s, uint64_t now_ms,
			 uint64_t ttl_ms, char *out, size_t *ret_len);

/*
 * Opens a carrier at @now_ms, checking in S3's order. REASON_NONE with *ret
 * and *ret_exp_ms (may be NULL) set, else one of the four REASON_CARRIER_*.
 * Every version of the secret may have sealed it.
 */
enum reason carrier_open(const struct secret_set *secrets, const char *text, size_t len,
			 uint64_t now_ms, struct session *ret, uint64_t *ret_exp_ms);

#endif
