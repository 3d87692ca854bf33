/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an envelope: never a yes, because nobody has signed them. The
 * one envelope that was signed is a yes, and stays the only one.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"
#include "receipt/statement.h"

static struct secret_set *keys;
static struct ed25519_public trusted;
static struct receipt receipt;
static char *good;

static void prepare(void)
{
	static const char *const none[] = { NULL };
	uint8_t d[DIGEST_LEN] = { 7 };
	struct err e;

	receipt_success(&receipt, RECEIPT_TOOL, 1, d, d, d);
	assert(secrets_from_key(1, "attestation", 11, &keys, &e) == 0);
	assert(receipt_sign(&receipt, keys, &e) == 0);
	assert(statement_public(secrets_current(keys), &trusted, &e) == 0);
	struct statement s = { .receipt = &receipt, .job_id = "job", .command_id = "cmd",
			       .termination = "exited", .guards_on = none, .guards_off = none,
			       .guards_missing = none, .capabilities = none };
	assert(statement_sign(&s, keys, &good, &e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *v = NULL;
	struct err e = { 0 };

	if (!good)
		prepare();
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	text[size] = '\0';
	int rc = statement_verify(text, size, &trusted, 1, &v, &e);
	assert(rc < 0 && !v && e.msg[0]);
	free(text);
	/* The signed one with bytes of the input over it: a yes only where it says the same. */
	size_t n = strlen(good), at = size ? data[0] * 7919u % n : 0;
	char *bent = strdup(good);
	for (size_t i = 1; i < size && i < 8 && at + i < n; i++)
		bent[at + i] = (char)data[i];
	v = NULL;
	rc = statement_verify(bent, n, &trusted, 1, &v, &e);
	if (strcmp(bent, good) == 0)
		assert(rc == 0 && v);
	if (rc == 0)
		json_decref(v);
	free(bent);
	return 0;
}
