/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run registry's door (S5): who owns a run and whether it lives. A run that
 * is gone ends its jobs at once and loses its workspace; the registry itself is
 * the ledger's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "broker/api.h"
#include "broker/reply.h"

struct put_body {
	const char *org_id, *user_id, *state;
};

static const struct json_field put_fields[] = {
	FIELD(struct put_body, org_id, "orgId", FIELD_PTR, FIELD_REQUIRED, JOB_FIELD_MAX),
	FIELD(struct put_body, user_id, "userId", FIELD_PTR, FIELD_REQUIRED, JOB_FIELD_MAX),
	FIELD(struct put_body, state, "state", FIELD_PTR, FIELD_REQUIRED, 16),
};

/* Open jobs of a run that is no more: their commands end, then they go. */
static void remove_run(struct broker *b, const char *org_id, const char *run_id)
{
	uint8_t key[DIGEST_LEN];

	for (struct job *j = b->jobs.oldest; j;) {
		if (!j->run_id || strcmp(j->run_id, run_id) != 0 || j->ended != REASON_NONE ||
		    (org_id && strcmp(j->org_id, org_id) != 0)) {
			j = j->newer;
			continue;
		}
		job_end(&b->jobs, j, REASON_RUN_REMOVED);
		job_stop_commands(b, j, REASON_RUN_REMOVED);
		j = b->jobs.oldest; /* others may have gone with it */
	}
	if (!org_id)
		return;
	workspace_key_of(org_id, run_id, "", key);
	reap_workspace(b, key);
}

void api_runs(struct broker *b, struct exchange *x)
{
	static const char *const known[] = { "after", "limit", NULL };
	const char *after = exchange_query(x, "after");
	uint64_t limit = 100;

	if (!exchange_query_is(x, known) || !reply_query_number(x, "limit", &limit) || limit < 1 ||
	    limit > 1000) {
		reply_reason(x, REASON_INVALID_REQUEST, "the query is malformed");
		return;
	}
	reply_from_ledger(b, x, L_RUN_LIST,
			  json_pack("{s:s, s:I}", "after", after ? after : "", "limit",
				    (json_int_t)limit),
			  NULL, NULL);
}

void api_run_get(struct broker *b, struct exchange *x)
{
	reply_from_ledger(b, x, L_RUN_GET, json_pack("{s:s}", "runId", x->param[0]), NULL, NULL);
}

void api_run_put(struct broker *b, struct exchange *x)
{
	static const char *const states[] = { "alive", "archived", "gone" };
	struct put_body body = { 0 };
	auto_json json_t *v = reply_body(x, put_fields, ARRAY_SIZE(put_fields), &body);
	bool is_known = false;

	if (!v)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		is_known |= strcmp(body.state, states[i]) == 0;
	if (!is_known || !*body.org_id || !*body.user_id) {
		reply_reason(x, REASON_INVALID_REQUEST,
			     "orgId, userId and one of alive, archived and gone are due");
		return;
	}
	reply_from_ledger(b, x, L_RUN_SET,
			  json_pack("{s:s, s:s, s:s, s:s}", "runId", x->param[0], "orgId",
				    body.org_id, "userId", body.user_id, "state", body.state),
			  NULL, NULL);
	if (strcmp(body.state, "gone") == 0)
		remove_run(b, body.org_id, x->param[0]);
}

void api_run_drop(struct broker *b, struct exchange *x)
{
	reply_from_ledger(b, x, L_RUN_DROP, json_pack("{s:s}", "runId", x->param[0]), NULL, NULL);
	if (b->config.run_registry)
		remove_run(b, NULL, x->param[0]);
}
