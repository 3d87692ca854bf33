/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one reader of command requests. Decides nothing about the session, the
 * limits in force or the queue; only whether the words mean something.
 */
#include "broker/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "broker/egress.h"
#include "digest/base64.h"
#include "json/json.h"
#include "proto/worker.h"

/* As it stands in the body, before it is checked. */
struct raw {
	const json_t *argv, *egress, *skills, *environment, *session;
	const char *command, *cwd, *image, *command_id, *stdin_b64, *stdin_word, *voucher;
	struct limits asked;
	bool is_stream;
};

#define RAW(member, key, kind, most) FIELD(struct raw, member, key, kind, 0, most)

static const struct json_field exec_fields[] = {
	RAW(argv, "argv", FIELD_ARRAY, 0),
	RAW(command, "command", FIELD_PTR, ARGV_ELEMENT_MAX),
	RAW(cwd, "cwd", FIELD_PTR, PROTO_CWD_MAX - 1),
	RAW(asked.timeout_ms, "timeoutMs", FIELD_U64, 0),
	RAW(asked.memory_bytes, "memoryBytes", FIELD_U64, 0),
	RAW(asked.cpu_milli, "cpuMilli", FIELD_U32, 0),
	RAW(asked.pids, "pids", FIELD_U32, 0),
	RAW(asked.workspace_bytes, "workspaceBytes", FIELD_U64, 0),
	RAW(asked.output_bytes, "outputBytes", FIELD_U64, 0),
	RAW(egress, "egress", FIELD_OBJECT, 0),
	RAW(skills, "skills", FIELD_ARRAY, 0),
	RAW(environment, "environment", FIELD_ANY, 0),
	RAW(image, "image", FIELD_PTR, REQUEST_IMAGE_MAX),
	RAW(command_id, "commandId", FIELD_PTR, REQUEST_ID_MAX),
	RAW(stdin_b64, "stdinB64", FIELD_PTR, 0),
	RAW(stdin_word, "stdin", FIELD_PTR, 16),
	RAW(is_stream, "stream", FIELD_BOOL, 0),
	RAW(voucher, "voucher", FIELD_PTR, 8192),
	/* last: only POST /v1/run takes it */
	FIELD(struct raw, session, "session", FIELD_OBJECT, FIELD_REQUIRED, 0),
};

static const struct json_field session_fields[] = {
	FIELD(struct exec_request, org_id, "orgId", FIELD_PTR, 0, 0),
	FIELD(struct exec_request, user_id, "userId", FIELD_PTR, 0, 0),
	FIELD(struct exec_request, surface, "surface", FIELD_PTR, 0, 0),
	FIELD(struct exec_request, run_id, "runId", FIELD_PTR, 0, 0),
};

/* A limit that is given and zero is not "the default". */
static const struct {
	const char *key;
	size_t offset;
	bool is_wide;
} limit_keys[] = {
	{ "timeoutMs", offsetof(struct limits, timeout_ms), true },
	{ "memoryBytes", offsetof(struct limits, memory_bytes), true },
	{ "cpuMilli", offsetof(struct limits, cpu_milli), false },
	{ "pids", offsetof(struct limits, pids), false },
	{ "workspaceBytes", offsetof(struct limits, workspace_bytes), true },
	{ "outputBytes", offsetof(struct limits, output_bytes), true },
};

bool request_is_id(const char *s, size_t max)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return n >= 1 && n <= max && s[n] == '\0';
}

/* --- argv */

static int flatten(const char *const *elements, const size_t *lens, size_t n,
		   struct exec_request *r, struct err *e)
{
	size_t total = 0;

	for (size_t i = 0; i < n; i++) {
		if (lens[i] > ARGV_ELEMENT_MAX)
			return err_set(e, E2BIG, "argument %zu is longer than %d bytes", i,
				       ARGV_ELEMENT_MAX);
		total += lens[i] + 1;
		if (total > ARGV_BYTES_MAX)
			return err_set(e, E2BIG, "the arguments are longer than %d bytes",
				       ARGV_BYTES_MAX);
	}
	r->args = malloc(total);
	if (!r->args)
		return err_set(e, ENOMEM, "argv: out of memory");
	for (size_t i = 0; i < n; i++) {
		memcpy(r->args + r->args_len, elements[i], lens[i] + 1);
		r->args_len += lens[i] + 1;
	}
	r->argc = (uint32_t)n;
	return 0;
}

static int read_argv(const json_t *argv, struct exec_request *r, struct err *e)
{
	size_t n = json_array_size(argv);

	if (n == 0)
		return err_set(e, EINVAL, "'argv' is empty");
	if (n > ARGV_COUNT_MAX)
		return err_set(e, E2BIG, "more than %d arguments", ARGV_COUNT_MAX);
	autofree const char **elements = calloc(n, sizeof(*elements));
	autofree size_t *lens = calloc(n, sizeof(*lens));
	if (!elements || !lens)
		return err_set(e, ENOMEM, "argv: out of memory");
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(argv, i);
		if (!json_is_string(v))
			return err_set(e, EINVAL, "'argv' element %zu is not a string", i);
		elements[i] = json_string_value(v);
		lens[i] = json_string_length(v);
	}
	return flatten(elements, lens, n, r, e);
}

