/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_DIGEST_DIGEST_H
#define CORDON_DIGEST_DIGEST_H

/*
 * SHA-256, HMAC-SHA256, their text form, constant-time comparison and random
 * bytes. Hashing cannot fail and allocates nothing.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/scope.h"

enum {
	DIGEST_LEN = 32,
	DIGEST_HEX_MAX = 2 * DIGEST_LEN + 1, /* with its NUL */
};

void digest_sha256(const void *buf, size_t len, uint8_t ret[DIGEST_LEN]);

/* A key of any length (RFC 2104). */
void digest_hmac_sha256(const void *key, size_t klen, const void *buf, size_t len,
			uint8_t ret[DIGEST_LEN]);

/* Streaming. digest_end gives the digest of all that was added and leaves @d fresh for reuse. */
struct digest;
struct digest *digest_new(void); /* NULL: out of memory */
void digest_add(struct digest *d, const void *buf, size_t len);
void digest_end(struct digest *d, uint8_t ret[DIGEST_LEN]);
void digest_free(struct digest *d);
DEFINE_CLEANUP(digest)

/* From @fd's position to its end. @ret_len may be NULL. 0 or -errno. */
int digest_fd(int fd, uint8_t ret[DIGEST_LEN], uint64_t *ret_len, struct err *e);

/* Lower-case hexadecimal; @out holds 2n+1 bytes. */
void digest_hex(const void *buf, size_t n, char *out);

/* Exactly 2n lower-case digits and then NUL: 0, else -EINVAL with @out untouched or partly set. */
int digest_unhex(const char *text, uint8_t *out, size_t n) __attribute__((warn_unused_result));

/* Takes the same time for every content. */
bool digest_equal(const void *a, const void *b, size_t n);

/* Random bytes of the kernel. 0, or -errno with @buf zeroed: never go on without. */
int digest_random(void *buf, size_t n) __attribute__((warn_unused_result));

/* Zeroes what is no longer used; never optimised away. */
void digest_wipe(void *buf, size_t n);

#endif
