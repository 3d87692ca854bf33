/* SPDX-License-Identifier: Apache-2.0 */
/* cordon audit and cordon receipt: what happened, and whether it can be believed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/table.h"
#include "digest/base64.h"
#include "json/json.h"

enum { RECEIPT_MAX = 1 << 20, INPUT_MAX = 80 << 20, EXPORT_PAGE = 1000 };

struct list_options {
	const char *org;
	bool is_all;
	struct option_number after, limit;
};

static const struct option list_rows[] = {
	OPTION(struct list_options, org, "org", 0, OPTION_TEXT, "O", "of one organisation"),
	OPTION(struct list_options, is_all, "all", 'a', OPTION_FLAG, NULL,
	       "of the whole instance (admin)"),
	OPTION(struct list_options, after, "after", 0, OPTION_COUNT, "SEQ", "rows behind this one"),
	OPTION(struct list_options, limit, "limit", 0, OPTION_COUNT, "N", "at most so many"),
};

/* The query of one page. */
static int rows_path(const struct list_options *o, char ret[HTTP_PATH_MAX], int *ret_status)
{
	struct err e;

	if (!o->org == !o->is_all) {
		err_set(&e, EINVAL, "exactly one of --org O and --all is due");
		*ret_status = cli_refuse_options(&e);
		return 1;
	}
	strcpy(ret, o->is_all ? "/v1/audit?all=1" : "/v1/audit?org=");
	if (o->org && http_add_part(ret, o->org, &e) < 0) {
		*ret_status = cli_refuse_options(&e);
		return 1;
	}
	size_t at = strlen(ret);
	if (o->after.is_given)
		at += (size_t)snprintf(ret + at, HTTP_PATH_MAX - at, "&after=%llu",
				       (unsigned long long)o->after.value);
	if (o->limit.is_given && at < HTTP_PATH_MAX)
		snprintf(ret + at, HTTP_PATH_MAX - at, "&limit=%llu",
			 (unsigned long long)o->limit.value);
	return 0;
}

