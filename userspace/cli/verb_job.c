/* SPDX-License-Identifier: Apache-2.0 */
/* cordon job: opened sessions and the commands on them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "cli/exec.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/skill_view.h"
#include "cli/table.h"
#include "json/json.h"

struct open_options {
	const char *carrier;
	struct option_list skill;
	const char *environment;
};

static const struct option open_rows[] = {
	OPTION(struct open_options, carrier, "carrier", 0, OPTION_TEXT, "FILE|-",
	       "the sealed session"),
	OPTION(struct open_options, skill, "skill", 0, OPTION_LIST, "SLUG",
	       "attach a skill (again for more)"),
};

static int open_job(struct invocation *in)
{
	struct open_options o = { 0 };
	auto_json json_t *body = json_object(), *answer = NULL;
	struct err e;
	int status;

	if (cli_options(in, open_rows, ARRAY_SIZE(open_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	if (!o.carrier) {
		err_set(&e, EINVAL, "job open wants --carrier FILE|-");
		return cli_refuse_options(&e);
	}
	status = input_add_carrier(o.carrier, body);
	if (status)
		return status;
	skill_warn_attached(in, o.skill.at, o.skill.n);
	if (o.skill.n) {
		json_t *a = json_array();
		for (size_t i = 0; i < o.skill.n; i++)
			json_array_append_new(a, json_string(o.skill.at[i]));
		json_object_set_new(body, "skills", a);
	}
	status = cli_call(in, "POST", "/v1/jobs", body, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	puts(cli_text(answer, "jobId"));
	return 0;
}

/* /v1/jobs/JOB + @tail */
static int job_path(const char *job, const char *tail, char ret[HTTP_PATH_MAX], int *ret_status)
{
	struct err e;

	strcpy(ret, "/v1/jobs/");
	if (http_add_part(ret, job, &e) < 0 || strlen(ret) + strlen(tail) >= HTTP_PATH_MAX) {
		*ret_status = cli_refuse(REASON_UNKNOWN_JOB, &e);
		return 1;
	}
	strcat(ret, tail); /* length checked above */
	return 0;
}

struct exec_job_options {
	struct exec_options x;
};

static const struct option exec_rows[] = { EXEC_OPTIONS(struct exec_job_options, x) };

/* JOB is the one operand before `--`. */
static int exec(struct invocation *in)
{
	struct exec_job_options o = { 0 };
	char path[HTTP_PATH_MAX];
	struct err e;
	int status;

	if (cli_options(in, exec_rows, ARRAY_SIZE(exec_rows), &o, &status))
		return status;
	if (in->rest.operands < 1) {
		err_set(&e, EINVAL, "job exec wants JOB");
		return cli_refuse_options(&e);
	}
	if (job_path(in->rest.argv[0], "/commands", path, &status))
		return status;
	in->rest.operands--, in->rest.argc--, in->rest.argv++;
	auto_json json_t *body = json_object();
	return exec_run(in, path, body, &o.x);
}

struct list_options {
	bool is_all;
};

static const struct option list_rows[] = {
	OPTION(struct list_options, is_all, "all", 'a', OPTION_FLAG, NULL,
	       "of every peer (admin)"),
};

static int list(struct invocation *in)
{
	static const struct column columns[] = {
		{ "JOB", "jobId" },	{ "ORG", "orgId" },	{ "USER", "userId" },
		{ "SURFACE", "surface" }, { "RUN", "runId" },	{ "RUNNING", "running" },
		{ "STATE", "state" },
	};
	struct list_options o = { 0 };
	int status;

	if (cli_options(in, list_rows, ARRAY_SIZE(list_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	return table_call(in, o.is_all ? "/v1/jobs?all=1" : "/v1/jobs", columns, ARRAY_SIZE(columns));
}

static int call_on_job(struct invocation *in, const char *method, const char *tail)
{
	auto_json json_t *answer = NULL;
	char path[HTTP_PATH_MAX];
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_want(in, 1, "JOB", &status) ||
	    job_path(in->rest.argv[0], tail, path, &status))
		return status;
	status = cli_call(in, method, path, NULL, &answer);
	if (!status && in->common.is_json)
		status = cli_print_json(answer);
	return status;
}

static int kill_job(struct invocation *in)
{
	return call_on_job(in, "POST", "/kill");
}

static int close_job(struct invocation *in)
{
	return call_on_job(in, "DELETE", "");
}

const struct verb job_verbs[] = {
	{ "open", "--carrier FILE|- [--skill SLUG...]", "open a session as a job", open_job, NULL,
	  NULL },
	{ "exec", "JOB [options] (-- ARGV... | -c COMMAND)", "run a command on a job", exec, NULL,
	  NULL },
	{ "list", "[--all]", "list open jobs", list, NULL, NULL },
	{ "kill", "JOB", "end the job's running command", kill_job, NULL, NULL },
	{ "close", "JOB", "end a job", close_job, NULL, NULL },
	{ 0 },
};
