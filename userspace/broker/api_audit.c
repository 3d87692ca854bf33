/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's and the receipts' doors. The query authorises nobody, its door
 * does (A8): auditors see the organisations their rule names, the instance-wide
 * form is the admin's. What stands in a row is the ledger's business.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "broker/api.h"
#include "broker/reply.h"
#include "digest/base64.h"
#include "receipt/receipt.h"
#include "receipt/statement.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 1000 };

static bool read_page(struct exchange *x, const char *const *known, uint64_t *limit,
		      uint64_t *after)
{
	*limit = LIMIT_DEFAULT;
	*after = 0;
	if (exchange_query_is(x, known) && reply_query_number(x, "limit", limit) &&
	    reply_query_number(x, "after", after) && *limit >= 1 && *limit <= LIMIT_MAX)
		return true;
	reply_reason(x, REASON_INVALID_REQUEST, "the query is malformed");
	return false;
}

void api_audit(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { "org", "all", "limit", "after", "newest", NULL };
	const char *org = exchange_query(x, "org"), *all = exchange_query(x, "all");
	const char *newest = exchange_query(x, "newest");
	uint64_t limit, after;

	if (!read_page(x, known, &limit, &after))
		return;
	if (!org == !all || (all && strcmp(all, "1") != 0) ||
	    (newest && (strcmp(newest, "1") != 0 || after))) {
		reply_reason(x, REASON_INVALID_REQUEST, "one of org=ORG and all=1 is due");
		return;
	}
	if (all ? !(x->peer->roles & ROLE_ADMIN) : !peer_may_name(x->peer, org, NULL)) {
		reply_reason(x, REASON_CAPABILITY_DENIED,
			     all ? "all=1 takes the role admin" :
				   "this peer may not ask about that organisation");
		return;
	}
	json_t *body = json_pack("{s:I, s:I}", "limit", (json_int_t)limit, "after",
				 (json_int_t)after);
	if (body && all)
		json_object_set_new(body, "all", json_true());
	else if (body)
		json_object_set_new(body, "orgId", json_string(org));
	if (body && newest)
		json_object_set_new(body, "newest", json_true());
	/* A8: an empty list when the store is unavailable. */
	reply_from_ledger(b, x, L_QUERY, body, NULL, json_pack("{s:[], s:n}", "rows", "next"));
}

void api_audit_verify(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { "sequence", "head", NULL };
	const char *head = exchange_query(x, "head");
	uint64_t sequence = 0;
	json_t *body = json_object();

	if (!exchange_query_is(x, known) || !reply_query_number(x, "sequence", &sequence) ||
	    !head != !exchange_query(x, "sequence") || (head && strlen(head) != 64)) {
		json_decref(body);
		reply_reason(x, REASON_INVALID_REQUEST, "an anchor is sequence=N and head=HEX");
		return;
	}
	if (head && body)
		json_object_set_new(body, "anchor",
				    json_pack("{s:I, s:s}", "sequence", (json_int_t)sequence,
					      "head", head));
	reply_from_ledger(b, x, L_VERIFY, body, NULL, NULL);
}

/* --- Export (A9) */

void api_audit_export(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { "limit", NULL };
	uint64_t limit, after;

	if (read_page(x, known, &limit, &after))
		reply_from_ledger(b, x, L_EXPORT,
				  json_pack("{s:s, s:I}", "consumer", x->param[0], "limit",
					    (json_int_t)limit),
				  NULL, NULL);
}

/* A body of one number. False: answered. */
static bool read_number(struct exchange *x, const char *name, uint64_t *ret)
{
	const struct json_field field = { name, FIELD_U64, FIELD_REQUIRED, 0, sizeof(*ret), 1ull << 53 };
	auto_json json_t *v = reply_body(x, &field, 1, ret);

	return v != NULL;
}

void api_audit_ack(struct broker *b, struct exchange *x)
{
	uint64_t sequence = 0;

	if (read_number(x, "sequence", &sequence))
		reply_from_ledger(b, x, L_ACK,
				  json_pack("{s:s, s:I}", "consumer", x->param[0], "sequence",
					    (json_int_t)sequence),
				  NULL, NULL);
}

void api_audit_drop(struct broker *b, struct exchange *x)
{
	reply_from_ledger(b, x, L_EXPORT_DROP, json_pack("{s:s}", "consumer", x->param[0]), NULL,
			  NULL);
}

/* --- Retention (A5): some thousand rows a call, each link proven before it goes */

void api_audit_retain(struct broker *b, struct exchange *x)
{
	uint64_t before_ms = 0;

	if (read_number(x, "beforeMs", &before_ms))
		reply_from_ledger(b, x, L_RETAIN,
				  json_pack("{s:I}", "beforeMs", (json_int_t)before_ms), NULL, NULL);
}

/* --- Receipts */

/* Whose it is decides who may see it; for others there is none. */
static json_t *shape_receipt(struct exchange *x, const json_t *result)
{
	const char *org = json_string_value(json_object_get(result, "orgId"));
	const char *user = json_string_value(json_object_get(result, "userId"));
	json_t *receipt = json_object_get(result, "receipt");
	json_t *envelope = json_object_get(result, "envelope");

	if (!org || !user || !peer_may_name(x->peer, org, user))
		return json_pack("{s:n, s:n}", "receipt", "envelope");
	return json_pack("{s:O?, s:O?}", "receipt", receipt, "envelope", envelope);
}