static int audit_list(struct invocation *in)
{
	static const struct column columns[] = {
		{ "SEQ", "seq" },
		{ "TIME", "time" },
		{ "ORG", "organizationId" },
		{ "ACTOR", "actorPrincipalId" },
		{ "JOB", "resourceId" },
		{ "DECISION", "decision" },
		{ "TERMINATION", "metadata.termination" },
		{ "EXIT", "metadata.exitCode" },
		{ "REASON", "metadata.reason" },
		{ "MS", "metadata.wallMs" },
		{ "EGRESS", "metadata.egressMode" },
		{ "RUN", "runId" },
	};
	struct list_options o = { 0 };
	auto_json json_t *answer = NULL;
	char path[HTTP_PATH_MAX];
	int status;

	if (cli_options(in, list_rows, ARRAY_SIZE(list_rows), &o, NULL, &status) ||
	    input_no_more(in, &status) || rows_path(&o, path, &status))
		return status;
	status = cli_call(in, "GET", path, NULL, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	table_print(table_rows(answer), columns, ARRAY_SIZE(columns));
	return 0;
}

static int audit_verify(struct invocation *in)
{
	auto_json json_t *answer = NULL;
	int status;

	if (cli_options(in, NULL, 0, NULL, NULL, &status) || input_no_more(in, &status))
		return status;
	status = cli_call(in, "GET", "/v1/audit/verify", NULL, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		cli_print_json(answer);
	else
		table_print_object(answer);
	return json_is_true(json_object_get(answer, "ok")) ? 0 : STATUS_FAILED;
}

/* Every row as one line of JSON (A9), page by page. */
static int audit_export(struct invocation *in)
{
	struct list_options o = { 0 };
	int status;

	if (cli_options(in, list_rows, ARRAY_SIZE(list_rows), &o, NULL, &status) ||
	    input_no_more(in, &status))
		return status;
	if (!o.org)
		o.is_all = true;
	o.limit = (struct option_number){ true, EXPORT_PAGE };
	for (;;) {
		auto_json json_t *answer = NULL;
		char path[HTTP_PATH_MAX];
		const json_t *row;
		size_t i;
		if (rows_path(&o, path, &status))
			return status;
		status = cli_call(in, "GET", path, NULL, &answer);
		if (status)
			return status;
		const json_t *rows = table_rows(answer);
		json_array_foreach(rows, i, row) {
			if (cli_print_json(row))
				return STATUS_FAILED;
			json_int_t seq = json_integer_value(json_object_get(row, "seq"));
			if (seq <= 0 || (o.after.is_given && (uint64_t)seq <= o.after.value))
				return STATUS_FAILED; /* no progress: never loop */
			o.after = (struct option_number){ true, (uint64_t)seq };
		}
		if (json_array_size(rows) == 0)
			return 0;
	}
}

const struct verb audit_verbs[] = {
	{ "list", "(--org O | --all) [--after SEQ] [--limit N]", "show rows", audit_list, NULL,
	  NULL },
	{ "verify", "", "check the chain", audit_verify, NULL, NULL },
	{ "export", "[--org O]", "print every row as a line of JSON", audit_export, NULL, NULL },
	{ 0 },
};

/* --- Receipts */

static int receipt_show(struct invocation *in)
{
	auto_json json_t *answer = NULL;
	char path[HTTP_PATH_MAX] = "/v1/receipts/";
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, NULL, &status) ||
	    input_want(in, 2, "JOB COMMAND", &status))
		return status;
	if (http_add_part(path, in->argv[0], &e) < 0)
		return cli_refuse_options(&e);
	strcat(path, "/"); /* http_add_part keeps four bytes free */
	if (http_add_part(path, in->argv[1], &e) < 0)
		return cli_refuse_options(&e);
	status = cli_call(in, "GET", path, NULL, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	const json_t *receipt = json_object_get(answer, "receipt");
	table_print_object(receipt ? receipt : answer);
	return 0;
}

struct verify_options {
	const char *stdin_file, *output_file, *command;
};

static const struct option verify_rows[] = {
	OPTION(struct verify_options, stdin_file, "stdin", 0, OPTION_TEXT, "FILE|-",
	       "the standard input it was given"),
	OPTION(struct verify_options, output_file, "output", 0, OPTION_TEXT, "FILE|-",
	       "the standard output that came back"),
	{ "command", 'c', OPTION_TEXT, offsetof(struct verify_options, command), "COMMAND",
	  "what was run by bash -c", true },
};

static int add_file(json_t *body, const char *key, const char *file)
{
	autofree char *raw = NULL;
	size_t len;
	struct err e;

	if (!file)
		return 0;
	if (cli_read_input(file, INPUT_MAX, &raw, &len, &e) < 0)
		return cli_refuse_options(&e);
	autofree char *text = malloc(BASE64_MAX(len));
	if (!text)
		return STATUS_FAILED;
	base64_encode(raw, len, text);
	return json_object_set_new(body, key, json_string(text)) < 0 ? STATUS_FAILED : 0;
}

/* A receipt as `receipt show --json` or `run --json` print it, or the bare object. */
static int add_receipt(json_t *body, const char *file)
{
	autofree char *text = NULL;
	size_t len;
	struct err e;

	if (cli_read_input(file, INPUT_MAX, &text, &len, &e) < 0)
		return cli_refuse_options(&e);
	auto_json json_t *v = json_parse_strict(text, len, 16, &e);
	if (!v)
		return err_wrap(&e, file), cli_refuse_options(&e);
	json_t *inner = json_object_get(v, "receipt");
	return json_object_set(body, "receipt", inner ? inner : v) < 0 ? STATUS_FAILED : 0;
}

static int receipt_verify(struct invocation *in)
{
	struct verify_options o = { 0 };
	auto_json json_t *body = json_object(), *answer = NULL;
	const char *file = NULL;
	bool has_dashes = false;
	struct err e;
	int status;

	if (cli_options(in, verify_rows, ARRAY_SIZE(verify_rows), &o, &has_dashes, &status))
		return status;
	if (!has_dashes && in->argc > 0) {
		file = in->argv[0];
		in->argc--, in->argv++;
		if (cli_options(in, verify_rows, ARRAY_SIZE(verify_rows), &o, &has_dashes,
				&status))
			return status;
	}
	if (!file || (!has_dashes && in->argc)) {
		err_set(&e, EINVAL, "receipt verify wants RECEIPT|- [options] [-- ARGV...]");
		return cli_refuse_options(&e);
	}
	status = add_receipt(body, file);
	if (!status)
		status = add_file(body, "stdinB64", o.stdin_file);
	if (!status)
		status = add_file(body, "outputB64", o.output_file);
	if (status)
		return status;
	if (o.command)
		json_add_text(body, "command", o.command);
	if (in->argc) {
		json_t *a = json_array();
		for (int i = 0; i < in->argc; i++)
			json_array_append_new(a, json_string(in->argv[i]));
		json_object_set_new(body, "argv", a);
	}
	status = cli_call(in, "POST", "/v1/receipts/verify", body, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		cli_print_json(answer);
	else
		table_print_object(answer);
	return json_is_true(json_object_get(answer, "ok")) ? 0 : STATUS_FAILED;
}

const struct verb receipt_verbs[] = {
	{ "show", "JOB COMMAND", "print a command's receipt", receipt_show, NULL, NULL },
	{ "verify", "RECEIPT|- [--stdin F] [--output F] [-c COMMAND | -- ARGV...]",
	  "check a receipt", receipt_verify, NULL, NULL },
	{ 0 },
};
