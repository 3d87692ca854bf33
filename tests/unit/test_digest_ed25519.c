/* SPDX-License-Identifier: Apache-2.0 */
/* Ed25519 against RFC 8032 and the openssl command line; keys in PEM, public only. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "digest/digest.h"
#include "digest/ed25519.h"

/* RFC 8032, 7.1, tests 1 to 3. */
/* A kept signer says the same again and again, also after another text. */
static void kept_signer_says(const uint8_t seed[32], const void *text, size_t n,
			     const uint8_t want[64])
{
	struct ed25519_signer *signer;
	uint8_t sig[64];
	struct err e;

	assert_int_equal(ed25519_signer_new(seed, &signer, &e), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ed25519_signer_sign(signer, "other", 5, sig, &e), 0);
		assert_memory_not_equal(sig, want, 64);
		assert_int_equal(ed25519_signer_sign(signer, text, n, sig, &e), 0);
		assert_memory_equal(sig, want, 64);
	}
	ed25519_signer_free(signer);
}

static void signatures_are_those_of_rfc_8032(void **s)
{
	static const struct {
		const char *seed, *pub, *text, *sig;
	} rows[] = {
		{ "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
		  "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
		  "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac"
		  "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b" },
		{ "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
		  "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
		  "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e"
		  "458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00" },
		{ "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
		  "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
		  "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290"
		  "ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a" },
	};
	struct err e;

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint8_t seed[32], text[2], sig[64], want[64];
		struct ed25519_public pub, want_pub;
		size_t n = strlen(rows[i].text) / 2;
		assert_int_equal(digest_unhex(rows[i].seed, seed, 32), 0);
		assert_int_equal(digest_unhex(rows[i].pub, want_pub.key, 32), 0);
		assert_int_equal(digest_unhex(rows[i].text, text, n), 0);
		assert_int_equal(digest_unhex(rows[i].sig, want, 64), 0);
		assert_int_equal(ed25519_public_of(seed, &pub, &e), 0);
		assert_memory_equal(pub.key, want_pub.key, 32);
		assert_int_equal(ed25519_sign(seed, text, n, sig, &e), 0);
		assert_memory_equal(sig, want, 64);
		assert_true(ed25519_verify(&pub, text, n, sig));
		kept_signer_says(seed, text, n, want);
		for (int bit = 0; bit < 512; bit++) {
			sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_false(ed25519_verify(&pub, text, n, sig));
			sig[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}

static size_t openssl(const char *args, char *out, size_t cap)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "openssl %s 2>/dev/null", args);
	FILE *f = popen(cmd, "r");
	size_t n = fread(out, 1, cap - 1, f);
	out[n] = '\0';
	assert_int_equal(pclose(f), 0);
	return n;
}

static void pem_of_openssl_is_read_and_written(void **s)
{
	char pem[512], mine[ED25519_PEM_MAX], two[1200];
	struct ed25519_public pub, many[2];
	struct err e;

	(void)s;
	size_t n = openssl("genpkey -algorithm ed25519 | openssl pkey -pubout", pem, sizeof(pem));
	assert_int_equal(ed25519_public_read(pem, n, &pub, 1, &e), 1);
	ed25519_public_pem(&pub, mine);
	assert_string_equal(mine, pem);
	snprintf(two, sizeof(two), "# trusted\n%s\n%s", pem, pem);
	assert_int_equal(ed25519_public_read(two, strlen(two), many, 2, &e), 2);
	assert_memory_equal(&many[1], &pub, sizeof(pub));
	assert_int_equal(ed25519_public_read(two, strlen(two), many, 1, &e), -E2BIG);
	for (size_t cut = 0; cut < n - 1; cut++)
		assert_true(ed25519_public_read(pem, cut, &pub, 1, &e) < 0);
}

static void private_and_foreign_keys_are_refused(void **s)
{
	static const struct {
		const char *args;
		int code;
	} rows[] = {
		{ "genpkey -algorithm ed25519", EPERM },
		{ "genpkey -algorithm ed25519 -aes-128-cbc -pass pass:x", EPERM },
		{ "genpkey -algorithm x25519", EPERM },
		{ "genpkey -algorithm x25519 | openssl pkey -pubout", EINVAL },
		{ "ecparam -name prime256v1 -genkey -noout | openssl ec -pubout", EINVAL },
		{ "ecparam -name prime256v1 -genkey -noout", EPERM },
	};
	char text[4096];
	struct ed25519_public pub;
	struct err e;

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = openssl(rows[i].args, text, sizeof(text));
		assert_true(n > 0);
		assert_int_equal(ed25519_public_read(text, n, &pub, 1, &e), -rows[i].code);
	}
	/* a good public key does not excuse a private one beside it */
	size_t n = openssl("genpkey -algorithm ed25519 | tee /dev/stderr | openssl pkey -pubout", text,
			   sizeof(text));
	snprintf(text + n, sizeof(text) - n, "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n");
	assert_int_equal(ed25519_public_read(text, strlen(text), &pub, 1, &e), -EPERM);
	assert_int_equal(ed25519_public_read("", 0, &pub, 1, &e), -EINVAL);
	assert_int_equal(ed25519_public_read("d75a98", 6, &pub, 1, &e), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(signatures_are_those_of_rfc_8032),
		cmocka_unit_test(pem_of_openssl_is_read_and_written),
		cmocka_unit_test(private_and_foreign_keys_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
