/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command's result means to a shell (SPEC 16) and how it is shown.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/relay.h"
#include "digest/base64.h"
#include "json/json.h"

static const struct {
	const char *termination;
	int status;
	const char *meaning;
} ends[] = {
	{ "timeout", 124, NULL },
	{ "output_cap_exceeded", 125, "a stream went beyond its cap" },
	{ "disk_quota_exceeded", 125, "the workspace is above its quota or out of inodes" },
	{ "worker_error", 125, "the plane failed while the command ran" },
};

static void print_denied(const json_t *result)
{
	const json_t *egress = json_object_get(result, "egress"), *d;
	size_t i;

	json_array_foreach(json_object_get(egress, "denied"), i, d) {
		const char *host = cli_text(d, "host"), *reason = cli_text(d, "reason");
		fprintf(stderr, "cordon: denied %s:%lld %s\n", host ? host : "-",
			(long long)json_integer_value(json_object_get(d, "port")),
			reason ? reason : "-");
	}
}

/* `cordon: REASON: text`, where text is the plane's own if it gave one. */
static int say(const json_t *result, const char *code, const char *meaning, int status)
{
	const char *text = cli_text(result, "text");

	if (status == 125)
		fprintf(stderr, "cordon: %s: %s\n", code, text ? text : meaning);
	return status;
}

static int status_of(const json_t *result)
{
	const char *reason = cli_text(result, "reason");
	const char *termination = cli_text(result, "termination");
	const json_t *code = json_object_get(result, "exitCode");
	const json_t *sig = json_object_get(result, "signal");

	if (reason) {
		const struct reason_row *row = reason_row(reason_from_code(reason));
		return say(result, reason, row->meaning, row->exit_status);
	}
	for (size_t i = 0; termination && i < ARRAY_SIZE(ends); i++)
		if (strcmp(termination, ends[i].termination) == 0)
			return say(result, termination, ends[i].meaning, ends[i].status);
	if (cli_is(result, "termination", "exited")) {
		if (json_is_integer(sig) && json_integer_value(sig) > 0)
			return 128 + (int)json_integer_value(sig);
		if (json_is_integer(code))
			return (int)json_integer_value(code);
	}
	return say(result, reason_code(REASON_WORKER_ERROR), "a result without an end", 125);
}

int result_status(const json_t *result, bool is_verbose)
{
	if (is_verbose)
		print_denied(result);
	return status_of(result);
}

/* As text, or as base64 under another name where the bytes are no text. */
static int put_stream(json_t *v, const char *name, const struct relay_buffer *b)
{
	char b64_name[16];
	const char *at = b->at ? b->at : "";
	json_t *string = json_stringn(at, b->len); /* NULL: not UTF-8 */

	if (string)
		return json_object_set_new(v, name, string);
	autofree char *text = malloc(BASE64_MAX(b->len));
	if (!text)
		return -1;
	base64_encode(at, b->len, text);
	snprintf(b64_name, sizeof(b64_name), "%sB64", name);
	return json_object_set_new(v, b64_name, json_string(text));
}

/* In the order of SPEC 16: the streams before what is said about them. */
int result_print(json_t *result, const struct relay_buffer kept[2])
{
	auto_json json_t *v = json_object();
	const char *key;
	json_t *member;
	int rc = 0;

	bool has_streams = cli_text(result, "termination") != NULL;

	json_object_foreach(result, key, member) {
		if (strcmp(key, "stdoutTruncated") == 0 && has_streams)
			rc |= put_stream(v, "stdout", &kept[0]) | put_stream(v, "stderr", &kept[1]);
		if (!has_streams || strncmp(key, "std", 3) != 0 || strstr(key, "Truncated"))
			rc |= json_object_set(v, key, member);
	}
	/* A refusal has no streams, and says so. */
	for (int i = 0; !has_streams && i < 2; i++)
		if (!json_object_get(v, i ? "stderr" : "stdout"))
			rc |= json_object_set_new(v, i ? "stderr" : "stdout", json_null());
	return rc ? STATUS_FAILED : cli_print_json(v);
}

/* Q2: what loses its broker ends by signal 9; without acceptance nothing ran. */
json_t *result_without(enum reason why, const char *text, const json_t *accepted)
{
	static const char *const nulls[] = {
		"oomKilled", "stdout",	"stderr", "stdoutTruncated", "stderrTruncated", "wallMs",
		"imageDigest", "workspaceKb", "limits", "egress", "guards", "receipt",
	};
	bool ran = accepted && reason_row(why)->decision == DECIDES_ALLOWED;
	json_t *v = json_object();

	json_add_text(v, "jobId", cli_text(accepted, "jobId"));
	json_add_text(v, "commandId", cli_text(accepted, "commandId"));
	json_add_text(v, "decision", ran ? "allowed" : "denied");
	json_add_text(v, "reason", reason_code(why));
	json_add_text(v, "text", text);
	json_object_set_new(v, "exitCode", json_null());
	json_object_set_new(v, "signal", ran ? json_integer(9) : json_null());
	json_add_text(v, "termination", ran ? "exited" : NULL);
	for (size_t i = 0; i < ARRAY_SIZE(nulls); i++)
		json_object_set_new(v, nulls[i], json_null());
	json_object_set_new(v, "untrusted", json_true());
	return v;
}
