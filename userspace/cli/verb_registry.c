/* SPDX-License-Identifier: Apache-2.0 */
/* cordon run-registry: the runs the plane knows, and whether they live (S5). */
#include <errno.h>
#include <string.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/table.h"
#include "json/json.h"

static int run_path(const struct invocation *in, char ret[HTTP_PATH_MAX], int *ret_status)
{
	struct err e;

	strcpy(ret, "/v1/runs/");
	if (http_add_part(ret, in->rest.argv[0], &e) < 0) {
		*ret_status = cli_refuse_options(&e);
		return 1;
	}
	return 0;
}

static int list(struct invocation *in)
{
	static const struct column columns[] = {
		{ "RUN", "runId" }, { "ORG", "orgId" }, { "USER", "userId" }, { "STATE", "state" },
	};
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_no_more(in, &status))
		return status;
	return table_call(in, "/v1/runs", columns, ARRAY_SIZE(columns));
}

static int on_run(struct invocation *in, const char *method, const json_t *body)
{
	auto_json json_t *answer = NULL;
	char path[HTTP_PATH_MAX];
	int status;

	if (input_want(in, 1, "RUN", &status) || run_path(in, path, &status))
		return status;
	status = cli_call(in, method, path, body, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	if (strcmp(method, "GET") == 0)
		table_print_object(answer);
	return 0;
}

static int show(struct invocation *in)
{
	int status;

	return cli_options(in, NULL, 0, NULL, &status) ? status : on_run(in, "GET", NULL);
}

static int drop(struct invocation *in)
{
	int status;

	return cli_options(in, NULL, 0, NULL, &status) ? status : on_run(in, "DELETE", NULL);
}

struct set_options {
	const char *org, *user, *state;
};

static const struct option set_rows[] = {
	OPTION(struct set_options, org, "org", 0, OPTION_TEXT, "O", "its organisation"),
	OPTION(struct set_options, user, "user", 0, OPTION_TEXT, "U", "its owner"),
	OPTION(struct set_options, state, "state", 0, OPTION_TEXT, "STATE",
	       "alive, archived or gone (alive)"),
};

static int set(struct invocation *in)
{
	struct set_options o = { .state = "alive" };
	auto_json json_t *body = json_object();
	struct err e;
	int status;

	if (cli_options(in, set_rows, ARRAY_SIZE(set_rows), &o, &status))
		return status;
	if (!o.org || !o.user) {
		err_set(&e, EINVAL, "run-registry set wants --org O --user U");
		return cli_refuse_options(&e);
	}
	json_add_text(body, "orgId", o.org);
	json_add_text(body, "userId", o.user);
	json_add_text(body, "state", o.state);
	return on_run(in, "PUT", body);
}

const struct verb registry_verbs[] = {
	{ "list", "", "list the runs", list, NULL, NULL },
	{ "show", "RUN", "show one", show, NULL, NULL },
	{ "set", "RUN --org O --user U [--state STATE]", "register, archive or end a run", set, NULL,
	  NULL },
	{ "drop", "RUN", "forget one", drop, NULL, NULL },
	{ 0 },
};
