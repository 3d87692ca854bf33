/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a command's run still lives (S5): the step before the queue and
 * again after it. Asks the operator's probe or the ledger's registry, whichever
 * is configured, and does what follows: goes on, or ends the job. With neither
 * every run is alive; a command without a run is asked about to nobody.
 */
#include "broker/broker.h"
#include "broker/command.h"

static void collect_run(struct command *c)
{
	struct workspace *w = c->job->workspace;

	/* Only a run that no longer exists has its workspace collected. */
	if (w->is_run && w->refs == 1)
		reap_workspace(c->broker, w->key);
}

/* @why and @text: what is said where nothing follows from @r. */
static void judge(struct command *c, const struct liveness_record *r, enum reason why,
		  const char *text)
{
	enum liveness v = liveness_judge(r, c->job->org_id, c->job->user_id);

	if (v == LIVENESS_ALIVE) {
		command_go_on(c);
		return;
	}
	if (v != LIVENESS_GONE && v != LIVENESS_FOREIGN) {
		command_refuse(c, why, text);
		return;
	}
	if (v == LIVENESS_GONE)
		collect_run(c);
	job_end(&c->broker->jobs, c->job, REASON_RUN_REMOVED);
	command_refuse(c, REASON_RUN_REMOVED, NULL);
}

/* --- The ledger's registry */

static const char no_registry[] = "the run registry does not answer";

static void on_registry(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct command *c = ctx;
	struct liveness_record r = { 0 };

	c->letter = 0;
	if (type == L_RESULT && json_is_false(json_object_get(result, "known"))) {
		r.state = "gone"; /* unknown to it */
	} else if (type == L_RESULT) {
		r.state = json_string_value(json_object_get(result, "state"));
		r.org_id = json_string_value(json_object_get(result, "orgId"));
		r.user_id = json_string_value(json_object_get(result, "userId"));
	}
	judge(c, &r, REASON_AUDIT_UNAVAILABLE, no_registry);
}

static bool ask_registry(struct command *c)
{
	auto_json json_t *body = json_pack("{s:s}", "runId", c->job->run_id);

	c->letter = body ? ledger_send(&c->broker->ledger, L_RUN_GET, body, 0, on_registry, c) : 0;
	return c->letter != 0;
}

/* --- The operator's probe */

static void on_probe(void *ctx, const struct liveness_record *r, const char *trouble)
{
	static const struct liveness_record nothing;
	struct command *c = ctx;

	c->question = NULL;
	judge(c, r ? r : &nothing, REASON_CAPABILITY_UNAVAILABLE,
	      trouble ? trouble : "the liveness probe's word is none of alive, archived and gone");
}

static bool ask_probe(struct command *c)
{
	const struct job *j = c->job;
	const struct probe_subject s = { .run_id = j->run_id,
					 .org_id = j->org_id,
					 .user_id = j->user_id,
					 .surface = surface_name(j->surface) };

	c->question = probe_ask(c->broker, &s, j->org, on_probe, c);
	return c->question != NULL;
}

enum reason liveness_begin(struct command *c, bool *ret_wait, const char **ret_text)
{
	const struct config *k = &c->broker->config;

	*ret_wait = false;
	if (c->job->ended != REASON_NONE)
		return c->job->ended == REASON_RUN_REMOVED ? REASON_RUN_REMOVED :
							     REASON_JOB_TERMINATED;
	if (!c->job->run_id || (!k->run_registry && !k->run_probe[0]))
		return REASON_NONE;
	*ret_wait = k->run_probe[0] ? ask_probe(c) : ask_registry(c);
	if (*ret_wait)
		return REASON_NONE;
	*ret_text = k->run_probe[0] ? "out of memory" : no_registry;
	return k->run_probe[0] ? REASON_CAPABILITY_UNAVAILABLE : REASON_AUDIT_UNAVAILABLE;
}
