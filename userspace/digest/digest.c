/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 and HMAC on libcrypto's block functions. The low-level calls are
 * used on purpose: a provider fetch per call costs more than the hashing of a
 * carrier does (1.6 us against 0.3), and a context kept for reuse would be a
 * mutable global. Does not know what is hashed; keys live in secrets.c.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "digest/digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/hex.h"

enum { BLOCK_LEN = SHA256_CBLOCK, CHUNK = 64 * 1024 };

struct digest {
	SHA256_CTX ctx;
};

void digest_sha256(const void *buf, size_t len, uint8_t ret[DIGEST_LEN])
{
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	SHA256_Update(&ctx, buf, len);
	SHA256_Final(ret, &ctx);
}

/* One of HMAC's two hashes: H(key xor pad, then buf). */
static void keyed_hash(const uint8_t key[BLOCK_LEN], uint8_t pad, const void *buf, size_t len,
		       uint8_t ret[DIGEST_LEN])
{
	SHA256_CTX ctx;
	uint8_t block[BLOCK_LEN];

	for (size_t i = 0; i < BLOCK_LEN; i++)
		block[i] = key[i] ^ pad;
	SHA256_Init(&ctx);
	SHA256_Update(&ctx, block, sizeof(block));
	SHA256_Update(&ctx, buf, len);
	SHA256_Final(ret, &ctx);
	digest_wipe(block, sizeof(block));
	digest_wipe(&ctx, sizeof(ctx));
}

void digest_hmac_sha256(const void *key, size_t klen, const void *buf, size_t len,
			uint8_t ret[DIGEST_LEN])
{
	uint8_t block[BLOCK_LEN] = { 0 }, inner[DIGEST_LEN];

	if (klen > sizeof(block))
		digest_sha256(key, klen, block);
	else if (klen)
		memcpy(block, key, klen);
	keyed_hash(block, 0x36, buf, len, inner);
	keyed_hash(block, 0x5c, inner, sizeof(inner), ret);
	digest_wipe(block, sizeof(block));
	digest_wipe(inner, sizeof(inner));
}

struct digest *digest_new(void)
{
	struct digest *d = malloc(sizeof(*d));

	if (d)
		SHA256_Init(&d->ctx);
	return d;
}

void digest_add(struct digest *d, const void *buf, size_t len)
{
	SHA256_Update(&d->ctx, buf, len);
}

void digest_end(struct digest *d, uint8_t ret[DIGEST_LEN])
{
	SHA256_Final(ret, &d->ctx);
	SHA256_Init(&d->ctx);
}

void digest_free(struct digest *d)
{
	free(d);
}

int digest_fd(int fd, uint8_t ret[DIGEST_LEN], uint64_t *ret_len, struct err *e)
{
	autofree uint8_t *buf = malloc(CHUNK);
	uint64_t total = 0;
	SHA256_CTX ctx;

	if (!buf)
		return err_set(e, ENOMEM, "digest: out of memory");
	SHA256_Init(&ctx);
	for (;;) {
		ssize_t n = read(fd, buf, CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "digest: read: %s", strerror(errno));
		if (n == 0)
			break;
		SHA256_Update(&ctx, buf, (size_t)n);
		total += (uint64_t)n;
	}
	SHA256_Final(ret, &ctx);
	if (ret_len)
		*ret_len = total;
	return 0;
}

void digest_hex(const void *buf, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = buf;

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 15];
	}
	out[2 * n] = '\0';
}

int digest_unhex(const char *text, uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int hi = hex_small_value(text[2 * i]);
		int lo = hi < 0 ? -1 : hex_small_value(text[2 * i + 1]);
		if (lo < 0)
			return -EINVAL;
		out[i] = (uint8_t)(hi << 4 | lo);
	}
	return text[2 * n] == '\0' ? 0 : -EINVAL;
}

bool digest_equal(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

int digest_random(void *buf, size_t n)
{
	uint8_t *p = buf;

	for (size_t done = 0; done < n;) {
		ssize_t got = getrandom(p + done, n - done, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int code = errno;
			memset(buf, 0, n);
			return -code;
		}
		done += (size_t)got;
	}
	return 0;
}

void digest_wipe(void *buf, size_t n)
{
	explicit_bzero(buf, n);
}
