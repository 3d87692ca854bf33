/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DSSE around a statement: signing, and verifying against keys the verifier
 * brought. The payload's exact bytes are what is signed and what is parsed
 * afterwards, never a rendering of them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "digest/base64.h"
#include "receipt/statement.h"

static const char seed_label[] = "cordon receipt signing, ed25519, 1";

void statement_seed(const struct secret *attestation, uint8_t ret[ED25519_KEY_LEN])
{
	digest_hmac_sha256(attestation->key, attestation->len, seed_label, sizeof(seed_label) - 1,
			   ret);
}

int statement_public(const struct secret *attestation, struct ed25519_public *ret, struct err *e)
{
	uint8_t seed[ED25519_KEY_LEN];

	statement_seed(attestation, seed);
	int rc = ed25519_public_of(seed, ret, e);
	digest_wipe(seed, sizeof(seed));
	return rc;
}

/* DSSE's pre-authentication encoding: every part with its length before it. Caller frees. */
static char *pae(const void *payload, size_t len, size_t *ret_len)
{
	char head[96];
	int n = snprintf(head, sizeof(head), "DSSEv1 %zu %s %zu ", strlen(STATEMENT_PAYLOAD),
			 STATEMENT_PAYLOAD, len);
	char *text = malloc((size_t)n + len);

	if (text) {
		memcpy(text, head, (size_t)n);
		memcpy(text + n, payload, len);
		*ret_len = (size_t)n + len;
	}
	return text;
}

struct statement_signer {
	struct ed25519_signer *key;
	struct ed25519_public pub;
	char id[ED25519_ID_MAX];
};

int statement_signer_new(const struct secret *attestation, struct statement_signer **ret,
			 struct err *e)
{
	uint8_t seed[ED25519_KEY_LEN];
	struct statement_signer *k = calloc(1, sizeof(*k));

	if (!k)
		return err_set(e, ENOMEM, "statement: out of memory");
	statement_seed(attestation, seed);
	int rc = ed25519_signer_new(seed, &k->key, e);
	digest_wipe(seed, sizeof(seed));
	if (rc < 0) {
		free(k);
		return rc;
	}
	ed25519_signer_public(k->key, &k->pub);
	ed25519_id(&k->pub, k->id);
	*ret = k;
	return 0;
}

const struct ed25519_public *statement_signer_public(const struct statement_signer *k)
{
	return &k->pub;
}

void statement_signer_free(struct statement_signer *k)
{
	if (!k)
		return;
	ed25519_signer_free(k->key);
	free(k);
}

static int sign_payload(const struct statement_signer *k, const char *payload, size_t len,
			uint8_t sig[ED25519_SIG_LEN], struct err *e)
{
	size_t n;
	autofree char *text = pae(payload, len, &n);

	return text ? ed25519_signer_sign(k->key, text, n, sig, e) :
		      err_set(e, ENOMEM, "statement: out of memory");
}

/* {"payload":..,"payloadType":..,"signatures":[{"keyid":..,"sig":..}]}: nothing to escape in it. */
static char *render(const char *payload, size_t len, const char *keyid,
		    const uint8_t sig[ED25519_SIG_LEN])
{
	static const char head[] = "{\"payload\":\"";
	char sig_text[BASE64_MAX(ED25519_SIG_LEN)], tail[512];

	base64_encode(sig, ED25519_SIG_LEN, sig_text);
	int tail_len = snprintf(tail, sizeof(tail),
				"\",\"payloadType\":\"" STATEMENT_PAYLOAD
				"\",\"signatures\":[{\"keyid\":\"%s\",\"sig\":\"%s\"}]}",
				keyid, sig_text);
	char *text = malloc(sizeof(head) + BASE64_MAX(len) + (size_t)tail_len);
	if (!text)
		return NULL;
	memcpy(text, head, sizeof(head) - 1);
	size_t n = sizeof(head) - 1;
	n += base64_encode(payload, len, text + n);
	memcpy(text + n, tail, (size_t)tail_len + 1);
	return text;
}

int statement_sign_as(const struct statement *s, const struct statement_signer *k, char **ret,
		      struct err *e)
{
	uint8_t sig[ED25519_SIG_LEN];
	size_t len;
	auto_json json_t *v = statement_build(s, &k->pub, e);

	if (!v)
		return -e->code;
	autofree char *payload = json_dump_compact(v, &len);
	if (!payload)
		return err_set(e, ENOMEM, "statement: out of memory");
	if (sign_payload(k, payload, len, sig, e) < 0)
		return -e->code;
	*ret = render(payload, len, k->id, sig);
	return *ret ? 0 : err_set(e, ENOMEM, "statement: out of memory");
}

int statement_sign(const struct statement *s, const struct secret_set *keys, char **ret,
		   struct err *e)
{
	const struct secret *key = secrets_current(keys);
	struct statement_signer *k;