static int read_command(const struct raw *raw, struct exec_request *r, struct err *e)
{
	if (!raw->argv == !raw->command)
		return err_set(e, EINVAL, "exactly one of 'argv' and 'command' is due");
	if (raw->argv)
		return read_argv(raw->argv, r, e);
	const char *elements[] = { "bash", "-c", raw->command };
	size_t lens[] = { 4, 2, strlen(raw->command) };
	return flatten(elements, lens, 3, r, e);
}

/* --- The rest */

static int read_cwd(const char *cwd, struct exec_request *r, struct err *e)
{
	static const char root[] = "/workspace";

	r->cwd = "";
	if (!cwd)
		return 0;
	if (*cwd == '/') {
		if (strncmp(cwd, root, strlen(root)) != 0 ||
		    (cwd[strlen(root)] != '\0' && cwd[strlen(root)] != '/'))
			return err_set(e, EINVAL, "'cwd' is not below /workspace");
		cwd += strlen(root);
		cwd += strspn(cwd, "/");
	}
	for (const char *p = cwd; *p; p += strcspn(p, "/"), p += strspn(p, "/")) {
		size_t n = strcspn(p, "/");
		if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return err_set(e, EINVAL, "'cwd' has a part '.' or '..'");
		if (n > 255)
			return err_set(e, EINVAL, "'cwd' has a part over 255 bytes");
	}
	r->cwd = cwd;
	return 0;
}

static int read_limits(const struct raw *raw, struct exec_request *r, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(limit_keys); i++) {
		const char *at = (const char *)&raw->asked + limit_keys[i].offset;
		uint64_t wide = 0;
		memcpy(&wide, at, limit_keys[i].is_wide ? sizeof(uint64_t) : sizeof(uint32_t));
		if (wide == 0 && json_object_get(r->body, limit_keys[i].key))
			return err_set(e, EINVAL, "'%s' is zero", limit_keys[i].key);
	}
	r->asked = raw->asked;
	return 0;
}

/* B8: starts with an alphanumeric and stays in [A-Za-z0-9._:/@-]. */
static int read_image(const char *image, struct exec_request *r, struct err *e)
{
	static const char alnum[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@-";

	r->image = image ? image : "";
	if (!image)
		return 0;
	if (strspn(image, alnum) != strlen(image) || !*image || strchr("._:/@-", *image))
		return err_set(e, EINVAL, "'image' is no image reference");
	return 0;
}

static int read_id(const char *id, struct exec_request *r, struct err *e)
{
	if (!id)
		return 0;
	if (!request_is_id(id, REQUEST_ID_MAX) || strcmp(id, ".") == 0 || strcmp(id, "..") == 0)
		return err_set(e, EINVAL, "'commandId' is not [A-Za-z0-9._-]{1,%d}",
			       REQUEST_ID_MAX);
	if (strncmp(id, REQUEST_AUTO_PREFIX, strlen(REQUEST_AUTO_PREFIX)) == 0)
		return err_set(e, EINVAL, "'commandId' begins with the reserved '%s'",
			       REQUEST_AUTO_PREFIX);
	r->command_id = id;
	return 0;
}

static int read_stdin(const struct raw *raw, struct exec_request *r, struct err *e)
{
	if (raw->stdin_word && raw->stdin_b64)
		return err_set(e, EINVAL, "'stdin' and 'stdinB64' exclude each other");
	if (raw->stdin_word) {
		if (strcmp(raw->stdin_word, "stream") != 0)
			return err_set(e, EINVAL, "'stdin' can only be \"stream\"");
		r->stdin_kind = STDIN_STREAM;
		return 0;
	}
	if (!raw->stdin_b64)
		return 0;
	size_t len = strlen(raw->stdin_b64), cap = len / 4 * 3 + 3;
	if (cap > REQUEST_STDIN_MAX + 6)
		return err_set(e, E2BIG, "'stdinB64' is more than %d bytes: stream it",
			       REQUEST_STDIN_MAX);
	r->stdin_buf = malloc(cap);
	if (!r->stdin_buf)
		return err_set(e, ENOMEM, "stdin: out of memory");
	ssize_t n = base64_decode(raw->stdin_b64, len, r->stdin_buf, cap);
	if (n < 0)
		return err_set(e, EINVAL, "'stdinB64' is not base64");
	r->stdin_len = (size_t)n;
	r->stdin_kind = STDIN_INLINE;
	return 0;
}

/* 0 is none; a fraction rounds up to 1 and down otherwise, so it never becomes none. */
static int read_max_bytes(const json_t *v, struct egress_policy *p, struct err *e)
{
	if (json_is_null(v))
		return 0;
	if (json_is_integer(v)) {
		if (json_integer_value(v) < 0)
			return err_set(e, EINVAL, "'egress.maxBytes' must not be negative");
		p->max_bytes = (uint64_t)json_integer_value(v);
		return 0;
	}
	double d = json_is_real(v) ? json_real_value(v) : -1;
	if (!(d >= 0) || d >= 9007199254740992.0)
		return err_set(e, EINVAL, "'egress.maxBytes' is no number of bytes");
	p->max_bytes = d > 0 && d < 1 ? 1 : (uint64_t)d;
	return 0;
}

static int read_hosts(const json_t *allow, struct egress_policy *p, struct err *e)
{
	size_t n = json_array_size(allow);

	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(allow, i);
		struct host_entry entry;
		if (!json_is_string(v))
			return err_set(e, EINVAL, "'egress.allow' element %zu is not a string", i);
		if (!host_entry_parse(json_string_value(v), json_string_length(v), &entry))
			return err_set(e, EINVAL, "'egress.allow' element %zu names nothing", i);
		if (!egress_policy_add_host(p, &entry))
			return err_set(e, E2BIG, "more than %d hosts", EGRESS_HOSTS_MAX);
	}
	return 0;
}

