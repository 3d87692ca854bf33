/* SPDX-License-Identifier: Apache-2.0 */
/* cordon run: one command under a session of its own. */
#include "base/scope.h"
#include "cli/exec.h"
#include "json/json.h"

struct run_options {
	struct exec_options x;
	const char *org, *user, *surface, *run_id;
};

static const struct option rows[] = {
	OPTION(struct run_options, org, "org", 0, OPTION_TEXT, "O", "organisation (local)"),
	OPTION(struct run_options, user, "user", 0, OPTION_TEXT, "U", "user (the caller's name)"),
	OPTION(struct run_options, surface, "surface", 0, OPTION_TEXT, "S",
	       "chat, agent_run, deterministic_task or skill_task (chat)"),
	OPTION(struct run_options, run_id, "run-id", 0, OPTION_TEXT, "R",
	       "the run whose workspace is used (none: a fresh one)"),
	EXEC_OPTIONS(struct run_options, x),
};

int verb_run(struct invocation *in)
{
	struct run_options o = { .org = "local", .surface = "chat" };
	char own[64];
	int status;

	if (cli_options(in, rows, ARRAY_SIZE(rows), &o, &status))
		return status;
	if (!o.user)
		cli_own_name(own);
	auto_json json_t *body = json_object();
	json_t *s = json_object();
	if (json_add_text(s, "orgId", o.org) < 0 ||
	    json_add_text(s, "userId", o.user ? o.user : own) < 0 ||
	    json_add_text(s, "surface", o.surface) < 0 ||
	    (o.run_id && json_add_text(s, "runId", o.run_id) < 0)) {
		struct err e = { .code = 22, .msg = "the session is not UTF-8" };
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	}
	json_object_set_new(body, "session", s);
	return exec_run(in, "/v1/run", body, &o.x);
}
