/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one object a command is answered with (SPEC 16). Absent values are null;
 * output that is no UTF-8 goes as base64 under another name.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/command.h"
#include "base/scope.h"
#include "digest/base64.h"
#include "json/flat.h"
#include "json/json.h"

const struct result_guard result_guards[] = {
	{ GUARD_USERNS, "userns" },
	{ GUARD_SECCOMP, "seccomp" },
	{ GUARD_NO_NEW_PRIVS, "no_new_privs" },
	{ GUARD_MEMORY, "memory" },
	{ GUARD_PIDS, "pids" },
	{ GUARD_CPU, "cpu" },
	{ GUARD_SWAP, "swap" },
	{ GUARD_IDMAP, "idmap" },
	{ GUARD_MOUNT_CHECK, "mount_check" },
	{ GUARD_EGRESS_BPF, "egress_bpf" },
	{ GUARD_NFT, "nft" },
	{ GUARD_LANDLOCK, "landlock" },
	{ GUARD_LSM, "lsm" },
};
const size_t result_nguards = ARRAY_SIZE(result_guards);

static json_t *guard_names(uint32_t set)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < result_nguards; i++)
		if (set & result_guards[i].bit)
			json_array_append_new(list, json_string(result_guards[i].name));
	return list;
}

static json_t *guards_of(const struct command *c)
{
	return json_pack("{s:o, s:o}", "on", guard_names(c->done.guards), "missing",
			 guard_names(c->done.guards_missing));
}

static json_t *limits_of(const struct limits *l)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "timeoutMs", (json_int_t)l->timeout_ms,
			 "memoryBytes", (json_int_t)l->memory_bytes, "cpuMilli",
			 (json_int_t)l->cpu_milli, "pids", (json_int_t)l->pids, "workspaceBytes",
			 (json_int_t)l->workspace_bytes, "outputBytes",
			 (json_int_t)l->output_bytes);
}

static json_t *image_of(const struct command *c)
{
	char text[7 + DIGEST_HEX_MAX] = "sha256:";

	digest_hex(c->image, DIGEST_LEN, text + 7);
	return json_string(text);
}

static json_t *base64_of(const uint8_t *buf, size_t len)
{
	char *text = malloc(BASE64_MAX(len));
	json_t *v = NULL;

	if (text)
		v = json_stringn_nocheck(text, base64_encode(buf, len, text));
	free(text);
	return v;
}

/* @key, or @key and "B64". */
static int add_output(json_t *obj, const char *key, const char *key_b64, const struct output *o)
{
	const uint8_t *buf = o->buf + o->start;
	size_t len = o->len - o->start;

	if (len == 0)
		return json_object_set_new(obj, key, json_string(""));
	if (flat_is_utf8((const char *)buf, len))
		return json_object_set_new(obj, key, json_stringn_nocheck((const char *)buf, len));
	return json_object_set_new(obj, key_b64, base64_of(buf, len));
}

static json_t *or_null(bool is_there, json_t *v)
{
	if (is_there)
		return v;
	json_decref(v);
	return json_null();
}

static json_t *text_or_null(const char *s)
{
	return s && *s ? json_string(s) : json_null();
}

static int add_streams(json_t *obj, const struct command *c, bool ran)
{
	int rc = 0;

	if (ran) {
		rc |= add_output(obj, "stdout", "stdoutB64", &c->out[OUT_STDOUT]);
		rc |= add_output(obj, "stderr", "stderrB64", &c->out[OUT_STDERR]);
	} else {
		rc |= json_object_set_new(obj, "stdout", json_null());
		rc |= json_object_set_new(obj, "stderr", json_null());
	}
	return rc;
}

json_t *result_to_json(const struct command *c, bool with_output)
{
	bool ran = !c->is_denied && c->has_done;
	json_t *v = json_pack(
		"{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:b}", "jobId", text_or_null(c->job_id),
		"commandId", text_or_null(c->id), "decision", c->is_denied ? "denied" : "allowed",
		"reason", text_or_null(reason_code(c->reason)), "exitCode",
		or_null(ran && c->done.exit_code >= 0, json_integer(c->done.exit_code)), "signal",
		or_null(ran && c->done.signal > 0, json_integer(c->done.signal)), "termination",
		text_or_null(termination_code(c->termination)), "oomKilled",
		ran && c->done.oom_killed);

	if (!v || (with_output && add_streams(v, c, ran) != 0)) {
		json_decref(v);
		return NULL;
	}
	json_t *rest = json_pack(
		"{s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:O?, s:b}", "stdoutTruncated",
		c->out[OUT_STDOUT].is_truncated, "stderrTruncated", c->out[OUT_STDERR].is_truncated,
		"wallMs", or_null(ran, json_integer((json_int_t)(c->done.wall_ns / 1000000))),
		"imageDigest", or_null(c->has_image, image_of(c)), "workspaceKb",
		or_null(ran, json_integer((json_int_t)((c->done.workspace_bytes + 1023) / 1024))),
		"limits", c->has_limits ? limits_of(&c->limits) : json_null(), "egress",
		c->egress.is_resolved ? egress_to_json(&c->egress) : json_null(), "guards",
		ran ? guards_of(c) : json_null(), "receipt", c->receipt, "untrusted", 1);
	if (!rest || json_object_update_missing(v, rest) != 0 ||
	    (c->text && json_object_set_new(v, "text", json_string(c->text)) != 0 &&
	     json_object_set_new(v, "text", json_string("not printable")) != 0)) {
		json_decref(v);
		v = NULL;
	}
	json_decref(rest);
	return v;
}

char *result_text(const struct command *c, bool with_output, size_t *ret_len)
{
	json_t *v = result_to_json(c, with_output);
	char *text = v ? json_dump_compact(v, ret_len) : NULL;

	json_decref(v);
	return text;
}
