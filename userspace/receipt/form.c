/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receipt as JSON, out and strictly in. Does not judge it: reading a receipt
 * says that it has the form of one, payload.c says whether it is true.
 */
#include <errno.h>
#include <string.h>

#include "digest/base64.h"
#include "receipt/receipt.h"

static int add_hex(json_t *v, const char *key, const uint8_t d[DIGEST_LEN], bool there)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(d, DIGEST_LEN, hex);
	return json_add_text(v, key, there ? hex : NULL);
}

json_t *receipt_to_json(const struct receipt *r)
{
	json_t *v = json_object();
	char sig[BASE64_MAX(DIGEST_LEN)];

	base64_encode(r->signature, DIGEST_LEN, sig);
	if (!v || json_add_text(v, "tool", r->tool) || add_hex(v, "inputHash", r->input, true) ||
	    add_hex(v, "outputHash", r->output, !r->is_failure) ||
	    add_hex(v, "failureHash", r->failure, r->is_failure) ||
	    json_add_text(v, "timestamp", r->timestamp) ||
	    add_hex(v, "egressDigest", r->egress, !r->is_failure) ||
	    json_add_u64(v, "keyVersion", r->key_version) || json_add_text(v, "signature", sig)) {
		json_decref(v);
		return NULL;
	}
	return v;
}

struct form {
	char tool[RECEIPT_TOOL_MAX + 1], timestamp[RECEIPT_TIME_LEN + 1];
	char input[DIGEST_HEX_MAX], signature[BASE64_MAX(DIGEST_LEN)];
	const json_t *output, *failure, *egress; /* text or null */
	uint32_t key_version;
};

static const struct json_field fields[] = {
	FIELD(struct form, tool, "tool", FIELD_TEXT, FIELD_REQUIRED, 0),
	FIELD(struct form, input, "inputHash", FIELD_TEXT, FIELD_REQUIRED, 0),
	FIELD(struct form, output, "outputHash", FIELD_ANY, FIELD_REQUIRED, 0),
	FIELD(struct form, failure, "failureHash", FIELD_ANY, FIELD_REQUIRED, 0),
	FIELD(struct form, timestamp, "timestamp", FIELD_TEXT, FIELD_REQUIRED, 0),
	FIELD(struct form, egress, "egressDigest", FIELD_ANY, FIELD_REQUIRED, 0),
	FIELD(struct form, key_version, "keyVersion", FIELD_U32, FIELD_REQUIRED, 0),
	FIELD(struct form, signature, "signature", FIELD_TEXT, FIELD_REQUIRED, 0),
};

/* Null or 64 digits, as @wanted says. */
static int take_part(const json_t *v, bool wanted, const char *key, uint8_t ret[DIGEST_LEN],
		     struct err *e)
{
	if (!wanted)
		return json_is_null(v) ? 0 : err_set(e, EINVAL, "'%s' must be null here", key);
	if (!json_is_string(v) || digest_unhex(json_string_value(v), ret, DIGEST_LEN) < 0)
		return err_set(e, EINVAL, "'%s' is not a digest", key);
	return 0;
}

/* 0000-00-00T00:00:00.0000000+00:00 */
static bool is_time(const char *t)
{
	static const char form[] = "0000-00-00T00:00:00.0000000+00:00";

	for (size_t i = 0; i < sizeof(form); i++)
		if (form[i] == '0' && i < 27 ? t[i] < '0' || t[i] > '9' : t[i] != form[i])
			return false;
	return true;
}

int receipt_from_json(const json_t *v, struct receipt *ret, struct err *e)
{
	struct form f = { 0 };
	struct receipt r = { 0 };
	int rc = json_fields_read(v, fields, ARRAY_SIZE(fields), &f, e);

	if (rc < 0)
		return rc;
	r.is_failure = json_is_null(f.output);
	if (digest_unhex(f.input, r.input, DIGEST_LEN) < 0)
		return err_set(e, EINVAL, "'inputHash' is not a digest");
	if (take_part(f.output, !r.is_failure, "outputHash", r.output, e) < 0 ||
	    take_part(f.failure, r.is_failure, "failureHash", r.failure, e) < 0 ||
	    take_part(f.egress, !r.is_failure, "egressDigest", r.egress, e) < 0)
		return -e->code;
	if (!is_time(f.timestamp))
		return err_set(e, EINVAL, "'timestamp' is out of form");
	if (base64_decode(f.signature, strlen(f.signature), r.signature, DIGEST_LEN) != DIGEST_LEN)
		return err_set(e, EINVAL, "'signature' is not one");
	memcpy(r.tool, f.tool, sizeof(r.tool));
	memcpy(r.timestamp, f.timestamp, sizeof(r.timestamp));
	r.key_version = f.key_version;
	*ret = r;
	return 0;
}
