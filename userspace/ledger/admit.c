/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allowlist as two tables: a row's keys and a receipt's. Text of the
 * caller's own making gets in by organizationId, actorPrincipalId, runId and
 * cwd alone; everything else is a word out of a list, a digest or a number.
 */
#include "ledger/admit.h"

#include <errno.h>
#include <string.h>

#include "base/scope.h"
#include "json/json.h"
#include "policy/reason.h"
#include "proto/ledger.h"

static const int64_t number_max = 1LL << 53;

bool admit_is_id(const char *s, size_t max)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return n >= 1 && n <= max && s[n] == '\0';
}

bool admit_is_text(const char *s)
{
	size_t n = strnlen(s, AUDIT_TEXT_MAX + 1);

	return n >= 1 && n <= AUDIT_TEXT_MAX;
}

static bool is_cwd(const char *s)
{
	return strnlen(s, AUDIT_CWD_MAX + 1) <= AUDIT_CWD_MAX;
}

static bool is_job(const char *s)
{
	return admit_is_id(s, ID_JOB_MAX);
}

static bool is_word(const char *s, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(s, *words))
			return true;
	return false;
}

static bool is_decision(const char *s)
{
	return is_word(s, (const char *const[]){ "allowed", "denied", NULL });
}

static bool is_surface(const char *s)
{
	return is_word(s, (const char *const[]){ "chat", "agent_run", "deterministic_task",
						 "skill_task", NULL });
}

static bool is_mode(const char *s)
{
	return is_word(s, (const char *const[]){ "none", "allowlist", "default_internet", NULL });
}

static bool is_termination(const char *s)
{
	for (int t = TERMINATION_NONE + 1; t < TERMINATION_COUNT; t++)
		if (!strcmp(s, termination_code((enum termination)t)))
			return true;
	return false;
}

static bool is_reason(const char *s)
{
	return reason_from_code(s) != REASON_NONE;
}

static bool is_hex64(const char *s)
{
	return strspn(s, "0123456789abcdef") == 64 && s[64] == '\0';
}

static bool is_image(const char *s)
{
	return !strncmp(s, "sha256:", 7) && is_hex64(s + 7);
}

static bool is_base64(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
	size_t pad = strspn(s + n, "=");

	return n >= 1 && pad <= 2 && (n + pad) % 4 == 0 && s[n + pad] == '\0';
}

/* T1: 2026-01-31T12:00:00.0000000+00:00 */
static bool is_timestamp(const char *s)
{
	static const char shape[] = "0000-00-00T00:00:00.0000000+00:00";

	for (size_t i = 0; i < sizeof(shape) - 1; i++)
		if (shape[i] == '0' && i < 27 ? s[i] < '0' || s[i] > '9' : s[i] != shape[i])
			return false;
	return s[sizeof(shape) - 1] == '\0';
}

enum { KEY_NULLABLE = 1, KEY_NUMBER = 2, KEY_OBJECT = 4 };

struct key {
	const char *name;
	unsigned flags;
	bool (*is_good)(const char *s); /* of a text */
	int64_t max;			/* of a number */
	size_t offset;			/* of a const char * or an int64_t; SIZE_MAX: only checked */
};

#define TEXT(type, member, name_, flags_, check) \
	{ name_, flags_, check, 0, offsetof(type, member) }
#define NUMBER(type, member, name_, max_) \
	{ name_, KEY_NULLABLE | KEY_NUMBER, NULL, max_, offsetof(type, member) }
#define CHECKED(name_, flags_, check) { name_, flags_, check, 0, SIZE_MAX }

static const struct key row_keys[] = {
	TEXT(struct admitted, organization, "organizationId", 0, admit_is_text),
	TEXT(struct admitted, actor, "actorPrincipalId", 0, admit_is_text),
	TEXT(struct admitted, job, "resourceId", 0, is_job),
	TEXT(struct admitted, decision, "decision", 0, is_decision),
	TEXT(struct admitted, run, "runId", KEY_NULLABLE, admit_is_text),
	{ "metadata", KEY_OBJECT, NULL, 0, SIZE_MAX },
};

static const struct key meta_keys[] = {
	TEXT(struct audit_metadata, surface, "surface", KEY_NULLABLE, is_surface),
	TEXT(struct audit_metadata, cwd, "cwd", KEY_NULLABLE, is_cwd),
	TEXT(struct audit_metadata, reason, "reason", KEY_NULLABLE, is_reason),
	NUMBER(struct audit_metadata, exit_code, "exitCode", 255),
	TEXT(struct audit_metadata, termination, "termination", KEY_NULLABLE, is_termination),
	TEXT(struct audit_metadata, image_digest, "imageDigest", KEY_NULLABLE, is_image),
	TEXT(struct audit_metadata, egress_mode, "egressMode", KEY_NULLABLE, is_mode),
	NUMBER(struct audit_metadata, egress_total_bytes, "egressTotalBytes", number_max),
	NUMBER(struct audit_metadata, wall_ms, "wallMs", number_max),
	NUMBER(struct audit_metadata, workspace_kb, "workspaceKb", number_max),
};

