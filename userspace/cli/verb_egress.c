/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon egress: what an address is and what an entry allows, judged here by
 * the same functions as in the gateway and without a daemon; and what the
 * running gateway would do (check) or is doing (top).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/table.h"
#include "json/json.h"
#include "policy/egress.h"

enum { INPUT_MAX = 16 << 20, TOP_SECONDS = 1 };

/* --- An array from standard input, verdicts to standard output */

/*
 * Not json_parse_strict: the strings are what is judged, and one that holds a
 * NUL or is not text wants a verdict, not an error over the whole.
 */
static json_t *read_array(int *ret_status)
{
	autofree char *text = NULL;
	json_error_t why;
	size_t len;
	struct err e;
	json_t *v;

	if (cli_read_input("-", INPUT_MAX, &text, &len, &e) < 0) {
		*ret_status = cli_refuse_options(&e);
		return NULL;
	}
	v = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
	if (v && json_is_array(v))
		return v;
	json_decref(v);
	err_set(&e, EINVAL, "standard input is no JSON array: %.100s", v ? "not an array" : why.text);
	*ret_status = cli_refuse_options(&e);
	return NULL;
}

/* Each element's verdict by @judge, NULL for one that is not of the right shape. */
static int judge_array(const char *(*judge)(const json_t *element))
{
	auto_json json_t *verdicts = json_array();
	const json_t *element;
	int status = 0;
	struct err e;
	size_t i;
	auto_json json_t *array = read_array(&status);

	if (!array)
		return status;
	json_array_foreach(array, i, element) {
		const char *verdict = judge(element);
		if (!verdict) {
			err_set(&e, EINVAL, "element %zu has the wrong shape", i);
			return cli_refuse_options(&e);
		}
		if (json_array_append_new(verdicts, json_string(verdict)) < 0) {
			err_set(&e, ENOMEM, "out of memory");
			return cli_fail(STATUS_FAILED, &e);
		}
	}
	return cli_print_json(verdicts);
}

static bool wants_array(const struct invocation *in)
{
	return in->common.is_json && in->rest.argc == 1 && strcmp(in->rest.argv[0], "-") == 0;
}

/* --- classify */

static const char *class_of(const char *text, size_t len)
{
	struct address a;

	return address_class_name(address_parse(text, len, &a) ? address_classify(&a)
							       : ADDRESS_UNPARSABLE);
}

static const char *classify_element(const json_t *v)
{
	return json_is_string(v) ? class_of(json_string_value(v), json_string_length(v)) : NULL;
}

static int classify(struct invocation *in)
{
	auto_json json_t *verdicts = json_array();
	int status;

	if (cli_options(in, NULL, 0, NULL, &status))
		return status;
	if (wants_array(in))
		return judge_array(classify_element);
	if (in->rest.argc == 0 && input_want(in, 1, "ADDRESS...", &status))
		return status;
	for (int i = 0; i < in->rest.argc; i++) {
		const char *verdict = class_of(in->rest.argv[i], strlen(in->rest.argv[i]));
		json_array_append_new(verdicts, json_string(verdict));
		if (!in->common.is_json)
			puts(verdict);
	}
	return in->common.is_json ? cli_print_json(verdicts) : 0;
}

/* --- match */

static const char *verdict_of(const struct host_entry *entry, const struct host *host,
			      uint16_t port)
{
	return host_entry_matches(entry, host, port) ? "allow" : "deny";
}

/* HOST or HOST:PORT; a bare IPv6 address is a host. */
static bool parse_host_port(const char *text, size_t len, struct host *ret, uint16_t *ret_port)
{
	struct target t;

	*ret_port = 0;
	if (host_parse(text, len, ret))
		return true;
	if (!target_parse(text, len, 0, &t))
		return false;
	*ret = t.host;
	*ret_port = t.port;
	return true;
}

static const char *match_texts(const char *entry_text, size_t entry_len, const char *host_text,
			       size_t host_len, const json_t *port_value)
{
	struct host_entry entry;
	struct host host;
	uint16_t port;

	if (!host_entry_parse(entry_text, entry_len, &entry) ||
	    !parse_host_port(host_text, host_len, &host, &port))
		return "deny";
	if (port_value && !json_is_null(port_value)) {
		json_int_t n = json_integer_value(port_value);
		if (!json_is_integer(port_value) || n < 1 || n > 65535)
			return "deny";
		port = (uint16_t)n;
	}
	return verdict_of(&entry, &host, port);
}