void api_receipt(struct broker *b, struct exchange *x)
{
	reply_from_ledger(b, x, L_RECEIPT,
			  json_pack("{s:s, s:s}", "jobId", x->param[0], "commandId", x->param[1]),
			  shape_receipt, NULL);
}

/* The public keys of T3, every version: for trust stores. */
void api_receipt_keys(struct broker *b, struct exchange *x)
{
	json_t *list = json_array();
	const struct secret *s;
	struct err e = { 0 };

	for (size_t i = 0; b->keys.attestation && (s = secrets_at(b->keys.attestation, i)); i++) {
		struct ed25519_public pub;
		char pem[ED25519_PEM_MAX], id[ED25519_ID_MAX];
		if (statement_public(s, &pub, &e) < 0)
			continue;
		ed25519_public_pem(&pub, pem);
		ed25519_id(&pub, id);
		json_array_append_new(list, json_pack("{s:i, s:s, s:s}", "version",
						      (int)s->version, "keyId", id, "pem", pem));
	}
	reply_json(x, 200, json_pack("{s:o}", "keys", list));
}

struct verify_body {
	const json_t *receipt, *argv, *egress;
	const char *command, *stdin_b64, *output_b64, *failure;
};

static const struct json_field verify_fields[] = {
	FIELD(struct verify_body, receipt, "receipt", FIELD_OBJECT, FIELD_REQUIRED, 0),
	FIELD(struct verify_body, argv, "argv", FIELD_ARRAY, 0, 0),
	FIELD(struct verify_body, command, "command", FIELD_PTR, 0, 0),
	FIELD(struct verify_body, stdin_b64, "stdinB64", FIELD_PTR, 0, 0),
	FIELD(struct verify_body, output_b64, "outputB64", FIELD_PTR, 0, 0),
	FIELD(struct verify_body, failure, "reason", FIELD_PTR, 0, 64),
};

static int decode(const char *text, const char *key, uint8_t **ret, size_t *ret_len, struct err *e)
{
	size_t len = text ? strlen(text) : 0;

	*ret = malloc(len / 4 * 3 + 3);
	if (!*ret)
		return err_set(e, ENOMEM, "out of memory");
	ssize_t n = base64_decode(text ? text : "", len, *ret, len / 4 * 3 + 3);
	if (n < 0)
		return err_set(e, EINVAL, "'%s' is not base64", key);
	*ret_len = (size_t)n;
	return 0;
}

static int input_of(const struct verify_body *body, uint8_t ret[DIGEST_LEN], struct err *e)
{
	static const char *const shell[] = { "bash", "-c" };
	size_t n = body->command ? 3 : json_array_size(body->argv);
	autofree const char **argv = calloc(n + 1, sizeof(*argv));
	autofree uint8_t *in = NULL;
	size_t in_len;

	if (!argv || decode(body->stdin_b64, "stdinB64", &in, &in_len, e) < 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		argv[i] = body->command ? (i < 2 ? shell[i] : body->command) :
					  json_string_value(json_array_get(body->argv, i));
		if (!argv[i])
			return err_set(e, EINVAL, "'argv' element %zu is not a string", i);
	}
	return receipt_input(argv, n, in, in_len, ret, e);
}

static json_t *mismatches_of(unsigned set)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < RECEIPT_PARTS; i++)
		if (set & (1u << i))
			json_array_append_new(list, json_string(receipt_part_name(1u << i)));
	return list;
}

void api_receipt_verify(struct broker *b, struct exchange *x)
{
	struct verify_body body = { 0 };
	auto_json json_t *v = reply_body(x, verify_fields, ARRAY_SIZE(verify_fields), &body);
	struct receipt_facts facts = { .failure_code = body.failure };
	uint8_t input[DIGEST_LEN], output[DIGEST_LEN];
	autofree uint8_t *out = NULL;
	size_t out_len;
	struct receipt r;
	struct err e = { 0 };

	if (!v)
		return;
	if (!b->keys.attestation) { /* verification without a key is an error, never a yes */
		reply_reason(x, REASON_CAPABILITY_UNAVAILABLE, "no attestation secret");
		return;
	}
	if (body.argv && body.command)
		err_set(&e, EINVAL, "'argv' and 'command' exclude each other");
	if (!e.code && (body.argv || body.command) && input_of(&body, input, &e) == 0)
		facts.input = input;
	if (!e.code && body.output_b64 &&
	    decode(body.output_b64, "outputB64", &out, &out_len, &e) == 0) {
		digest_sha256(out, out_len, output);
		facts.output = output;
	}
	if (e.code || receipt_from_json(body.receipt, &r, &e) < 0) {
		reply_reason(x, REASON_INVALID_REQUEST, e.msg);
		return;
	}
	facts.failure_code = body.failure;
	struct receipt_verdict verdict = receipt_verify(&r, b->keys.attestation, &facts);
	reply_json(x, 200, json_pack("{s:b, s:o}", "valid", verdict.is_valid, "mismatches",
				     mismatches_of(verdict.mismatches)));
}
