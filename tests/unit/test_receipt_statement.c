/* SPDX-License-Identifier: Apache-2.0 */
/* T3: what the statement says, who can verify it, and what no signature covers for. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fd.h"
#include "digest/base64.h"
#include "receipt/statement.h"

static struct secret_set *keys, *other_keys;
static struct ed25519_public trusted, stranger;
static struct receipt receipt;

static int start(void **state)
{
	uint8_t d[DIGEST_LEN] = { 7 };
	struct err e;

	(void)state;
	receipt_success(&receipt, RECEIPT_TOOL, 1, d, d, d);
	return secrets_from_key(4, "attestation", 11, &keys, &e) ||
	       secrets_from_key(4, "other", 5, &other_keys, &e) || receipt_sign(&receipt, keys, &e) ||
	       statement_public(secrets_current(keys), &trusted, &e) ||
	       statement_public(secrets_current(other_keys), &stranger, &e);
}

static int stop(void **state)
{
	(void)state;
	secrets_free(keys);
	secrets_free(other_keys);
	return 0;
}

static const uint8_t layers[1][DIGEST_LEN] = { { 3 } };
static const struct statement_skill skills[] = { { "pdf", { 5 } } };
static const char *const on[] = { "seccomp", "userns", NULL }, *const off[] = { NULL },
		  *const missing[] = { "nft", NULL }, *const caps[] = { "FileRead", "Subprocess", NULL };

static struct statement measured(void)
{
	return (struct statement){
		.receipt = &receipt, .job_id = "job", .command_id = "cmd", .termination = "exited",
		.exit_code = 3, .memory_bytes = 1 << 30, .timeout_ms = 120000, .pids = 256,
		.layers = layers, .nlayers = 1, .skills = skills, .nskills = 1,
		.skills_lookups = 12, .skills_served_bytes = 34567, .kernel_bytes = 900,
		.gateway_bytes = 800, .capabilities = caps, .isolation = "container", .guards_on = on,
		.guards_off = off, .guards_missing = missing, .lost_events = 2,
	};
}

static char *sign(void)
{
	struct statement s = measured();
	char *text = NULL;
	struct err e;

	assert_int_equal(statement_sign(&s, keys, &text, &e), 0);
	return text;
}

static int verify(const char *text, const struct ed25519_public *key, size_t n)
{
	json_t *v = NULL;
	struct err e = { 0 };
	int rc = statement_verify(text, strlen(text), key, n, &v, &e);

	assert_int_equal(rc == 0, v != NULL);
	assert_int_equal(rc == 0, e.code == 0);
	json_decref(v);
	return rc;
}

static void the_statement_says_what_was_measured(void **state)
{
	autofree char *text = sign();
	auto_json json_t *v = NULL;
	struct err e;

	(void)state;
	assert_int_equal(statement_verify(text, strlen(text), &trusted, 1, &v, &e), 0);
	const json_t *p = json_object_get(v, "predicate");
	static const char *const members[] = { "signer", "receipt", "jobId", "commandId", "end", "limits",
		"image", "layers", "standardError", "network", "skills", "enforcement", "lostEvents" };
	assert_int_equal(json_object_size(p), ARRAY_SIZE(members));
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		assert_non_null(json_object_get(p, members[i]));
	const json_t *end = json_object_get(p, "end");
	assert_int_equal(json_integer_value(json_object_get(end, "exitCode")), 3);
	assert_true(json_is_null(json_object_get(end, "signal")));
	assert_int_equal(json_integer_value(json_object_get(p, "lostEvents")), 2);
	auto_json json_t *mine = receipt_to_json(&receipt);
	assert_true(json_equal(json_object_get(p, "receipt"), mine));
}

static void a_third_party_verifies_with_openssl(void **state)
{
	autofree char *text = sign();
	char dir[] = "/tmp/cordon-dsse-XXXXXX", path[64], pem_path[64], pem[ED25519_PEM_MAX], cmd[256];
	struct err e;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/envelope", dir);
	snprintf(pem_path, sizeof(pem_path), "%s/pem", dir);
	assert_int_equal(fd_replace_file(-1, path, text, strlen(text), 0600, &e), 0);
	const struct ed25519_public *who[] = { &trusted, &stranger };
	for (int i = 0; i < 2; i++) {
		ed25519_public_pem(who[i], pem);
		assert_int_equal(fd_replace_file(-1, pem_path, pem, strlen(pem), 0600, &e), 0);
		snprintf(cmd, sizeof(cmd), "/usr/bin/python3 tests/lib/dsse.py %s %s >/dev/null 2>&1", path,
			 pem_path);
		assert_int_equal(system(cmd) != 0, i == 1);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf -- %s", dir);
	assert_int_equal(system(cmd), 0);
}

static void without_a_trust_store_there_is_no_yes(void **state)
{
	autofree char *text = sign();

	(void)state;
	assert_int_equal(verify(text, NULL, 0), -ENOKEY);
	assert_int_equal(verify(text, &trusted, 0), -ENOKEY);
	assert_int_equal(verify(text, NULL, 1), -ENOKEY);
	assert_int_equal(verify(text, &stranger, 1), -EKEYREJECTED);
	struct ed25519_public both[] = { stranger, trusted };
	assert_int_equal(verify(text, both, 2), 0);
}

/* Re-signs a changed statement with @set's key and puts @keyid on the envelope. */
static char *forge(const struct secret_set *set, const char *keyid, const char *inner_id, const char *alg)
{
	struct statement s = measured();
	uint8_t seed[32], sig[64];
	char message[8192], body[8192], sig_text[100], *out = NULL;
	struct err e;
	auto_json json_t *v = statement_build(&s, &trusted, &e);
	json_t *signer = json_object_get(json_object_get(v, "predicate"), "signer");

	json_object_set_new(signer, "keyid", json_string(inner_id));
	json_object_set_new(signer, "alg", json_string(alg));
	autofree char *payload = json_dump_compact(v, NULL);
	int n = snprintf(message, sizeof(message), "DSSEv1 28 application/vnd.in-toto+json %zu %s",
			 strlen(payload), payload);
	assert_true(n > 0 && (size_t)n < sizeof(message));
	statement_seed(secrets_current(set), seed);
	assert_int_equal(ed25519_sign(seed, message, (size_t)n, sig, &e), 0);
	base64_encode(payload, strlen(payload), body);
	base64_encode(sig, 64, sig_text);
	assert_true(asprintf(&out, "{\"payload\":\"%s\",\"payloadType\":\"%s\",\"signatures\":[{\"keyid\":\"%s\","
				   "\"sig\":\"%s\"}]}", body, STATEMENT_PAYLOAD, keyid, sig_text) > 0);
	return out;
}

