/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, HMAC and hexadecimal against published vectors (FIPS 180-4, RFC 4231). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/fd.h"
#include "digest/digest.h"

static void assert_hex(const uint8_t *d, const char *want)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(d, DIGEST_LEN, hex);
	assert_string_equal(hex, want);
}

static void sha256_gives_the_published_digests(void **s)
{
	uint8_t d[DIGEST_LEN];

	(void)s;
	digest_sha256("", 0, d);
	assert_hex(d, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	digest_sha256("abc", 3, d);
	assert_hex(d, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void streaming_equals_one_shot_and_starts_afresh(void **s)
{
	struct digest *d = digest_new();
	uint8_t one[DIGEST_LEN], many[DIGEST_LEN];
	char text[1000];

	(void)s;
	assert_non_null(d);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7);
	digest_sha256(text, sizeof(text), one);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(text); i += 8)
			digest_add(d, text + i, 8);
		digest_end(d, many);
		assert_memory_equal(one, many, sizeof(one));
	}
	digest_free(d);
	digest_free(NULL);
}

/* RFC 4231, test cases 1, 2, 6 and 7: short, text and longer-than-a-block keys. */
static void hmac_gives_the_published_codes(void **s)
{
	static const struct {
		uint8_t fill;
		size_t klen;
		const char *key, *text, *want;
	} rows[] = {
		{ 0x0b, 20, NULL, "Hi There",
		  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ 0, 4, "Jefe", "what do ya want for nothing?",
		  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
		{ 0xaa, 131, NULL, "Test Using Larger Than Block-Size Key - Hash Key First",
		  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
		{ 0xaa, 131, NULL,
		  "This is a test using a larger than block-size key and a larger than "
		  "block-size data. The key needs to be hashed before being used by the HMAC "
		  "algorithm.",
		  "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
	};
	uint8_t key[200], d[DIGEST_LEN];

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(key, rows[i].fill, sizeof(key));
		digest_hmac_sha256(rows[i].key ? (const void *)rows[i].key : key, rows[i].klen,
				   rows[i].text, strlen(rows[i].text), d);
		assert_hex(d, rows[i].want);
	}
}

static void a_descriptor_is_hashed_from_its_position(void **s)
{
	struct err e;
	uint8_t d[DIGEST_LEN];
	uint64_t len = 0;
	int fd = fd_sealed("test", "xxabc", 5, &e);

	(void)s;
	assert_true(fd >= 0);
	lseek(fd, 2, SEEK_SET);
	assert_int_equal(digest_fd(fd, d, &len, &e), 0);
	assert_int_equal(len, 3);
	assert_hex(d, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	close(fd);
	assert_int_equal(digest_fd(-1, d, NULL, &e), -EBADF);
	assert_int_equal(e.code, EBADF);
}

static void unhex_takes_exact_lower_case_only(void **s)
{
	static const char *const bad[] = { "", "0", "00f", "00ff0", "00FF", "00fg", "0 ff", "00ff00" };
	uint8_t out[2];

	(void)s;
	assert_int_equal(digest_unhex("00ff", out, 2), 0);
	assert_int_equal(out[0], 0);
	assert_int_equal(out[1], 0xff);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(digest_unhex(bad[i], out, 2), -EINVAL);
}

static void random_bytes_differ_and_equality_is_exact(void **s)
{
	uint8_t a[64] = { 0 }, b[64] = { 0 };

	(void)s;
	assert_int_equal(digest_random(a, sizeof(a)), 0);
	assert_int_equal(digest_random(b, sizeof(b)), 0);
	assert_false(digest_equal(a, b, sizeof(a)));
	memcpy(b, a, sizeof(a));
	assert_true(digest_equal(a, b, sizeof(a)));
	for (size_t bit = 0; bit < 8 * sizeof(b); bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(digest_equal(a, b, sizeof(a)));
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	digest_wipe(a, sizeof(a));
	for (size_t i = 0; i < sizeof(a); i++)
		assert_int_equal(a[i], 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sha256_gives_the_published_digests),
		cmocka_unit_test(streaming_equals_one_shot_and_starts_afresh),
		cmocka_unit_test(hmac_gives_the_published_codes),
		cmocka_unit_test(a_descriptor_is_hashed_from_its_position),
		cmocka_unit_test(unhex_takes_exact_lower_case_only),
		cmocka_unit_test(random_bytes_differ_and_equality_is_exact),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
