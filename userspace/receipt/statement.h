/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_RECEIPT_STATEMENT_H
#define CORDON_RECEIPT_STATEMENT_H

/*
 * The receipt for third parties (T3): an in-toto statement in a DSSE envelope
 * under Ed25519. It says what was measured. Whoever verifies brings the public
 * keys it trusts; a key that comes with the envelope counts for nothing.
 *
 * Key id and algorithm stand inside the signed statement ("signer"), so they
 * cannot be exchanged. The signing key is derived from a version of the
 * attestation secret: it rotates with it and no second secret is kept.
 */
#include "digest/ed25519.h"
#include "receipt/receipt.h"

#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define STATEMENT_PREDICATE "urn:cordon:receipt:1"
#define STATEMENT_PAYLOAD "application/vnd.in-toto+json"

enum {
	STATEMENT_SKILLS_MAX = 64,
	STATEMENT_LAYERS_MAX = 16,
	STATEMENT_DEPTH = 6,
	STATEMENT_MAX = 256 * 1024, /* bytes of an envelope */
};

/* One attached skill: its manifest's digest. */
struct statement_skill {
	const char *slug;
	uint8_t manifest[DIGEST_LEN];
};

/* What was measured and enforced. Borrows everything; lists are NULL-terminated texts. */
struct statement {
	const struct receipt *receipt; /* signed */
	const char *job_id, *command_id;
	const char *termination, *reason; /* codes; NULL: none */
	int exit_code, signal;		  /* -1, 0: none */
	bool oom_killed;
	uint64_t memory_bytes, workspace_bytes, output_bytes, timeout_ms, cpu_milli, pids;
	uint64_t wall_ms, memory_peak_bytes;
	uint8_t image[DIGEST_LEN];
	const uint8_t (*layers)[DIGEST_LEN];
	size_t nlayers;
	uint8_t standard_error[DIGEST_LEN];
	uint64_t kernel_bytes, gateway_bytes;
	const struct statement_skill *skills;
	size_t nskills;
	uint64_t skills_lookups, skills_served_bytes; /* of all of them, as their server counted */
	const char *const *capabilities; /* effective (C1) */
	const char *isolation;		 /* grade */
	const char *const *guards_on, *const *guards_off, *const *guards_missing;
	uint64_t lost_events;
};

/* The Ed25519 seed of one version of the attestation secret. The caller wipes it. */
void statement_seed(const struct secret *attestation, uint8_t ret[ED25519_KEY_LEN]);

/* The public key of that version, for trust stores. */
int statement_public(const struct secret *attestation, struct ed25519_public *ret, struct err *e);

/* The in-toto statement, naming @signer. NULL with *e set: a list too long, no UTF-8, out of memory. */
json_t *statement_build(const struct statement *s, const struct ed25519_public *signer,
			struct err *e);

/* The signing key of one version, made ready once for who signs often. */
struct statement_signer;
int statement_signer_new(const struct secret *attestation, struct statement_signer **ret,
			 struct err *e);
const struct ed25519_public *statement_signer_public(const struct statement_signer *k);
void statement_signer_free(struct statement_signer *k); /* NULL is harmless */

/* Builds and signs as @k: *ret is the envelope's JSON text (caller frees). */
int statement_sign_as(const struct statement *s, const struct statement_signer *k, char **ret,
		      struct err *e);

/* Builds and signs under the current version: *ret is the envelope's JSON text (caller frees). */
int statement_sign(const struct statement *s, const struct secret_set *keys, char **ret,
		   struct err *e);

/*
 * Verifies an envelope against @trusted. 0 with *ret the statement (caller
 * owns), else: -ENOKEY no trust store was given; -EINVAL the envelope or
 * statement is out of form; -EKEYREJECTED signed by nobody who is trusted,
 * or its key id or algorithm is not that of the signing key. Never 0 without
 * a trusted key.
 */
int statement_verify(const char *text, size_t len, const struct ed25519_public *trusted, size_t n,
		     json_t **ret, struct err *e);

#endif
