/* SPDX-License-Identifier: Apache-2.0 */
/*
 * T1 and T2: two golden vectors (computed with the openssl command line and
 * printf alone), the same openssl run again, and every change named.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "digest/base64.h"
#include "receipt/receipt.h"

#define START_NS 1767323045123456789u /* 2026-01-02 03:04:05.123456789 UTC */

#define KEY "golden-attestation-key"

static struct secret_set *keys(uint32_t version, const char *key)
{
	struct secret_set *set = NULL;

	assert_int_equal(secrets_from_key(version, key, strlen(key), &set, NULL), 0);
	return set;
}

static struct receipt success(void)
{
	static const char *const argv[] = { "bash", "-c", "echo hi" };
	static const char *const hosts[] = { "pypi.org", "files.pythonhosted.org" };
	uint8_t in[DIGEST_LEN], out[DIGEST_LEN], egress[DIGEST_LEN];
	struct receipt r;
	struct err e;

	assert_int_equal(receipt_input(argv, 3, "", 0, in, &e), 0);
	digest_sha256("hi\n", 3, out);
	assert_int_equal(receipt_egress("allowlist", hosts, 2, 1000, egress, &e), 0);
	receipt_success(&r, RECEIPT_TOOL, START_NS, in, out, egress);
	return r;
}

static struct receipt failure(void)
{
	static const char *const argv[] = { "true" };
	uint8_t in[DIGEST_LEN];
	struct receipt r;
	struct err e;

	assert_int_equal(receipt_input(argv, 1, "stdin\0bytes", 11, in, &e), 0);
	receipt_failure(&r, RECEIPT_TOOL, 0, in, "timeout");
	return r;
}

static struct receipt signed_by(struct receipt r, struct secret_set *k)
{
	struct err e;

	assert_int_equal(receipt_sign(&r, k, &e), 0);
	return r;
}

/* What the shell's own tools make of a line. */
static void shell(const char *line, char *out, size_t cap)
{
	FILE *f = popen(line, "r");
	size_t n = fread(out, 1, cap - 1, f);

	while (n && out[n - 1] == '\n')
		n--;
	out[n] = '\0';
	assert_int_equal(pclose(f), 0);
}

static const char script_success[] =
	"set -e; h() { openssl dgst -sha256 -r | cut -d' ' -f1; };"
	"t=\"sandbox_execute|$(printf '3\\000bash\\000-c\\000echo hi\\000' | h)|$(printf 'hi\\n' | h)"
	"|2026-01-02T03:04:05.1234567+00:00|egress:$(printf '%s' "
	"'{\"tier\":\"allowlist\",\"hosts\":[\"files.pythonhosted.org\",\"pypi.org\"],\"maxBytes\":1000}' | h)\";"
	"printf '%s' \"$t\" | openssl dgst -sha256 -hmac " KEY " -binary | openssl base64 -A";

static const char script_failure[] =
	"set -e; h() { openssl dgst -sha256 -r | cut -d' ' -f1; };"
	"t=\"sandbox_execute|$(printf '1\\000true\\000stdin\\000bytes' | h)|null|$(printf timeout | h)"
	"|1970-01-01T00:00:00.0000000+00:00\";"
	"printf '%s' \"$t\" | openssl dgst -sha256 -hmac " KEY " -binary | openssl base64 -A";

static void assert_signature(const struct receipt *r, const char *want)
{
	char sig[BASE64_MAX(DIGEST_LEN)];

	base64_encode(r->signature, DIGEST_LEN, sig);
	assert_string_equal(sig, want);
}

#define GOLDEN_SUCCESS_SIGNATURE "HiNhj3L5pcknNtcBFo5SM8l3OZiJnHut0RFMCGxNSpE="
#define GOLDEN_FAILURE_SIGNATURE "VcQ5I1QE5kMrcokaplYyI98GVkR2f44s5OeqvFtaAUQ="
#define GOLDEN_SUCCESS_TEXT \
	"sandbox_execute|" \
	"dceb7616b0ca5ea9a922108ff45254df95193831be6d4c3fefa25c7400141528|" \
	"98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4|" \
	"2026-01-02T03:04:05.1234567+00:00|" \
	"egress:97c0720df3fa8863e13a8969157651530145fba11b59094b46af5277bf395125"
#define GOLDEN_FAILURE_TEXT \
	"sandbox_execute|" \
	"d663fc117c85252e23dd5d72361aa4e9b51806d9bf7174897fae94f95f20df07|" \
	"null|" \
	"f77d1bb58da886e3cbeebbf35a0b3d217b003506792268052c6a730fbc5ec9bc|" \
	"1970-01-01T00:00:00.0000000+00:00"