int request_read_egress(const json_t *obj, struct egress_policy **ret, struct err *e)
{
	struct {
		const char *mode;
		const json_t *allow, *max_bytes;
	} raw = { 0 };
	const struct json_field fields[] = {
		{ "mode", FIELD_PTR, 0, 0, sizeof(raw.mode), 32 },
		{ "allow", FIELD_ARRAY, 0, sizeof(raw.mode), sizeof(raw.allow), 0 },
		{ "maxBytes", FIELD_ANY, 0, sizeof(raw.mode) + sizeof(raw.allow),
		  sizeof(raw.max_bytes), 0 },
	};

	struct egress_policy p;

	if (json_fields_read(obj, fields, ARRAY_SIZE(fields), &raw, e) < 0)
		return err_wrap(e, "egress");
	/* No mode: the configured default, under a ceiling; or what a host list stands for. */
	p.max_bytes = p.nhosts = 0;
	p.tier = raw.mode ? egress_tier_from_name(raw.mode) :
			  raw.allow ? EGRESS_TIER_ALLOWLIST :
				      EGRESS_TIER_COUNT;
	if (raw.mode && p.tier >= EGRESS_TIER_COUNT)
		return err_set(e, EINVAL,
			       "'egress.mode' is none, allowlist or default_internet");
	if (raw.allow && p.tier != EGRESS_TIER_ALLOWLIST)
		return err_set(e, EINVAL, "'egress.allow' goes with the mode allowlist");
	if (raw.allow && read_hosts(raw.allow, &p, e) < 0)
		return -e->code;
	if (raw.max_bytes && read_max_bytes(raw.max_bytes, &p, e) < 0)
		return -e->code;
	*ret = egress_policy_keep(&p);
	return *ret ? 0 : err_set(e, ENOMEM, "egress: out of memory");
}

static enum reason refuse_unbuilt(const struct raw *raw, struct err *e)
{
	const char *what = raw->environment && !json_is_null(raw->environment) ? "environment" :
										 NULL;

	if (!what)
		return REASON_NONE;
	err_set(e, ENOSYS, "'%s' is not available on this plane yet", what);
	return REASON_NOT_AVAILABLE;
}

enum reason request_parse(const char *text, size_t len, enum request_kind kind,
			  struct exec_request *r, struct err *e)
{
	struct raw raw = { 0 };
	size_t nfields = ARRAY_SIZE(exec_fields) - (kind == REQUEST_EXEC);

	memset(r, 0, sizeof(*r));
	r->cwd = r->image = "";
	r->body = json_parse_strict(text, len, JSON_DEPTH, e);
	if (!r->body || json_fields_read(r->body, exec_fields, nfields, &raw, e) < 0)
		return REASON_INVALID_REQUEST;
	if (raw.session && json_fields_read(raw.session, session_fields,
					    ARRAY_SIZE(session_fields), r, e) < 0) {
		err_wrap(e, "session");
		return REASON_INVALID_REQUEST;
	}
	r->is_stream = raw.is_stream;
	r->voucher = raw.voucher;
	r->skills = raw.skills && json_array_size(raw.skills) > 0 ? raw.skills : NULL;
	if (r->skills && kind == REQUEST_EXEC) {
		err_set(e, EINVAL, "'skills' are attached when the job is opened");
		return REASON_INVALID_REQUEST;
	}
	if (read_id(raw.command_id, r, e) < 0 || read_cwd(raw.cwd, r, e) < 0 ||
	    read_command(&raw, r, e) < 0 || read_limits(&raw, r, e) < 0 ||
	    read_image(raw.image, r, e) < 0 || read_stdin(&raw, r, e) < 0 ||
	    (raw.egress && request_read_egress(raw.egress, &r->egress, e) < 0))
		return REASON_INVALID_REQUEST;
	return refuse_unbuilt(&raw, e);
}

void request_done(struct exec_request *r)
{
	json_decref(r->body);
	free(r->args);
	free(r->stdin_buf);
	free(r->egress);
	memset(r, 0, sizeof(*r));
}
