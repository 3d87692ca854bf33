/* SPDX-License-Identifier: Apache-2.0 */
/* cordon workspace: the workspaces that outlive their commands. */
#include <string.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/table.h"
#include "json/json.h"

static int list(struct invocation *in)
{
	static const struct column columns[] = {
		{ "KEY", "key" },     { "USED", "usedBytes" }, { "QUOTA", "quotaBytes" },
		{ "IN USE", "inUse" }, { "LOST", "lost" },     { "LABEL", "label" },
	};
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_no_more(in, &status))
		return status;
	return table_call(in, "/v1/workspaces", columns, ARRAY_SIZE(columns));
}

static int rm(struct invocation *in)
{
	auto_json json_t *answer = NULL;
	char path[HTTP_PATH_MAX] = "/v1/workspaces/";
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_want(in, 1, "KEY", &status))
		return status;
	if (http_add_part(path, in->rest.argv[0], &e) < 0)
		return cli_refuse_options(&e);
	status = cli_call(in, "DELETE", path, NULL, &answer);
	if (!status && in->common.is_json)
		status = cli_print_json(answer);
	return status;
}

const struct verb workspace_verbs[] = {
	{ "list", "", "list workspaces", list, NULL, NULL },
	{ "rm", "KEY", "remove one that is not in use", rm, NULL, NULL },
	{ 0 },
};