static void two_golden_vectors_stand(void **state)
{
	struct secret_set *k = keys(1, KEY);
	struct receipt s = signed_by(success(), k), f = signed_by(failure(), k);
	char text[RECEIPT_TEXT_MAX];

	(void)state;
	assert_int_equal(receipt_text(&s, text), strlen(GOLDEN_SUCCESS_TEXT));
	assert_string_equal(text, GOLDEN_SUCCESS_TEXT);
	assert_signature(&s, GOLDEN_SUCCESS_SIGNATURE);
	receipt_text(&f, text);
	assert_string_equal(text, GOLDEN_FAILURE_TEXT);
	assert_signature(&f, GOLDEN_FAILURE_SIGNATURE);
	secrets_free(k);
}

static void the_openssl_command_line_agrees(void **state)
{
	struct secret_set *k = keys(1, KEY);
	struct receipt s = signed_by(success(), k), f = signed_by(failure(), k);
	char sig[256];

	(void)state;
	shell(script_success, sig, sizeof(sig));
	assert_signature(&s, sig);
	shell(script_failure, sig, sizeof(sig));
	assert_signature(&f, sig);
	secrets_free(k);
}

static void json_round_trips_and_says_null(void **state)
{
	struct secret_set *k = keys(3, KEY);
	struct receipt all[2] = { signed_by(success(), k), signed_by(failure(), k) };
	struct err e;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct receipt back;
		auto_json json_t *v = receipt_to_json(&all[i]);
		assert_non_null(v);
		assert_int_equal(json_object_size(v), 8);
		assert_int_equal(json_is_null(json_object_get(v, "outputHash")), i == 1);
		assert_int_equal(json_is_null(json_object_get(v, "egressDigest")), i == 1);
		assert_int_equal(json_is_null(json_object_get(v, "failureHash")), i == 0);
		assert_int_equal(json_integer_value(json_object_get(v, "keyVersion")), 3);
		assert_int_equal(receipt_from_json(v, &back, &e), 0);
		assert_memory_equal(&back, &all[i], sizeof(back));
	}
	secrets_free(k);
}

