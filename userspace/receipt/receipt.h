/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_RECEIPT_RECEIPT_H
#define CORDON_RECEIPT_RECEIPT_H

/*
 * A command's receipt (T1) and its verification (T2). The signed text is
 *
 *   {tool}|{inputHash}|{outputHash}|{timestamp}|egress:{egressDigest}   success
 *   {tool}|{inputHash}|null|{failureHash}|{timestamp}                   failure
 *
 * under HMAC-SHA256 with the attestation secret of one version. Success is
 * termination `exited`, whatever the exit code.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "digest/digest.h"
#include "digest/secrets.h"
#include "json/json.h"

enum {
	RECEIPT_TOOL_MAX = 64,
	RECEIPT_TIME_LEN = 33, /* 2026-11-30T14:26:29.1234567+00:00 */
	RECEIPT_TEXT_MAX = 384,
};

#define RECEIPT_TOOL "sandbox_execute"

struct receipt {
	char tool[RECEIPT_TOOL_MAX + 1];
	bool is_failure;
	uint8_t input[DIGEST_LEN];
	uint8_t output[DIGEST_LEN];  /* success only */
	uint8_t failure[DIGEST_LEN]; /* failure only */
	uint8_t egress[DIGEST_LEN];  /* success only */
	char timestamp[RECEIPT_TIME_LEN + 1];
	uint32_t key_version;
	uint8_t signature[DIGEST_LEN];
};

/* --- What goes in */

/*
 * T1's input: begins with argc and the arguments; the caller adds the standard
 * input bytes as they pass (digest_add) and ends it. @blob is argc strings,
 * each with its NUL, as the argv memfd has them. NULL: out of memory.
 */
struct digest *receipt_input_new(uint32_t argc, const void *blob, size_t blob_len);

/* The whole of it at once. */
int receipt_input(const char *const *argv, size_t argc, const void *in, size_t in_len,
		  uint8_t ret[DIGEST_LEN], struct err *e);

/*
 * egressDigest: SHA-256 of {"tier":"...","hosts":[sorted],"maxBytes":N or null}.
 * @max_bytes 0 is null. Borrows @hosts, which may be in any order.
 */
int receipt_egress(const char *tier, const char *const *hosts, size_t nhosts, uint64_t max_bytes,
		   uint8_t ret[DIGEST_LEN], struct err *e);

/* Writes @realtime_ns (since 1970) as T1's timestamp. */
void receipt_time(uint64_t realtime_ns, char ret[RECEIPT_TIME_LEN + 1]);

/* A success: @output is the digest of the kept standard output. */
void receipt_success(struct receipt *r, const char *tool, uint64_t start_ns,
		     const uint8_t input[DIGEST_LEN], const uint8_t output[DIGEST_LEN],
		     const uint8_t egress[DIGEST_LEN]);

/* A failure: @code is the reason's code, or the termination's where there is none. */
void receipt_failure(struct receipt *r, const char *tool, uint64_t start_ns,
		     const uint8_t input[DIGEST_LEN], const char *code);

/* --- Signing and text */

/* The signed text with a NUL; gives its length. @out holds RECEIPT_TEXT_MAX. */
size_t receipt_text(const struct receipt *r, char *out);

/* Signs under the current version. -EINVAL for a tool name out of form, -ENOKEY without a key. */
int receipt_sign(struct receipt *r, const struct secret_set *keys, struct err *e);

/* T1's JSON object, absent parts null. The caller owns it; NULL: out of memory. */
json_t *receipt_to_json(const struct receipt *r);

/* Strict: exactly these keys, exactly this form. -EINVAL names the key. */
int receipt_from_json(const json_t *v, struct receipt *ret, struct err *e);

/* --- Verifying */

enum receipt_part {
	RECEIPT_KEY_VERSION = 1u << 0, /* no secret of that version is here */
	RECEIPT_SIGNATURE = 1u << 1,
	RECEIPT_INPUT = 1u << 2,
	RECEIPT_OUTPUT = 1u << 3, /* also: an output was given for a failure's receipt */
	RECEIPT_FAILURE = 1u << 4,
	RECEIPT_EGRESS = 1u << 5,
	RECEIPT_PARTS = 6,
};

/* What the verifier knows; NULL is not compared. */
struct receipt_facts {
	const uint8_t *input, *output, *egress; /* digests */
	const char *failure_code;
};

struct receipt_verdict {
	bool is_valid;	     /* the signature verifies and nothing differs */
	unsigned mismatches; /* enum receipt_part: what does not match */
};

struct receipt_verdict receipt_verify(const struct receipt *r, const struct secret_set *keys,
				      const struct receipt_facts *facts);

/* "inputHash" and so on for one bit of enum receipt_part; NULL for another. */
const char *receipt_part_name(unsigned bit);

#endif
