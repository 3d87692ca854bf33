/* SPDX-License-Identifier: Apache-2.0 */
/* S7: a voucher is for one use, and says no to every other with its own code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "digest/base64.h"
#include "session/voucher.h"

#define NOW 1700000000000u
#define TTL 60000u
#define NONCE "nonce-0123456789_ABC"

static const uint8_t seed[32] = { 1, 2, 3 };
static struct ed25519_public trusted;
static struct session who;

static int start(void **state)
{
	struct session_claim c = { "org", "user", "agent_run", "run" };
	struct err e;

	(void)state;
	return session_mint(&c, 0, &who, NULL) || ed25519_public_of(seed, &trusted, &e);
}

static struct voucher_use use_now(uint64_t now)
{
	struct voucher_use u = { .audience = "plane-1", .job = "job-1", .session = &who, .now_ms = now };

	memset(u.command, 0xc0, sizeof(u.command));
	memset(u.egress, 0xe0, sizeof(u.egress));
	return u;
}

static void issue(char *out)
{
	struct voucher_use u = use_now(NOW);
	struct err e;

	assert_int_equal(voucher_issue(seed, &u, NONCE, TTL, out, &e), 0);
}

static enum reason check(const char *text, struct voucher_use u)
{
	struct voucher_nonce n;

	return voucher_check(&trusted, 1, text, text ? strlen(text) : 0, &u, &n);
}

static void the_right_use_is_allowed_and_gives_the_nonce(void **state)
{
	char text[VOUCHER_MAX];
	struct voucher_use u = use_now(NOW + 1);
	struct voucher_nonce n = { 0 };

	(void)state;
	issue(text);
	assert_int_equal(voucher_check(&trusted, 1, text, strlen(text), &u, &n), REASON_NONE);
	assert_string_equal(n.nonce, NONCE);
	assert_int_equal(n.keep_until_ms, NOW + TTL + VOUCHER_SKEW_MS);
}

static void another_use_has_its_own_refusal(void **state)
{
	char text[VOUCHER_MAX];
	struct voucher_use u;
	struct session other = who;

	(void)state;
	issue(text);
	assert_int_equal(check(NULL, use_now(NOW)), REASON_VOUCHER_MISSING);
	assert_int_equal(check("", use_now(NOW)), REASON_VOUCHER_MISSING);
	u = use_now(NOW), u.audience = "plane-2";
	assert_int_equal(check(text, u), REASON_VOUCHER_WRONG_AUDIENCE);
	u = use_now(NOW), u.audience = "";
	assert_int_equal(check(text, u), REASON_VOUCHER_WRONG_AUDIENCE);
	u = use_now(NOW), u.command[31] ^= 1;
	assert_int_equal(check(text, u), REASON_VOUCHER_COMMAND_MISMATCH);
	u = use_now(NOW), u.egress[0] ^= 1;
	assert_int_equal(check(text, u), REASON_VOUCHER_COMMAND_MISMATCH);
	u = use_now(NOW), u.job = "job-2";
	assert_int_equal(check(text, u), REASON_VOUCHER_JOB_MISMATCH);
	u = use_now(NOW), u.session = &other;
	strcpy(other.user_id, "mallory");
	assert_int_equal(check(text, u), REASON_VOUCHER_SESSION_MISMATCH);
	other = who, other.run_id[0] = '\0';
	assert_int_equal(check(text, u), REASON_VOUCHER_SESSION_MISMATCH);
	other = who, other.surface = SURFACE_CHAT;
	assert_int_equal(check(text, u), REASON_VOUCHER_SESSION_MISMATCH);
}

static void time_is_kept_to_the_millisecond_of_its_skew(void **state)
{
	char text[VOUCHER_MAX];

	(void)state;
	issue(text);
	assert_int_equal(check(text, use_now(NOW - VOUCHER_SKEW_MS)), REASON_NONE);
	assert_int_equal(check(text, use_now(NOW - VOUCHER_SKEW_MS - 1)), REASON_VOUCHER_NOT_YET_VALID);
	assert_int_equal(check(text, use_now(NOW + TTL + VOUCHER_SKEW_MS - 1)), REASON_NONE);
	assert_int_equal(check(text, use_now(NOW + TTL + VOUCHER_SKEW_MS)), REASON_VOUCHER_EXPIRED);
	assert_int_equal(check(text, use_now(0)), REASON_VOUCHER_NOT_YET_VALID);
}

static void only_a_trusted_key_counts(void **state)
{
	static const uint8_t other_seed[32] = { 9 };
	struct ed25519_public both[2] = { { { 0 } }, trusted };
	struct voucher_use u = use_now(NOW);
	struct voucher_nonce n;
	char text[VOUCHER_MAX];
	struct err e;

	(void)state;
	assert_int_equal(voucher_issue(other_seed, &u, NONCE, TTL, text, &e), 0);
	assert_int_equal(check(text, u), REASON_VOUCHER_BAD_SIGNATURE);
	issue(text);
	assert_int_equal(voucher_check(&trusted, 0, text, strlen(text), &u, &n),
			 REASON_VOUCHER_BAD_SIGNATURE); /* no trust store: nobody is trusted */
	assert_int_equal(voucher_check(both, 2, text, strlen(text), &u, &n), REASON_NONE);
}