static void json_out_of_form_is_refused_by_key(void **state)
{
	static const struct {
		const char *key, *value; /* NULL: the key taken away */
	} rows[] = {
		{ "tool", NULL }, { "tool", "7" }, { "inputHash", "null" }, { "inputHash", "\"00\"" },
		{ "inputHash", "\"ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD\"" },
		{ "outputHash", "null" }, { "outputHash", NULL }, { "outputHash", "\"x\"" },
		{ "failureHash", "\"x\"" }, { "failureHash", NULL }, { "timestamp", "\"2026\"" },
		{ "timestamp", "\"2026-01-02T03:04:05.1234567+01:00\"" },
		{ "timestamp", "\"2026-01-02 03:04:05.1234567+00:00\"" },
		{ "timestamp", "\"2026-01-02T03:04:05.1234567+00:00 \"" },
		{ "egressDigest", "null" }, { "keyVersion", "\"1\"" }, { "keyVersion", "-1" },
		{ "keyVersion", "4294967296" }, { "keyVersion", "1.0" }, { "signature", "\"\"" },
		{ "signature", "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"" }, { "extra", "1" },
	};
	struct secret_set *k = keys(1, KEY);
	struct receipt r = signed_by(success(), k), back;
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *v = receipt_to_json(&r);
		if (rows[i].value)
			json_object_set_new(v, rows[i].key, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
		else
			json_object_del(v, rows[i].key);
		if (receipt_from_json(v, &back, &e) != -EINVAL)
			fail_msg("row %zu was accepted", i);
		if (!strstr(e.msg, rows[i].key) && strcmp(rows[i].key, "outputHash") != 0)
			fail_msg("row %zu: '%s' does not name %s", i, e.msg, rows[i].key);
	}
	secrets_free(k);
}

static unsigned verdict(const struct receipt *r, const struct secret_set *k, const struct receipt_facts *f)
{
	struct receipt_verdict v = receipt_verify(r, k, f);

	assert_int_equal(v.is_valid, v.mismatches == 0);
	return v.mismatches;
}

static void verification_names_what_differs(void **state)
{
	struct secret_set *k = keys(1, KEY);
	struct receipt s = signed_by(success(), k), f = signed_by(failure(), k), x;
	struct receipt_facts none = { 0 }, all = { s.input, s.output, s.egress, NULL };
	uint8_t other[DIGEST_LEN] = { 0 };

	(void)state;
	assert_int_equal(verdict(&s, k, &none), 0);
	assert_int_equal(verdict(&s, k, &all), 0);
	all.input = other;
	assert_int_equal(verdict(&s, k, &all), RECEIPT_INPUT);
	all.output = other;
	all.egress = other;
	assert_int_equal(verdict(&s, k, &all), RECEIPT_INPUT | RECEIPT_OUTPUT | RECEIPT_EGRESS);
	all = (struct receipt_facts){ f.input, NULL, NULL, "timeout" };
	assert_int_equal(verdict(&f, k, &all), 0);
	all.failure_code = "cancelled";
	assert_int_equal(verdict(&f, k, &all), RECEIPT_FAILURE);
	/* a success shown as a failure, and the other way round */
	assert_int_equal(verdict(&s, k, &all), RECEIPT_INPUT | RECEIPT_FAILURE);
	all = (struct receipt_facts){ f.input, f.output, f.egress, NULL };
	assert_int_equal(verdict(&f, k, &all), RECEIPT_OUTPUT | RECEIPT_EGRESS);
	x = s, x.is_failure = true;
	assert_int_equal(verdict(&x, k, &none), RECEIPT_SIGNATURE);
	assert_string_equal(receipt_part_name(RECEIPT_OUTPUT), "outputHash");
	assert_string_equal(receipt_part_name(RECEIPT_KEY_VERSION), "keyVersion");
	assert_null(receipt_part_name(0));
	assert_null(receipt_part_name(1u << RECEIPT_PARTS));
	secrets_free(k);
}

static void every_bit_of_what_is_signed_counts(void **state)
{
	static const struct {
		size_t offset, size;
		bool of_failure, of_success;
	} spans[] = {
		{ offsetof(struct receipt, tool), sizeof(RECEIPT_TOOL) - 1, true, true },
		{ offsetof(struct receipt, input), DIGEST_LEN, true, true },
		{ offsetof(struct receipt, output), DIGEST_LEN, false, true },
		{ offsetof(struct receipt, failure), DIGEST_LEN, true, false },
		{ offsetof(struct receipt, egress), DIGEST_LEN, false, true },
		{ offsetof(struct receipt, timestamp), RECEIPT_TIME_LEN, true, true },
		{ offsetof(struct receipt, signature), DIGEST_LEN, true, true },
	};
	struct secret_set *k = keys(1, KEY);
	struct receipt all[2] = { signed_by(success(), k), signed_by(failure(), k) };
	struct receipt_facts none = { 0 };

	(void)state;
	for (int which = 0; which < 2; which++)
		for (size_t i = 0; i < ARRAY_SIZE(spans); i++)
			for (size_t bit = 0; bit < 8 * spans[i].size; bit++) {
				struct receipt r = all[which];
				((uint8_t *)&r)[spans[i].offset + bit / 8] ^= (uint8_t)(1 << bit % 8);
				bool counts = which ? spans[i].of_failure : spans[i].of_success;
				assert_int_equal(verdict(&r, k, &none), counts ? RECEIPT_SIGNATURE : 0);
			}
	secrets_free(k);
}

static void another_version_never_verifies(void **state)
{
	struct secret_set *one = keys(1, KEY), *two = keys(2, "another key");
	struct receipt s = signed_by(success(), one);
	struct receipt_facts none = { 0 };

	(void)state;
	assert_int_equal(verdict(&s, one, &none), 0); /* the control */
	assert_int_equal(verdict(&s, two, &none), RECEIPT_KEY_VERSION);
	assert_int_equal(verdict(&s, NULL, &none), RECEIPT_KEY_VERSION);
	s.key_version = 2;
	assert_int_equal(verdict(&s, two, &none), RECEIPT_SIGNATURE);
	assert_int_equal(verdict(&s, one, &none), RECEIPT_KEY_VERSION);
	secrets_free(one);
	secrets_free(two);
}

static void without_a_key_or_a_proper_tool_nothing_is_signed(void **state)
{
	static const char *const bad[] = { "", "a|b", "a b", "tool\n", "ä",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
	struct secret_set *k = keys(1, KEY);
	struct receipt s = success();
	uint8_t d[DIGEST_LEN] = { 0 };
	struct err e;

	(void)state;
	assert_int_equal(receipt_sign(&s, NULL, &e), -ENOKEY);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		receipt_success(&s, bad[i], 0, d, d, d);
		assert_int_equal(receipt_sign(&s, k, &e), -EINVAL);
	}
	receipt_success(&s, "A.b_c-9", 0, d, d, d);
	assert_int_equal(receipt_sign(&s, k, &e), 0);
	secrets_free(k);
}

/* Separators inside arguments: two different commands never share an input digest. */
static void different_commands_have_different_inputs(void **state)
{
	static const struct {
		const char *argv[4];
		size_t argc;
		const char *in;
		size_t in_len;
	} rows[] = {
		{ { "a", "b" }, 2, "", 0 },	  { { "a" }, 1, "b\0", 2 },
		{ { "a" }, 1, "b", 1 },		  { { "ab" }, 1, "", 0 },
		{ { "a", "" }, 2, "b", 1 },	  { { "a", "", "b" }, 3, "", 0 },
		{ { "a b" }, 1, "", 0 },	  { { "a", "b" }, 2, "\0", 1 },
		{ { "" }, 1, "", 0 },		  { { "", "" }, 2, "", 0 },
		{ { "1" }, 1, "", 0 },		  { { "a|b" }, 1, "", 0 },
	};
	uint8_t d[ARRAY_SIZE(rows)][DIGEST_LEN], blob[DIGEST_LEN];
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(receipt_input(rows[i].argv, rows[i].argc, rows[i].in, rows[i].in_len,
					       d[i], &e), 0);
		for (size_t j = 0; j < i; j++)
			assert_memory_not_equal(d[i], d[j], DIGEST_LEN);
	}
	/* the same from the argv memfd's bytes, standard input in pieces */
	struct digest *s = receipt_input_new(2, "a\0b", 4);
	digest_add(s, "", 0);
	digest_add(s, "\0", 1);
	digest_end(s, blob);
	digest_free(s);
	assert_memory_equal(blob, d[7], DIGEST_LEN);
}

