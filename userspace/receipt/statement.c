/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statement's text: every measured thing in its place, absent ones null.
 * Adds nothing of its own and judges nothing; envelope.c signs and verifies.
 */
#include "receipt/statement.h"

#include <errno.h>
#include <string.h>

/* Members are added until one fails; who builds looks at the end. */
struct maker {
	bool failed;
};

static void set(struct maker *m, json_t *obj, const char *key, json_t *value)
{
	if (json_object_set_new(obj, key, value))
		m->failed = true;
}

static void set_text(struct maker *m, json_t *obj, const char *key, const char *text)
{
	set(m, obj, key, text ? json_string(text) : json_null());
}

static void set_number(struct maker *m, json_t *obj, const char *key, uint64_t v)
{
	set(m, obj, key, v > INT64_MAX ? NULL : json_integer((json_int_t)v));
}

/* {"sha256":"..."}: how in-toto writes a digest. */
static json_t *digest_set(struct maker *m, const uint8_t d[DIGEST_LEN])
{
	json_t *v = json_object();
	char hex[DIGEST_HEX_MAX];

	digest_hex(d, DIGEST_LEN, hex);
	set_text(m, v, "sha256", hex);
	return v;
}

static json_t *texts(struct maker *m, const char *const *list)
{
	json_t *v = json_array();

	for (; list && *list; list++)
		if (json_array_append_new(v, json_string(*list)))
			m->failed = true;
	return v;
}

static json_t *end_part(struct maker *m, const struct statement *s)
{
	json_t *v = json_object();

	set_text(m, v, "termination", s->termination);
	set_text(m, v, "reason", s->reason);
	set(m, v, "exitCode", s->exit_code < 0 ? json_null() : json_integer(s->exit_code));
	set(m, v, "signal", s->signal == 0 ? json_null() : json_integer(s->signal));
	set(m, v, "oomKilled", json_boolean(s->oom_killed));
	set_number(m, v, "wallMs", s->wall_ms);
	set_number(m, v, "memoryPeakBytes", s->memory_peak_bytes);
	return v;
}

static json_t *limits_part(struct maker *m, const struct statement *s)
{
	json_t *v = json_object();

	set_number(m, v, "memoryBytes", s->memory_bytes);
	set_number(m, v, "workspaceBytes", s->workspace_bytes);
	set_number(m, v, "outputBytes", s->output_bytes);
	set_number(m, v, "timeoutMs", s->timeout_ms);
	set_number(m, v, "cpuMilli", s->cpu_milli);
	set_number(m, v, "pids", s->pids);
	return v;
}

/* What is attached, and what the server saw of it: it counts by view, not by skill. */
static json_t *skills_part(struct maker *m, const struct statement *s)
{
	json_t *v = json_object(), *list = json_array();

	for (size_t i = 0; i < s->nskills; i++) {
		const struct statement_skill *k = &s->skills[i];
		json_t *one = json_object();
		set_text(m, one, "slug", k->slug);
		set(m, one, "manifest", digest_set(m, k->manifest));
		if (json_array_append_new(list, one))
			m->failed = true;
	}
	set(m, v, "attached", list);
	set_number(m, v, "lookups", s->skills_lookups);
	set_number(m, v, "servedBytes", s->skills_served_bytes);
	return v;
}

static json_t *enforcement_part(struct maker *m, const struct statement *s)
{
	json_t *v = json_object(), *guards = json_object();

	set_text(m, v, "isolation", s->isolation);
	set(m, v, "capabilities", texts(m, s->capabilities));
	set(m, guards, "on", texts(m, s->guards_on));
	set(m, guards, "off", texts(m, s->guards_off));
	set(m, guards, "missing", texts(m, s->guards_missing));
	set(m, v, "guards", guards);
	return v;
}

static json_t *signer_part(struct maker *m, const struct ed25519_public *signer)
{
	json_t *v = json_object();
	char id[ED25519_ID_MAX];

	ed25519_id(signer, id);
	set_text(m, v, "keyid", id);
	set_text(m, v, "alg", "ed25519");
	return v;
}

static json_t *predicate(struct maker *m, const struct statement *s,
			 const struct ed25519_public *signer)
{
	json_t *v = json_object(), *layers = json_array(), *network = json_object();

	for (size_t i = 0; i < s->nlayers; i++)
		if (json_array_append_new(layers, digest_set(m, s->layers[i])))
			m->failed = true;
	set_number(m, network, "kernelBytes", s->kernel_bytes);
	set_number(m, network, "gatewayBytes", s->gateway_bytes);

	set(m, v, "signer", signer_part(m, signer));
	set(m, v, "receipt", receipt_to_json(s->receipt));
	set_text(m, v, "jobId", s->job_id);
	set_text(m, v, "commandId", s->command_id);
	set(m, v, "end", end_part(m, s));
	set(m, v, "limits", limits_part(m, s));
	set(m, v, "image", digest_set(m, s->image));
	set(m, v, "layers", layers);
	set(m, v, "standardError", digest_set(m, s->standard_error));
	set(m, v, "network", network);
	set(m, v, "skills", skills_part(m, s));
	set(m, v, "enforcement", enforcement_part(m, s));
	set_number(m, v, "lostEvents", s->lost_events);
	return v;
}

/* What the statement is about: the output that was kept, or the input of what failed. */
static json_t *subject(struct maker *m, const struct receipt *r)
{
	json_t *list = json_array(), *v = json_object();

	set_text(m, v, "name", r->is_failure ? "input" : "output");
	set(m, v, "digest", digest_set(m, r->is_failure ? r->input : r->output));
	if (json_array_append_new(list, v))
		m->failed = true;
	return list;
}

json_t *statement_build(const struct statement *s, const struct ed25519_public *signer,
			struct err *e)
{
	struct maker m = { 0 };
	json_t *v = json_object();

	if (s->nskills > STATEMENT_SKILLS_MAX || s->nlayers > STATEMENT_LAYERS_MAX) {
		json_decref(v);
		err_set(e, E2BIG, "statement: %zu skills, %zu layers", s->nskills, s->nlayers);
		return NULL;
	}
	set_text(&m, v, "_type", STATEMENT_TYPE);
	set(&m, v, "subject", subject(&m, s->receipt));
	set_text(&m, v, "predicateType", STATEMENT_PREDICATE);
	set(&m, v, "predicate", predicate(&m, s, signer));
	if (m.failed) {
		json_decref(v);
		err_set(e, EINVAL, "statement: a member cannot be written as JSON");
		return NULL;
	}
	return v;
}
