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
#include "ledger/scan.h"
#include "policy/reason.h"
#include "proto/ledger.h"

static const int64_t number_max = 1LL << 53;

/* Sets of characters; strspn() would build such a table anew with every call. */
#define ALNUM ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['0' ... '9'] = true
static const bool id_chars[256] = { ALNUM, ['.'] = true, ['_'] = true, ['-'] = true };
static const bool base64_chars[256] = { ALNUM, ['+'] = true, ['/'] = true };

static size_t span(const char *s, const bool set[256])
{
	size_t n = 0;

	while (set[(unsigned char)s[n]])
		n++;
	return n;
}

bool admit_is_id(const char *s, size_t max)
{
	size_t n = span(s, id_chars);

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

static bool is_command(const char *s)
{
	return admit_is_id(s, ID_COMMAND_MAX);
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

/* The length of the base64 that @s begins with, 0 where it begins with none. */
static size_t base64_len(const char *s)
{
	size_t n = span(s, base64_chars);
	size_t pad = strspn(s + n, "=");

	return n >= 1 && pad <= 2 && (n + pad) % 4 == 0 ? n + pad : 0;
}

static bool is_base64(const char *s)
{
	size_t n = base64_len(s);

	return n > 0 && s[n] == '\0';
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

enum { KEY_NULLABLE = 1, KEY_NUMBER = 2, KEY_OBJECT = 4, KEY_OPTIONAL = 8 };

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

static const struct key message_keys[] = {
	{ "row", KEY_OBJECT, NULL, 0, SIZE_MAX },
	TEXT(struct row_message, command_id, "commandId", KEY_NULLABLE | KEY_OPTIONAL, is_command),
	{ "receipt", KEY_NULLABLE | KEY_OPTIONAL | KEY_OBJECT, NULL, 0, SIZE_MAX },
	TEXT(struct row_message, envelope, "envelope", KEY_NULLABLE | KEY_OPTIONAL, admit_is_envelope),
	{ "intent", KEY_OPTIONAL | KEY_NULLABLE | KEY_NUMBER, NULL, 1LL << 53,
	  offsetof(struct row_message, intent) },
};

static int admit_value(const struct scan_token *v, const struct key *k, void *ret, struct err *e)
{
	void *at = k->offset == SIZE_MAX ? NULL : (char *)ret + k->offset;

	if (v->kind == SCAN_NULL && (k->flags & KEY_NULLABLE)) {
		if (at && (k->flags & KEY_NUMBER))
			*(int64_t *)at = -1;
		else if (at)
			*(const char **)at = NULL;
		return 0;
	}
	if (k->flags & KEY_OBJECT)
		return v->kind == SCAN_OBJECT ?
			       0 :
			       err_set(e, EINVAL, "'%s' must be an object", k->name);
	if (k->flags & KEY_NUMBER) {
		if (v->kind != SCAN_INTEGER || v->n < 0 || v->n > k->max)
			return err_set(e, EINVAL, "'%s' is no such number", k->name);
		if (at)
			*(int64_t *)at = v->n;
		return 0;
	}
	if (v->kind != SCAN_TEXT || !k->is_good(v->s))
		return err_set(e, EINVAL, "'%s' has a value that is not admitted", k->name);
	if (at)
		*(const char **)at = v->s;
	return 0;
}

/*
 * The value of @name in the object at @at. The broker writes keys in the order
 * of the tables, so it is mostly the member at *next, which then moves on.
 */
static const struct scan_token *find(const struct scan_token *tokens, unsigned at, unsigned *next,
				     const char *name)
{
	const struct scan_token *key = &tokens[*next];

	if (*next >= tokens[at].next || strcmp(key->s, name) != 0)
		return scan_get(tokens, at, name);
	*next = key[1].next;
	return key + 1;
}

/*
 * Exactly these keys. Those that are there are found at a member each; when they
 * are also as many as the object has, there is no other and none is doubled.
 */
static int admit_object(const struct scan_token *tokens, unsigned at, const struct key *keys,
			size_t n, void *ret, const char *what, struct err *e)
{
	unsigned next = at + 1;
	size_t found = 0;

	if (tokens[at].kind != SCAN_OBJECT)
		return err_set(e, EINVAL, "%s is not an object", what);
	for (size_t i = 0; i < n; i++) {
		const struct scan_token *v = find(tokens, at, &next, keys[i].name);
		if (!v && (keys[i].flags & KEY_OPTIONAL))
			continue;
		if (!v)
			return err_set(e, EINVAL, "%s lacks '%s', or has it twice", what,
				       keys[i].name);
		if (admit_value(v, &keys[i], ret, e) < 0)
			return -e->code;
		found++;
	}
	if (tokens[at].size != found)
		return err_set(e, EINVAL, "%s has a key that is not admitted", what);
	return 0;
}

static int admit_row(const struct scan_token *tokens, unsigned at, struct admitted *ret,
		     struct err *e)
{
	if (admit_object(tokens, at, row_keys, ARRAY_SIZE(row_keys), ret, "row", e) < 0)
		return -e->code;
	const struct scan_token *meta = scan_get(tokens, at, "metadata");
	return admit_object(tokens, (unsigned)(meta - tokens), meta_keys, ARRAY_SIZE(meta_keys),
			    &ret->meta, "metadata", e);
}

static int admit_receipt(const struct scan_token *tokens, unsigned at, struct err *e)
{
	return admit_object(tokens, at, receipt_keys, ARRAY_SIZE(receipt_keys), NULL, "receipt", e);
}

int admit_row_message(char *text, size_t len, struct row_message *ret, struct err *e)
{
	struct scan_token tokens[SCAN_TOKENS];
	int n = scan_json(text, len, tokens);

	memset(ret, 0, sizeof(*ret));
	if (n < 0)
		return err_set(e, EINVAL, "json: malformed at byte %d", -1 - n);
	if (admit_object(tokens, 0, message_keys, ARRAY_SIZE(message_keys), ret, "message", e) < 0 ||
	    admit_row(tokens, (unsigned)(scan_get(tokens, 0, "row") - tokens), &ret->row, e) < 0)
		return -e->code;
	const struct scan_token *receipt = scan_get(tokens, 0, "receipt");
	const struct scan_token *intent = scan_get(tokens, 0, "intent");
	if (receipt && receipt->kind == SCAN_OBJECT) {
		if (admit_receipt(tokens, (unsigned)(receipt - tokens), e) < 0)
			return -e->code;
		ret->receipt_from = receipt->from;
		ret->receipt_to = receipt->to;
	}
	if (intent && intent->kind == SCAN_NULL)
		ret->intent = 0;
	else if (intent && ret->intent == 0)
		return err_set(e, EINVAL, "'intent' is no such number");
	if (ret->receipt_to && !ret->command_id)
		return err_set(e, EINVAL, "a receipt needs a 'commandId'");
	if (ret->envelope && !ret->receipt_to)
		return err_set(e, EINVAL, "an envelope needs a receipt");
	return 0;
}

bool admit_is_receipt(char *text, size_t len)
{
	struct scan_token tokens[SCAN_TOKENS];
	struct err ignored;

	return scan_json(text, len, tokens) > 0 && admit_receipt(tokens, 0, &ignored) == 0;
}

static bool skip_literal(const char **s, const char *literal)
{
	size_t n = strlen(literal);

	if (strncmp(*s, literal, n) != 0)
		return false;
	*s += n;
	return true;
}

static bool skip_base64(const char **s)
{
	size_t n = base64_len(*s);

	*s += n;
	return n > 0;
}

static bool skip_keyid(const char **s)
{
	size_t n = strspn(*s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
			      "._:+/=-");

	*s += n;
	return n >= 1 && n <= ID_COMMAND_MAX;
}

static bool skip_signature(const char **s)
{
	return skip_literal(s, "{\"keyid\":\"") && skip_keyid(s) && skip_literal(s, "\",\"sig\":\"") &&
	       skip_base64(s) && skip_literal(s, "\"}");
}

bool admit_is_envelope(const char *s)
{
	if (strnlen(s, LEDGER_ENVELOPE_MAX + 1) > LEDGER_ENVELOPE_MAX ||
	    !skip_literal(&s, "{\"payload\":\"") || !skip_base64(&s) ||
	    !skip_literal(&s, "\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[") ||
	    !skip_signature(&s))
		return false;
	for (int more = 0; more < 3 && *s == ','; more++) {
		s++;
		if (!skip_signature(&s))
			return false;
	}
	return strcmp(s, "]}") == 0;
}