static void every_single_bit_change_is_refused(void **state)
{
	char text[VOUCHER_MAX];

	(void)state;
	issue(text);
	size_t len = strlen(text);
	for (size_t bit = 0; bit < 8 * len; bit++) {
		text[bit / 8] ^= (char)(1 << bit % 8);
		enum reason r = check(text, use_now(NOW));
		assert_true(r == REASON_VOUCHER_MALFORMED || r == REASON_VOUCHER_BAD_SIGNATURE);
		text[bit / 8] ^= (char)(1 << bit % 8);
	}
	for (size_t n = 1; n < len; n++) {
		struct voucher_use u = use_now(NOW);
		struct voucher_nonce nonce;
		enum reason r = voucher_check(&trusted, 1, text, n, &u, &nonce);
		assert_true(r == REASON_VOUCHER_MALFORMED || r == REASON_VOUCHER_BAD_SIGNATURE);
	}
}

/* Signs any payload, as a careless issuer could. */
static enum reason check_payload(const char *json, const char *domain)
{
	char message[4096], text[4096];
	uint8_t sig[64];
	struct err e;
	size_t d = strlen(domain), n;

	memcpy(message, domain, d);
	memcpy(message + d, "v1.", 3);
	n = d + 3 + base64url_encode(json, strlen(json), message + d + 3);
	assert_int_equal(ed25519_sign(seed, message, n, sig, &e), 0);
	memcpy(text, message + d, n - d);
	text[n - d] = '.';
	base64url_encode(sig, sizeof(sig), text + n - d + 1);
	return check(text, use_now(NOW));
}

#define HEX(c) c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c

