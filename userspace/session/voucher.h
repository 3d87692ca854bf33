/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SESSION_VOUCHER_H
#define CORDON_SESSION_VOUCHER_H

/*
 * Per-command vouchers (S7): v1.<base64url(payload)>.<base64url(signature)>,
 * no padding. The payload is the compact JSON object with these keys in this
 * order, all of them required:
 *
 *   aud      the plane's name, as configured
 *   job      job id
 *   session  SHA-256 of the session, as voucher_session_digest() has it
 *   command  SHA-256 of T1's input bytes: argc, the arguments, standard input
 *   egress   T1's egressDigest: the policy in force
 *   nonce    16 to 64 of [A-Za-z0-9_-]
 *   iat, exp epoch milliseconds
 *
 * The signature is Ed25519 over VOUCHER_DOMAIN, "v1." and the body's text.
 * Digests are 64 lower-case hexadecimal digits. Checking is pure; whether the
 * nonce was used before is for the store to say (voucher_replayed,
 * voucher_nonce_capacity): it keeps a nonce until exp + VOUCHER_SKEW_MS.
 */
#include "digest/digest.h"
#include "digest/ed25519.h"
#include "session/session.h"

enum {
	VOUCHER_SKEW_MS = 5000,
	VOUCHER_MAX = 2048, /* bytes of text, with its NUL */
	VOUCHER_NONCE_MIN = 16,
	VOUCHER_NONCE_MAX = 64,
	VOUCHER_NAME_MAX = 256, /* audience and job */
	VOUCHER_KEYS_MAX = 8,
};

#define VOUCHER_DOMAIN "cordon voucher\n"

/* What the voucher must be for. Borrows all it points to. */
struct voucher_use {
	const char *audience, *job;
	const struct session *session;
	uint8_t command[DIGEST_LEN];
	uint8_t egress[DIGEST_LEN];
	uint64_t now_ms;
};

/* What the store needs. */
struct voucher_nonce {
	char nonce[VOUCHER_NONCE_MAX + 1];
	uint64_t keep_until_ms;
};

/*
 * Checks in this order: there (@text not NULL), shape, signature (any of the
 * @nkeys trusted), payload, audience, command and egress policy, job, session,
 * expiry, not yet valid. REASON_NONE with *ret set, else the REASON_VOUCHER_*.
 * An egress policy other than the voucher's is voucher_command_mismatch.
 */
enum reason voucher_check(const struct ed25519_public *keys, size_t nkeys, const char *text,
			  size_t len, const struct voucher_use *use, struct voucher_nonce *ret);

/* SHA-256 of {"orgId":..,"userId":..,"surface":..[,"runId":..]}, compact, as in a carrier. */
void voucher_session_digest(const struct session *s, uint8_t ret[DIGEST_LEN]);

/* The issuer's side, for tests and tools: @out holds VOUCHER_MAX. The broker never calls it. */
int voucher_issue(const uint8_t seed[ED25519_KEY_LEN], const struct voucher_use *use,
		  const char *nonce, uint64_t ttl_ms, char *out, struct err *e);

#endif
