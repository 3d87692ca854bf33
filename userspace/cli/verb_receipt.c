/* SPDX-License-Identifier: Apache-2.0 */
/* cordon receipt: what a command's receipt says, and whether it is true. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/table.h"
#include "digest/base64.h"
#include "json/json.h"

enum { INPUT_MAX = 80 << 20 };

static int receipt_show(struct invocation *in)
{
	auto_json json_t *answer = NULL;
	char path[HTTP_PATH_MAX] = "/v1/receipts/";
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) ||
	    input_want(in, 2, "JOB COMMAND", &status))
		return status;
	if (http_add_part(path, in->rest.argv[0], &e) < 0)
		return cli_refuse_options(&e);
	strcat(path, "/"); /* http_add_part keeps four bytes free */
	if (http_add_part(path, in->rest.argv[1], &e) < 0)
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
	const char *stdin_file, *output_file, *command, *statement, *key;
};

static const struct option verify_rows[] = {
	OPTION(struct verify_options, stdin_file, "stdin", 0, OPTION_TEXT, "FILE|-",
	       "the standard input it was given"),
	OPTION(struct verify_options, output_file, "output", 0, OPTION_TEXT, "FILE|-",
	       "the standard output that came back"),
	OPTION(struct verify_options, statement, "statement", 0, OPTION_TEXT, "FILE|-",
	       "a signed statement instead, without asking the plane"),
	OPTION(struct verify_options, key, "key", 0, OPTION_TEXT, "FILE",
	       "public keys that are trusted (PEM)"),
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

/* --- A statement, by its signature and the caller's own trust store alone */

/*
 * By a program of its own: signatures need a libcrypto that would make this
 * one, which stands on the path of every command, slow to start.
 */
static int verify_statement(struct invocation *in, const struct verify_options *o)
{
	char program[4096];
	const char *argv[] = { "cordon-statement", o->statement, o->key ? o->key : "",
			       in->common.is_json ? "--json" : NULL, NULL };
	static char *const no_environment[] = { NULL };
	struct err e;

	if (in->rest.argc || in->rest.has_dashes || o->stdin_file || o->output_file || o->command) {
		err_set(&e, EINVAL, "receipt verify --statement takes --key and nothing else");
		return cli_refuse_options(&e);
	}
	if (places_program(argv[0], program, sizeof(program), &e) < 0)
		return cli_fail(STATUS_FAILED, &e);
	execve(program, (char *const *)(uintptr_t)argv, no_environment);
	err_set(&e, errno, "'%s': %s", program, strerror(errno));
	return cli_fail(STATUS_FAILED, &e);
}

static int verb_verify(struct invocation *in)
{
	struct verify_options o = { 0 };
	auto_json json_t *body = json_object(), *answer = NULL;
	struct err e;
	int status;

	if (cli_options(in, verify_rows, ARRAY_SIZE(verify_rows), &o, &status))
		return status;
	if (o.statement)
		return verify_statement(in, &o);
	if (o.key) {
		err_set(&e, EINVAL, "--key goes with --statement");
		return cli_refuse_options(&e);
	}
	if (in->rest.operands != 1 || (!in->rest.has_dashes && in->rest.argc > 1)) {
		err_set(&e, EINVAL, "receipt verify wants RECEIPT|- [options] [-- ARGV...]");
		return cli_refuse_options(&e);
	}
	status = add_receipt(body, in->rest.argv[0]);
	if (!status)
		status = add_file(body, "stdinB64", o.stdin_file);
	if (!status)
		status = add_file(body, "outputB64", o.output_file);
	if (status)
		return status;
	if (o.command)
		json_add_text(body, "command", o.command);
	if (in->rest.argc > 1) {
		json_t *a = json_array();
		for (int i = 1; i < in->rest.argc; i++)
			json_array_append_new(a, json_string(in->rest.argv[i]));
		json_object_set_new(body, "argv", a);
	}
	status = cli_call(in, "POST", "/v1/receipts/verify", body, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		cli_print_json(answer);
	else
		table_print_object(answer);
	return json_is_true(json_object_get(answer, "valid")) ? 0 : STATUS_FAILED;
}

const struct verb receipt_verbs[] = {
	{ "show", "JOB COMMAND", "print a command's receipt", receipt_show, NULL, NULL },
	{ "verify",
	  "RECEIPT|- [--stdin F] [--output F] [-c COMMAND | -- ARGV...] | --statement F --key PEM",
	  "check a receipt, or a statement offline", verb_verify, NULL, NULL },
	{ 0 },
};