static void a_signed_payload_out_of_form_is_malformed(void **state)
{
	static const char form[] = "{\"aud\":\"plane-1\",\"job\":\"job-1\",\"session\":\"%s\",\"command\":\"" HEX(
		"c0") "\",\"egress\":\"" HEX("e0") "\",\"nonce\":\"%s\",\"iat\":%s,\"exp\":%s%s}";
	static const struct {
		const char *nonce, *iat, *exp, *tail;
		enum reason want;
	} rows[] = {
		{ NONCE, "1700000000000", "1700000060000", "", REASON_NONE },
		{ NONCE, "1700000000000", "1700000060000", ",\"x\":1", REASON_VOUCHER_MALFORMED },
		{ NONCE, "1700000000000", "1700000060000", ",\"exp\":1800000000000", REASON_VOUCHER_MALFORMED },
		{ NONCE, "1700000000000", "1700000060000", " ", REASON_VOUCHER_MALFORMED },
		{ NONCE, "1700000060000", "1700000060000", "", REASON_VOUCHER_MALFORMED },
		{ NONCE, "\"1\"", "1700000060000", "", REASON_VOUCHER_MALFORMED },
		{ NONCE, "1", "1e99", "", REASON_VOUCHER_MALFORMED },
		{ NONCE, "-1", "1700000060000", "", REASON_VOUCHER_MALFORMED },
		{ NONCE, "1", "null", "", REASON_VOUCHER_MALFORMED },
		{ "short", "1700000000000", "1700000060000", "", REASON_VOUCHER_MALFORMED },
		{ "with space 01234567890", "1700000000000", "1700000060000", "", REASON_VOUCHER_MALFORMED },
		{ HEX("ab") "c", "1700000000000", "1700000060000", "", REASON_VOUCHER_MALFORMED },
		{ NONCE, "1600000000000", "1600000060000", "", REASON_VOUCHER_EXPIRED },
		{ "0123456789abcdef", "1700000000000", "1700000060000", "", REASON_NONE },
		{ "0123456789abcde", "1700000000000", "1700000060000", "", REASON_VOUCHER_MALFORMED },
		{ HEX("ab"), "1700000000000", "1700000060000", "", REASON_NONE },
	};
	uint8_t session[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX], json[2048];

	(void)state;
	voucher_session_digest(&who, session);
	digest_hex(session, sizeof(session), hex);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(json, sizeof(json), form, hex, rows[i].nonce, rows[i].iat, rows[i].exp, rows[i].tail);
		enum reason r = check_payload(json, VOUCHER_DOMAIN);
		if (r != rows[i].want)
			fail_msg("row %zu: %s", i, reason_code(r));
	}
	/* the same signature over the same body, in another domain or none */
	snprintf(json, sizeof(json), form, hex, NONCE, rows[0].iat, rows[0].exp, "");
	assert_int_equal(check_payload(json, ""), REASON_VOUCHER_BAD_SIGNATURE);
	assert_int_equal(check_payload(json, "cordon receipt\n"), REASON_VOUCHER_BAD_SIGNATURE);
	assert_int_equal(check_payload("{}", VOUCHER_DOMAIN), REASON_VOUCHER_MALFORMED);
	assert_int_equal(check_payload("", VOUCHER_DOMAIN), REASON_VOUCHER_MALFORMED);
}

/* A text with the right ends and @len bytes, in a buffer of exactly so many. */
static enum reason check_long(size_t len)
{
	struct voucher_use u = use_now(NOW);
	struct voucher_nonce n;
	char *text = malloc(len);

	assert_non_null(text);
	memset(text, 'A', len);
	memcpy(text, "v1.", 3);
	if (len > 87)
		text[len - 87] = '.';
	enum reason r = voucher_check(&trusted, 1, text, len, &u, &n);
	free(text);
	return r;
}

static void a_text_of_any_other_length_is_malformed(void **state)
{
	(void)state;
	/* What may be a voucher has a signature that is none. */
	assert_int_equal(check_long(VOUCHER_MAX - 1), REASON_VOUCHER_BAD_SIGNATURE);
	assert_int_equal(check_long(VOUCHER_MAX), REASON_VOUCHER_MALFORMED);
	assert_int_equal(check_long(VOUCHER_MAX + 1), REASON_VOUCHER_MALFORMED);
	assert_int_equal(check_long(1 << 20), REASON_VOUCHER_MALFORMED);
	for (size_t len = 3; len < 92; len++)
		assert_true(check_long(len) != REASON_NONE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_right_use_is_allowed_and_gives_the_nonce),
		cmocka_unit_test(another_use_has_its_own_refusal),
		cmocka_unit_test(time_is_kept_to_the_millisecond_of_its_skew),
		cmocka_unit_test(only_a_trusted_key_counts),
		cmocka_unit_test(every_single_bit_change_is_refused),
		cmocka_unit_test(a_signed_payload_out_of_form_is_malformed),
		cmocka_unit_test(a_text_of_any_other_length_is_malformed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, start, NULL);
}