static const char *match_element(const json_t *v)
{
	const json_t *entry = json_object_get(v, "entry"), *host = json_object_get(v, "host");

	if (!json_is_string(entry) || !json_is_string(host))
		return NULL;
	return match_texts(json_string_value(entry), json_string_length(entry),
			   json_string_value(host), json_string_length(host),
			   json_object_get(v, "port"));
}

static int match(struct invocation *in)
{
	const char *verdict;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status))
		return status;
	if (wants_array(in))
		return judge_array(match_element);
	if (input_want(in, 2, "ENTRY HOST[:PORT]", &status))
		return status;
	char **argv = in->rest.argv;
	verdict = match_texts(argv[0], strlen(argv[0]), argv[1], strlen(argv[1]), NULL);
	if (!in->common.is_json) {
		puts(verdict);
		return 0;
	}
	auto_json json_t *text = json_string(verdict);
	return cli_print_json(text);
}

/* --- check */

struct check_options {
	const char *egress;
	struct option_list allow;
};

static const struct option check_rows[] = {
	OPTION(struct check_options, egress, "egress", 0, OPTION_TEXT, "TIER",
	       "none, allowlist or default_internet"),
	OPTION(struct check_options, allow, "allow", 0, OPTION_LIST, "HOST[:PORT]",
	       "an entry of the allowlist; may be repeated"),
};

static int check(struct invocation *in)
{
	struct check_options o = { 0 };
	auto_json json_t *answer = NULL, *body = NULL;
	int status;

	if (cli_options(in, check_rows, ARRAY_SIZE(check_rows), &o, &status) ||
	    input_want(in, 1, "HOST:PORT", &status))
		return status;
	body = json_pack("{s:s}", "target", in->rest.argv[0]);
	if (o.egress || o.allow.n) {
		json_t *egress = json_object(), *allow = json_array();
		json_object_set_new(body, "egress", egress);
		json_object_set_new(egress, "mode", json_string(o.egress ? o.egress : "allowlist"));
		for (size_t i = 0; i < o.allow.n; i++)
			json_array_append_new(allow, json_string(o.allow.at[i]));
		if (o.allow.n)
			json_object_set(egress, "allow", allow);
		json_decref(allow);
	}
	status = cli_call(in, "POST", "/v1/egress/check", body, &answer);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	const char *address = cli_text(answer, "address"), *reason = cli_text(answer, "reason");
	if (reason)
		printf("deny %s\n", reason);
	else
		printf("allow %s\n", address ? address : "-");
	return 0;
}

/* --- top */

static int top_once(struct invocation *in)
{
	static const struct column columns[] = {
		{ "JOB", "jobId" },	  { "HOST", "host" },	  { "PORT", "port" },
		{ "OPEN", "open" },	  { "ALLOWED", "allowed" }, { "DENIED", "denied" },
		{ "OUT", "outBytes" }, { "IN", "inBytes" },
	};
	auto_json json_t *answer = NULL;
	int status = cli_call(in, "GET", "/v1/egress", NULL, &answer);

	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	table_print(table_rows(answer), columns, ARRAY_SIZE(columns));
	return fflush(stdout) ? STATUS_FAILED : 0;
}

static int top(struct invocation *in)
{
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_no_more(in, &status))
		return status;
	do
		status = top_once(in);
	while (!status && !in->common.is_json && isatty(STDOUT_FILENO) && sleep(TOP_SECONDS) == 0);
	return status;
}

const struct verb egress_verbs[] = {
	{ "classify", "ADDRESS... | --json -", "say whether an address is protected", classify, NULL,
	  NULL },
	{ "match", "ENTRY HOST[:PORT] | --json -", "say whether an allowlist entry allows a host",
	  match, NULL, NULL },
	{ "check", "[--egress TIER] [--allow HOST[:PORT]]... HOST:PORT",
	  "say what the gateway would do with a request", check, NULL, NULL },
	{ "top", "", "show what running commands reach", top, NULL, NULL },
	{ 0 },
};
