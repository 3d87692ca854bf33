/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_DIGEST_ED25519_H
#define CORDON_DIGEST_ED25519_H

/*
 * Ed25519 signatures and their public keys in PEM. A private key is a seed of
 * 32 bytes that the caller keeps and wipes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ED25519_KEY_LEN = 32, ED25519_SIG_LEN = 64, ED25519_PEM_MAX = 160, ED25519_ID_MAX = 48 };

struct ed25519_public {
	uint8_t key[ED25519_KEY_LEN];
};

bool ed25519_verify(const struct ed25519_public *pub, const void *buf, size_t len,
		    const uint8_t sig[ED25519_SIG_LEN]);

int ed25519_sign(const uint8_t seed[ED25519_KEY_LEN], const void *buf, size_t len,
		 uint8_t ret_sig[ED25519_SIG_LEN], struct err *e);

/* A private key made ready once, for who signs often. Keeps a copy of the seed until freed. */
struct ed25519_signer;
int ed25519_signer_new(const uint8_t seed[ED25519_KEY_LEN], struct ed25519_signer **ret,
		       struct err *e);
int ed25519_signer_sign(const struct ed25519_signer *s, const void *buf, size_t len,
			uint8_t ret_sig[ED25519_SIG_LEN], struct err *e);
void ed25519_signer_public(const struct ed25519_signer *s, struct ed25519_public *ret);
void ed25519_signer_free(struct ed25519_signer *s); /* zeroes it; NULL is harmless */

int ed25519_public_of(const uint8_t seed[ED25519_KEY_LEN], struct ed25519_public *ret,
		      struct err *e);

/*
 * Reads every "PUBLIC KEY" block of @text into @ret (at most @max). Gives
 * their number. Private key material anywhere in the text is refused
 * (-EPERM): who only verifies must not be able to sign. Other blocks, other
 * algorithms, a broken block and no key at all are -EINVAL.
 */
int ed25519_public_read(const char *text, size_t len, struct ed25519_public *ret, size_t max,
			struct err *e);

/* PEM (SubjectPublicKeyInfo), what `openssl pkey -pubin` reads. @out holds ED25519_PEM_MAX. */
void ed25519_public_pem(const struct ed25519_public *pub, char *out);

/* The key's id: "ed25519:" and 32 hexadecimal digits of the SHA-256 of its bytes. */
void ed25519_id(const struct ed25519_public *pub, char ret[ED25519_ID_MAX]);

#endif