static void key_id_and_algorithm_are_covered(void **state)
{
	char good[ED25519_ID_MAX], bad[ED25519_ID_MAX];

	(void)state;
	ed25519_id(&trusted, good);
	ed25519_id(&stranger, bad);
	autofree char *right = forge(keys, good, good, "ed25519");
	autofree char *outside = forge(keys, bad, good, "ed25519");
	autofree char *inside = forge(keys, good, bad, "ed25519");
	autofree char *alg = forge(keys, good, good, "none");
	autofree char *self_supplied = forge(other_keys, good, good, "ed25519");
	assert_int_equal(verify(right, &trusted, 1), 0);
	assert_int_equal(verify(outside, &trusted, 1), -EKEYREJECTED);
	assert_int_equal(verify(inside, &trusted, 1), -EKEYREJECTED);
	assert_int_equal(verify(alg, &trusted, 1), -EKEYREJECTED);
	assert_int_equal(verify(self_supplied, &trusted, 1), -EKEYREJECTED);
}

static void every_changed_byte_is_refused(void **state)
{
	autofree char *text = sign();

	(void)state;
	for (size_t i = 0; text[i]; i++) {
		char was = text[i];
		text[i] ^= 1;
		if (verify(text, &trusted, 1) == 0)
			fail_msg("byte %zu", i);
		text[i] = was;
	}
}

static void an_envelope_out_of_form_is_refused(void **state)
{
	static const char *const bad[] = {
		"", "{}", "[]", "null", "{\"payload\":\"\",\"payloadType\":\"x\",\"signatures\":[]}",
		"{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[]}",
		"{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[1]}",
		"{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[{}],\"key\":\"x\"}",
		"{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[{\"keyid\":\"x\",\"sig\":\"\"}]}",
	};
	autofree char *text = sign();
	autofree char *twice = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(verify(bad[i], &trusted, 1), -EINVAL);
	assert_true(asprintf(&twice, "%s%s", text, text) > 0);
	assert_int_equal(verify(twice, &trusted, 1), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_statement_says_what_was_measured),
		cmocka_unit_test(a_third_party_verifies_with_openssl),
		cmocka_unit_test(without_a_trust_store_there_is_no_yes),
		cmocka_unit_test(key_id_and_algorithm_are_covered),
		cmocka_unit_test(every_changed_byte_is_refused),
		cmocka_unit_test(an_envelope_out_of_form_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, start, stop);
}