static void egress_is_canonical(void **state)
{
	static const char *const ab[] = { "b.example", "a.example:443" }, *const ba[] = { "a.example:443", "b.example" };
	uint8_t one[DIGEST_LEN], two[DIGEST_LEN], want[DIGEST_LEN];
	struct err e;
	const char *text = "{\"tier\":\"none\",\"hosts\":[],\"maxBytes\":null}";

	(void)state;
	receipt_egress("none", NULL, 0, 0, one, &e);
	digest_sha256(text, strlen(text), want);
	assert_memory_equal(one, want, DIGEST_LEN);
	receipt_egress("allowlist", ab, 2, 5, one, &e);
	receipt_egress("allowlist", ba, 2, 5, two, &e);
	assert_memory_equal(one, two, DIGEST_LEN);
	receipt_egress("allowlist", ba, 2, 0, two, &e);
	assert_memory_not_equal(one, two, DIGEST_LEN);
	receipt_egress("allowlist", ba, 1, 5, two, &e);
	assert_memory_not_equal(one, two, DIGEST_LEN);
	receipt_egress("default_internet", ba, 2, 5, two, &e);
	assert_memory_not_equal(one, two, DIGEST_LEN);
}

static void timestamps_are_utc_with_seven_digits(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} rows[] = {
		{ 0, "1970-01-01T00:00:00.0000000+00:00" },
		{ 99, "1970-01-01T00:00:00.0000000+00:00" },
		{ 951782399999999999u, "2000-02-28T23:59:59.9999999+00:00" },
		{ 951782400000000000u, "2000-02-29T00:00:00.0000000+00:00" },
		{ 1709164800000000100u, "2024-02-29T00:00:00.0000001+00:00" },
		{ 1798761599000000000u, "2026-12-31T23:59:59.0000000+00:00" },
		{ 4107542400000000000u, "2100-03-01T00:00:00.0000000+00:00" },
		{ START_NS, "2026-01-02T03:04:05.1234567+00:00" },
	};
	char t[RECEIPT_TIME_LEN + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		receipt_time(rows[i].ns, t);
		assert_string_equal(t, rows[i].want);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_golden_vectors_stand),
		cmocka_unit_test(the_openssl_command_line_agrees),
		cmocka_unit_test(json_round_trips_and_says_null),
		cmocka_unit_test(json_out_of_form_is_refused_by_key),
		cmocka_unit_test(verification_names_what_differs),
		cmocka_unit_test(every_bit_of_what_is_signed_counts),
		cmocka_unit_test(another_version_never_verifies),
		cmocka_unit_test(without_a_key_or_a_proper_tool_nothing_is_signed),
		cmocka_unit_test(different_commands_have_different_inputs),
		cmocka_unit_test(egress_is_canonical),
		cmocka_unit_test(timestamps_are_utc_with_seven_digits),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