static const struct key receipt_keys[] = {
	CHECKED("tool", 0, is_job), /* the same characters and length */
	CHECKED("inputHash", 0, is_hex64),
	CHECKED("outputHash", KEY_NULLABLE, is_hex64),
	CHECKED("failureHash", KEY_NULLABLE, is_hex64),
	CHECKED("timestamp", 0, is_timestamp),
	CHECKED("egressDigest", KEY_NULLABLE, is_hex64),
	{ "keyVersion", KEY_NUMBER, NULL, UINT32_MAX, SIZE_MAX },
	CHECKED("signature", 0, is_base64),
};

static const struct key envelope_keys[] = {
	CHECKED("payload", 0, is_base64),
	CHECKED("payloadType", 0, admit_is_text),
	{ "signatures", KEY_OBJECT, NULL, 0, SIZE_MAX },
};

static const struct key signature_keys[] = {
	CHECKED("keyid", 0, admit_is_text),
	CHECKED("sig", 0, is_base64),
};

static int admit_value(const json_t *v, const struct key *k, void *ret, struct err *e)
{
	void *at = k->offset == SIZE_MAX ? NULL : (char *)ret + k->offset;

	if (json_is_null(v) && (k->flags & KEY_NULLABLE)) {
		if (at && (k->flags & KEY_NUMBER))
			*(int64_t *)at = -1;
		else if (at)
			*(const char **)at = NULL;
		return 0;
	}
	if (k->flags & KEY_OBJECT)
		return json_is_object(v) || json_is_array(v) ?
			       0 :
			       err_set(e, EINVAL, "'%s' has the wrong type", k->name);
	if (k->flags & KEY_NUMBER) {
		json_int_t n = json_integer_value(v);
		if (!json_is_integer(v) || n < 0 || n > k->max)
			return err_set(e, EINVAL, "'%s' is no such number", k->name);
		if (at)
			*(int64_t *)at = n;
		return 0;
	}
	if (!json_is_string(v) || !k->is_good(json_string_value(v)))
		return err_set(e, EINVAL, "'%s' has a value that is not admitted", k->name);
	if (at)
		*(const char **)at = json_string_value(v);
	return 0;
}

/* Exactly these keys: all there, and as many as there are. */
static int admit_object(const json_t *o, const struct key *keys, size_t n, void *ret,
			const char *what, struct err *e)
{
	if (!json_is_object(o))
		return err_set(e, EINVAL, "%s must be an object", what);
	if (json_object_size(o) != n)
		return err_set(e, EINVAL, "%s has %zu keys, not %zu", what, json_object_size(o), n);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_object_get(o, keys[i].name);
		if (!v)
			return err_set(e, EINVAL, "%s lacks '%s'", what, keys[i].name);
		if (admit_value(v, &keys[i], ret, e) < 0)
			return -e->code;
	}
	return 0;
}

int admit_row(const json_t *row, struct admitted *ret, struct err *e)
{
	if (admit_object(row, row_keys, ARRAY_SIZE(row_keys), ret, "row", e) < 0)
		return -e->code;
	return admit_object(json_object_get(row, "metadata"), meta_keys, ARRAY_SIZE(meta_keys),
			    &ret->meta, "metadata", e);
}

int admit_receipt(const json_t *receipt, struct err *e)
{
	if (!receipt || json_is_null(receipt))
		return 0;
	return admit_object(receipt, receipt_keys, ARRAY_SIZE(receipt_keys), NULL, "receipt", e);
}

int admit_envelope(const char *text, size_t len, struct err *e)
{
	if (len > LEDGER_ENVELOPE_MAX)
		return err_set(e, EINVAL, "'envelope' is longer than %d bytes", LEDGER_ENVELOPE_MAX);
	auto_json json_t *o = json_parse_strict(text, len, 3, e);
	if (!o)
		return -e->code;
	if (admit_object(o, envelope_keys, ARRAY_SIZE(envelope_keys), NULL, "envelope", e) < 0)
		return -e->code;
	const json_t *list = json_object_get(o, "signatures");
	if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > 4)
		return err_set(e, EINVAL, "'signatures' has the wrong type");
	for (size_t i = 0; i < json_array_size(list); i++)
		if (admit_object(json_array_get(list, i), signature_keys,
				 ARRAY_SIZE(signature_keys), NULL, "signature", e) < 0)
			return -e->code;
	return 0;
}
