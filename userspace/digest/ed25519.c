/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ed25519 on libcrypto. PEM is read by hand because exactly one form is
 * accepted: base64 of the 12 fixed bytes of an Ed25519 SubjectPublicKeyInfo
 * and the key. Does not load files; keeps no key.
 */
#include "digest/ed25519.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "digest/base64.h"
#include "digest/digest.h"

static const uint8_t spki[] = { 0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
				0x2b, 0x65, 0x70, 0x03, 0x21, 0x00 };
enum { DER_LEN = sizeof(spki) + ED25519_KEY_LEN };

static const char pem_begin[] = "-----BEGIN PUBLIC KEY-----";
static const char pem_end[] = "-----END PUBLIC KEY-----";

bool ed25519_verify(const struct ed25519_public *pub, const void *buf, size_t len,
		    const uint8_t sig[ED25519_SIG_LEN])
{
	EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, pub->key,
						    sizeof(pub->key));
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good = key && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
		    EVP_DigestVerify(ctx, sig, ED25519_SIG_LEN, buf, len) == 1;

	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	return good;
}

/* @key NULL: that of @ctx's last signature, which saves looking for the algorithm again. */
static int sign_with(EVP_MD_CTX *ctx, EVP_PKEY *key, const void *buf, size_t len,
		     uint8_t ret_sig[ED25519_SIG_LEN], struct err *e)
{
	size_t sig_len = ED25519_SIG_LEN;
	bool good = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
		    EVP_DigestSign(ctx, ret_sig, &sig_len, buf, len) == 1;

	return good ? 0 : err_set(e, EIO, "ed25519: libcrypto would not sign");
}

int ed25519_sign(const uint8_t seed[ED25519_KEY_LEN], const void *buf, size_t len,
		 uint8_t ret_sig[ED25519_SIG_LEN], struct err *e)
{
	EVP_PKEY *key =
		EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, ED25519_KEY_LEN);
	EVP_MD_CTX *ctx = key ? EVP_MD_CTX_new() : NULL;
	int rc = sign_with(ctx, key, buf, len, ret_sig, e);

	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	return rc;
}

/* The key in libcrypto's form; making it anew costs more than a signature. */
struct ed25519_signer {
	EVP_MD_CTX *ctx; /* holds the key */
	struct ed25519_public pub;
};

int ed25519_signer_new(const uint8_t seed[ED25519_KEY_LEN], struct ed25519_signer **ret,
		       struct err *e)
{
	struct ed25519_signer *s = calloc(1, sizeof(*s));
	size_t n = sizeof(s->pub.key);

	if (!s)
		return err_set(e, ENOMEM, "ed25519: out of memory");
	EVP_PKEY *key =
		EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, ED25519_KEY_LEN);
	s->ctx = EVP_MD_CTX_new();
	bool good = key && s->ctx && EVP_PKEY_get_raw_public_key(key, s->pub.key, &n) == 1 &&
		    EVP_DigestSignInit(s->ctx, NULL, NULL, NULL, key) == 1;
	EVP_PKEY_free(key); /* the context has its own reference */
	if (!good) {
		ed25519_signer_free(s);
		return err_set(e, EIO, "ed25519: libcrypto gave no key");
	}
	*ret = s;
	return 0;
}

int ed25519_signer_sign(const struct ed25519_signer *s, const void *buf, size_t len,
			uint8_t ret_sig[ED25519_SIG_LEN], struct err *e)
{
	return sign_with(s->ctx, NULL, buf, len, ret_sig, e);
}

void ed25519_signer_public(const struct ed25519_signer *s, struct ed25519_public *ret)
{
	*ret = s->pub;
}

void ed25519_signer_free(struct ed25519_signer *s)
{
	if (!s)
		return;
	EVP_MD_CTX_free(s->ctx); /* libcrypto zeroes the key */
	free(s);
}

int ed25519_public_of(const uint8_t seed[ED25519_KEY_LEN], struct ed25519_public *ret,
		      struct err *e)
{
	EVP_PKEY *key =
		EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, ED25519_KEY_LEN);
	size_t n = sizeof(ret->key);
	bool good = key && EVP_PKEY_get_raw_public_key(key, ret->key, &n) == 1;

	EVP_PKEY_free(key);
	return good ? 0 : err_set(e, EIO, "ed25519: libcrypto gave no public key");
}

/* The base64 of one block, line ends taken out; 0 when it is no Ed25519 key. */
static bool read_block(const char *body, size_t len, struct ed25519_public *ret)
{
	char text[BASE64_MAX(DER_LEN)];
	uint8_t der[DER_LEN];
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (body[i] == '\n' || body[i] == '\r')
			continue;
		if (n == sizeof(text))
			return false;
		text[n++] = body[i];
	}
	if (base64_decode(text, n, der, sizeof(der)) != DER_LEN ||
	    memcmp(der, spki, sizeof(spki)) != 0)
		return false;
	memcpy(ret->key, der + sizeof(spki), sizeof(ret->key));
	return true;
}

int ed25519_public_read(const char *text, size_t len, struct ed25519_public *ret, size_t max,
			struct err *e)
{
	const char *end = text + len, *p = text;
	int n = 0;

	if (memmem(text, len, "PRIVATE", 7))
		return err_set(e, EPERM, "private key material where only public keys belong");
	for (; (p = memmem(p, (size_t)(end - p), "-----BEGIN", 10)); n++) {
		size_t left = (size_t)(end - p);
		if (left < sizeof(pem_begin) || memcmp(p, pem_begin, sizeof(pem_begin) - 1) != 0)
			return err_set(e, EINVAL, "key %d is not a PEM public key", n + 1);
		const char *body = p + sizeof(pem_begin) - 1;
		const char *stop =
			memmem(body, (size_t)(end - body), pem_end, sizeof(pem_end) - 1);
		if ((size_t)n == max)
			return err_set(e, E2BIG, "more than %zu public keys", max);
		if (!stop || !read_block(body, (size_t)(stop - body), &ret[n]))
			return err_set(e, EINVAL, "key %d is not an Ed25519 public key", n + 1);
		p = stop;
	}
	return n ? n : err_set(e, EINVAL, "there is no public key");
}

void ed25519_public_pem(const struct ed25519_public *pub, char *out)
{
	uint8_t der[DER_LEN];
	size_t n = sizeof(pem_begin) - 1;

	memcpy(der, spki, sizeof(spki));
	memcpy(der + sizeof(spki), pub->key, sizeof(pub->key));
	memcpy(out, pem_begin, n);
	out[n++] = '\n';
	n += base64_encode(der, sizeof(der), out + n);
	out[n++] = '\n';
	memcpy(out + n, pem_end, sizeof(pem_end) - 1);
	n += sizeof(pem_end) - 1;
	memcpy(out + n, "\n", 2);
}

void ed25519_id(const struct ed25519_public *pub, char ret[ED25519_ID_MAX])
{
	uint8_t d[DIGEST_LEN];

	digest_sha256(pub->key, sizeof(pub->key), d);
	memcpy(ret, "ed25519:", 8);
	digest_hex(d, 16, ret + 8);
}