	if (!key)
		return err_set(e, ENOKEY, "statement: there is no attestation secret");
	if (statement_signer_new(key, &k, e) < 0)
		return -e->code;
	int rc = statement_sign_as(s, k, ret, e);
	statement_signer_free(k);
	return rc;
}

/* --- Verifying */

struct envelope {
	const char *payload, *type, *keyid, *sig;
	const json_t *signatures;
};

static int read_envelope(const json_t *v, struct envelope *x, struct err *e)
{
	static const struct json_field outer[] = {
		FIELD(struct envelope, payload, "payload", FIELD_PTR, FIELD_REQUIRED, 0),
		FIELD(struct envelope, type, "payloadType", FIELD_PTR, FIELD_REQUIRED, 0),
		FIELD(struct envelope, signatures, "signatures", FIELD_ARRAY, FIELD_REQUIRED, 0),
	};
	static const struct json_field inner[] = {
		FIELD(struct envelope, keyid, "keyid", FIELD_PTR, FIELD_REQUIRED, 0),
		FIELD(struct envelope, sig, "sig", FIELD_PTR, FIELD_REQUIRED, 0),
	};
	int rc = json_fields_read(v, outer, ARRAY_SIZE(outer), x, e);

	if (rc < 0)
		return rc;
	if (strcmp(x->type, STATEMENT_PAYLOAD) != 0)
		return err_set(e, EINVAL, "'payloadType' is not " STATEMENT_PAYLOAD);
	if (json_array_size(x->signatures) != 1)
		return err_set(e, EINVAL, "'signatures' must hold exactly one");
	return json_fields_read(json_array_get(x->signatures, 0), inner, ARRAY_SIZE(inner), x, e);
}

/* The trusted key that signed, or NULL. The envelope's own word for it is not asked. */
static const struct ed25519_public *who_signed(const struct ed25519_public *trusted, size_t n,
					       const char *text, size_t len,
					       const uint8_t sig[ED25519_SIG_LEN])
{
	for (size_t i = 0; i < n; i++)
		if (ed25519_verify(&trusted[i], text, len, sig))
			return &trusted[i];
	return NULL;
}

/* The statement's own "signer", which the signature covers, and the envelope's copy of it. */
static int check_signer(const json_t *statement, const struct envelope *x,
			const struct ed25519_public *key, struct err *e)
{
	const char *type = NULL, *predicate_type = NULL, *keyid = NULL, *alg = NULL;
	char id[ED25519_ID_MAX];

	ed25519_id(key, id);
	if (json_unpack((json_t *)(uintptr_t)statement, "{s:s, s:s, s:{s:{s:s, s:s}}}", "_type",
			&type, "predicateType", &predicate_type, "predicate", "signer", "keyid",
			&keyid, "alg", &alg) ||
	    strcmp(type, STATEMENT_TYPE) != 0 || strcmp(predicate_type, STATEMENT_PREDICATE) != 0)
		return err_set(e, EINVAL, "the statement is none of Cordon's");
	if (strcmp(keyid, id) != 0 || strcmp(x->keyid, id) != 0 || strcmp(alg, "ed25519") != 0)
		return err_set(e, EKEYREJECTED, "key id or algorithm is not that of the signing key");
	return 0;
}

int statement_verify(const char *text, size_t len, const struct ed25519_public *trusted, size_t n,
		     json_t **ret, struct err *e)
{
	uint8_t sig[ED25519_SIG_LEN];
	struct envelope x = { 0 };
	size_t signed_len;

	if (!trusted || n == 0)
		return err_set(e, ENOKEY, "no trust store: nobody's signature counts");
	if (len > STATEMENT_MAX)
		return err_set(e, EINVAL, "the envelope is over %d bytes", STATEMENT_MAX);
	auto_json json_t *v = json_parse_strict(text, len, 3, e);
	if (!v || read_envelope(v, &x, e) < 0)
		return -e->code;
	if (base64_decode(x.sig, strlen(x.sig), sig, sizeof(sig)) != ED25519_SIG_LEN)
		return err_set(e, EINVAL, "'sig' is not a signature");
	size_t body_len = strlen(x.payload);
	autofree uint8_t *payload = malloc(body_len + 1);
	if (!payload)
		return err_set(e, ENOMEM, "statement: out of memory");
	ssize_t payload_len = base64_decode(x.payload, body_len, payload, body_len);
	if (payload_len < 0)
		return err_set(e, EINVAL, "'payload' is not base64");
	autofree char *message = pae(payload, (size_t)payload_len, &signed_len);
	if (!message)
		return err_set(e, ENOMEM, "statement: out of memory");
	const struct ed25519_public *key = who_signed(trusted, n, message, signed_len, sig);
	if (!key)
		return err_set(e, EKEYREJECTED, "signed by no key that is trusted");
	auto_json json_t *statement =
		json_parse_strict((const char *)payload, (size_t)payload_len, STATEMENT_DEPTH, e);
	if (!statement || check_signer(statement, &x, key, e) < 0)
		return -e->code;
	*ret = json_incref(statement);
	return 0;
}
