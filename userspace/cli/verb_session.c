/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon session: seals and opens carriers through the broker, which alone
 * has the secret. A carrier is never taken from the command line (S6).
 */
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/table.h"
#include "json/json.h"

struct seal_options {
	const char *org, *user, *surface, *run_id;
};

static const struct option seal_rows[] = {
	OPTION(struct seal_options, org, "org", 0, OPTION_TEXT, "O", "organisation"),
	OPTION(struct seal_options, user, "user", 0, OPTION_TEXT, "U", "user"),
	OPTION(struct seal_options, surface, "surface", 0, OPTION_TEXT, "S",
	       "chat, agent_run, deterministic_task or skill_task"),
	OPTION(struct seal_options, run_id, "run-id", 0, OPTION_TEXT, "R", "run"),
};

static int seal(struct invocation *in)
{
	struct seal_options o = { 0 };
	auto_json json_t *body = json_object(), *answer = NULL;
	int status;

	if (cli_options(in, seal_rows, ARRAY_SIZE(seal_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	/* What is missing is the broker's to refuse: unidentifiable is a reason of its own. */
	json_add_text(body, "orgId", o.org ? o.org : "");
	json_add_text(body, "userId", o.user ? o.user : "");
	json_add_text(body, "surface", o.surface ? o.surface : "");
	if (o.run_id)
		json_add_text(body, "runId", o.run_id);
	status = cli_call(in, "POST", "/v1/sessions/seal", body, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	puts(cli_text(answer, "carrier"));
	return 0;
}

static int open_carrier(struct invocation *in)
{
	auto_json json_t *body = json_object(), *answer = NULL;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) ||
	    input_want(in, 1, "FILE|-", &status))
		return status;
	status = input_add_carrier(in->rest.argv[0], body);
	if (!status)
		status = cli_call(in, "POST", "/v1/sessions/open", body, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	table_print_object(answer);
	return 0;
}

const struct verb session_verbs[] = {
	{ "seal", "--org O --user U --surface S [--run-id R]", "print a carrier", seal, NULL, NULL },
	{ "open", "FILE|-", "say what a carrier holds", open_carrier, NULL, NULL },
	{ 0 },
};
