/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From options to a request: the JSON, and where standard input comes from.
 * What the words mean is the broker's to judge, and its refusal leaves a row.
 */
#include "cli/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/relay.h"
#include "cli/skill_view.h"
#include "digest/base64.h"
#include "json/json.h"

enum {
	STDIN_INLINE_MAX = 256 * 1024, /* beyond, a second connection streams it */
	ENVIRONMENT_MAX = 64 * 1024,
};

static const struct {
	const char *key;
	size_t offset;
} numbers[] = {
	{ "timeoutMs", offsetof(struct exec_options, timeout) },
	{ "memoryBytes", offsetof(struct exec_options, memory) },
	{ "cpuMilli", offsetof(struct exec_options, cpus) },
	{ "pids", offsetof(struct exec_options, pids) },
	{ "workspaceBytes", offsetof(struct exec_options, workspace) },
	{ "outputBytes", offsetof(struct exec_options, output) },
};

static const struct {
	const char *key, *option;
	size_t offset;
} texts[] = {
	{ "command", "-c", offsetof(struct exec_options, command) },
	{ "cwd", "--cwd", offsetof(struct exec_options, cwd) },
	{ "image", "--image", offsetof(struct exec_options, image) },
	{ "commandId", "--command-id", offsetof(struct exec_options, command_id) },
};

static int not_utf8(const char *what, struct err *e)
{
	return err_set(e, EINVAL, "%s is not UTF-8", what);
}

static json_t *list_to_json(const struct option_list *l, const char *option, struct err *e)
{
	auto_json json_t *a = json_array();

	for (size_t i = 0; i < l->n; i++)
		if (json_array_append_new(a, json_string(l->at[i])) < 0) {
			not_utf8(option, e);
			return NULL;
		}
	return take_ptr(a);
}

static int add_argv(json_t *body, char **argv, int argc, struct err *e)
{
	json_t *a = json_array();

	if (json_object_set_new(body, "argv", a) < 0)
		return err_set(e, ENOMEM, "out of memory");
	for (int i = 0; i < argc; i++) {
		char what[32];
		snprintf(what, sizeof(what), "argument %d", i);
		if (json_array_append_new(a, json_string(argv[i])) < 0)
			return not_utf8(what, e);
	}
	return 0;
}

static int add_egress(json_t *body, const struct exec_options *o, struct err *e)
{
	if (!o->egress && !o->allow.n && !o->max_bytes.is_given)
		return 0;
	json_t *g = json_object();
	if (json_object_set_new(body, "egress", g) < 0)
		return err_set(e, ENOMEM, "out of memory");
	/* A host list without a tier asks for the tier that has one. */
	const char *tier = o->egress ? o->egress : o->allow.n ? "allowlist" : NULL;
	if (tier && json_add_text(g, "mode", tier) < 0)
		return not_utf8("--egress", e);
	if (o->allow.n) {
		json_t *a = list_to_json(&o->allow, "--allow", e);
		if (!a || json_object_set_new(g, "allow", a) < 0)
			return -EINVAL;
	}
	/* A fraction of a byte is one (E1): rounding it away would lift the ceiling. */
	uint64_t milli = o->max_bytes.value;
	if (o->max_bytes.is_given)
		json_add_u64(g, "maxBytes", milli && milli < 1000 ? 1 : milli / 1000);
	return 0;
}

static int add_environment(json_t *body, const char *file, struct err *e)
{
	autofree char *text = NULL;
	size_t len;

	if (!file)
		return 0;
	if (cli_read_input(file, ENVIRONMENT_MAX, &text, &len, e) < 0)
		return -e->code;
	json_t *v = json_parse_strict(text, len, 8, e);
	if (!v)
		return err_wrap(e, file);
	return json_object_set_new(body, "environment", v) < 0 ?
		       err_set(e, ENOMEM, "out of memory") :
		       0;
}

static int add_options(json_t *body, const struct exec_options *o, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *v = *(const char *const *)((const char *)o + texts[i].offset);
		if (v && json_add_text(body, texts[i].key, v) < 0)
			return not_utf8(texts[i].option, e);
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const struct option_number *v =
			(const void *)((const char *)o + numbers[i].offset);
		if (v->is_given)
			json_add_u64(body, numbers[i].key, v->value);
	}
	if (o->skill.n) {
		json_t *a = list_to_json(&o->skill, "--skill", e);
		if (!a || json_object_set_new(body, "skills", a) < 0)
			return -EINVAL;
	}
	if (add_egress(body, o, e) < 0)
		return -e->code;
	return add_environment(body, o->environment, e);
}

/* --- Standard input */

static int add_inline(json_t *body, int fd, struct err *e)
{
	autofree char *raw = NULL, *text = NULL;
	size_t len;

	if (fd_read_all(fd, STDIN_INLINE_MAX, &raw, &len, e) < 0)
		return err_wrap(e, "--stdin");
	text = malloc(BASE64_MAX(len));
	if (!text)
		return err_set(e, ENOMEM, "out of memory");
	base64_encode(raw, len, text);
	json_add_text(body, "stdinB64", text);
	return 0;
}

/* A small file goes along with the request, anything else is streamed. Gives the fd or -1. */
static int open_stdin(json_t *body, const char *file, int *ret_fd, struct err *e)
{
	struct stat st;

	*ret_fd = -1;
	if (!file)
		return 0;
	autoclose int fd = strcmp(file, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) :
						    open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "--stdin '%s': %s", file, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return err_set(e, EISDIR, "--stdin '%s' is a directory", file);
	if (S_ISREG(st.st_mode) && st.st_size <= STDIN_INLINE_MAX && strcmp(file, "-") != 0)
		return add_inline(body, fd, e);
	json_add_text(body, "stdin", "stream");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int check_command(const struct rest *r, const struct exec_options *o, struct err *e)
{
	if (o->command && (r->has_dashes || r->argc > 0))
		return err_set(e, EINVAL, "-c takes one COMMAND; '%.80s' is left over",
			       r->argc ? r->argv[0] : "--");
	if (r->operands > 0 || (!r->has_dashes && r->argc > 0))
		return err_set(e, EINVAL, "unknown argument '%.80s': a command goes behind --",
			       r->argv[0]);
	if (!o->command && !r->has_dashes)
		return err_set(e, EINVAL, "no command: -- ARGV... or -c COMMAND");
	return 0;
}

static int run(struct invocation *in, const char *path, json_t *body, const struct exec_options *o,
	       struct relay *r)
{
	struct err e;
	int status = cli_places(in, &r->places);

	if (status)
		return status;
	if (check_command(&in->rest, o, &e) < 0 || add_options(body, o, &e) < 0 ||
	    (!o->command && add_argv(body, in->rest.argv, in->rest.argc, &e) < 0) ||
	    open_stdin(body, o->stdin_file, &r->stdin_fd, &e) < 0)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	json_object_set_new(body, "stream", json_true());
	return relay_run(r, path, body);
}

int exec_run(struct invocation *in, const char *path, json_t *body, const struct exec_options *o)
{
	autofree struct relay *r = calloc(1, sizeof(*r));

	if (!r)
		return STATUS_FAILED;
	r->is_json = in->common.is_json;
	r->is_verbose = o->is_verbose;
	r->stdin_fd = r->cancel_fd = r->up.fd = r->down.fd = -1;
	skill_warn_attached(in, o->skill.at, o->skill.n);
	int status = run(in, path, body, o, r);
	relay_done(r);
	return status;
}
