/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two lines that go over a liveness probe's socket: one is written, one is
 * read, strictly. What the words mean is policy/liveness.h's.
 */
#include <errno.h>
#include <string.h>

#include "base/scope.h"
#include "broker/probe.h"

char *probe_line_ask(const char *id, const struct probe_subject *s, size_t *ret_len)
{
	auto_json json_t *v = json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", id, "runId", s->run_id,
					"orgId", s->org_id, "userId", s->user_id, "surface",
					s->surface);
	size_t len;
	char *text = v ? json_dump_compact(v, &len) : NULL;

	if (text)
		text[len] = '\n'; /* in the NUL's place: the length says where it ends */
	*ret_len = text ? len + 1 : 0;
	return text;
}

struct answer {
	const char *id, *state;
	const json_t *org_id, *user_id;
};

static const struct json_field fields[] = {
	FIELD(struct answer, id, "id", FIELD_PTR, FIELD_REQUIRED, PROBE_ID_LEN),
	FIELD(struct answer, state, "state", FIELD_PTR, FIELD_REQUIRED, 0),
	FIELD(struct answer, org_id, "orgId", FIELD_ANY, 0, 0),
	FIELD(struct answer, user_id, "userId", FIELD_ANY, 0, 0),
};

/* A text, or nothing: null and absent are one. */
static bool is_owner(const json_t *v)
{
	return !v || json_is_null(v) || json_is_string(v);
}

static int read_object(const json_t *v, const char *id, struct liveness_record *ret, struct err *e)
{
	struct answer a = { 0 };

	if (json_fields_read(v, fields, ARRAY_SIZE(fields), &a, e) < 0)
		return -e->code;
	if (strcmp(a.id, id) != 0)
		return err_set(e, EPROTO, "the answer is to another question");
	if (!is_owner(a.org_id) || !is_owner(a.user_id))
		return err_set(e, EPROTO, "an owner is a text or null");
	*ret = (struct liveness_record){ .state = a.state,
					 .org_id = json_string_value(a.org_id),
					 .user_id = json_string_value(a.user_id) };
	return 1;
}

int probe_line_read(const char *buf, size_t len, const char *id, json_t **ret_json,
		    struct liveness_record *ret, struct err *e)
{
	const char *end = memchr(buf, '\n', len < PROBE_ANSWER_MAX ? len : PROBE_ANSWER_MAX);

	if (!end)
		return len < PROBE_ANSWER_MAX ? 0 : err_set(e, EPROTO, "the answer is too long");
	if ((size_t)(end - buf) + 1 != len)
		return err_set(e, EPROTO, "something stands behind the answer");
	json_t *v = json_parse_strict(buf, len - 1, 1, e);
	int rc = v ? read_object(v, id, ret, e) : -e->code;
	if (rc < 0)
		json_decref(v);
	else
		*ret_json = v;
	return rc;
}
