/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts every verb uses. Prints, but decides no exit status beyond what
 * the table of reasons says.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/http.h"
#include "json/json.h"

int cli_fail(int status, const struct err *e)
{
	fprintf(stderr, "cordon: %s\n", e->msg);
	return status;
}

int cli_refuse(enum reason r, const struct err *e)
{
	const struct reason_row *row = reason_row(r);

	fprintf(stderr, "cordon: %s: %s\n", row->code, e && e->msg[0] ? e->msg : row->meaning);
	return row->exit_status;
}

int cli_refuse_options(const struct err *e)
{
	return cli_refuse(e->code == ENOSYS ? REASON_NOT_AVAILABLE : REASON_INVALID_REQUEST, e);
}

int cli_exec(char *const *argv)
{
	char path[4096];
	struct err e;

	if (places_program(argv[0], path, sizeof(path), &e) < 0)
		return cli_fail(STATUS_FAILED, &e);
	execv(path, argv);
	err_set(&e, errno, "exec '%s': %s", path, strerror(errno));
	return cli_fail(STATUS_FAILED, &e);
}

int cli_options(struct invocation *in, const struct option *rows, size_t n, void *ret,
		int *ret_status)
{
	struct err e;

	if (options_parse(rows, n, OPTIONS_MIXED, &in->rest, ret, &in->common, &e) < 0) {
		*ret_status = cli_refuse_options(&e);
		return 1;
	}
	if (!in->common.wants_help)
		return 0;
	printf("cordon %s\n", in->path);
	options_print(rows, n);
	*ret_status = 0;
	return 1;
}

int cli_places(const struct invocation *in, struct places *ret)
{
	struct err e;

	return places_init(in->common.root, ret, &e) < 0 ? cli_fail(STATUS_FAILED, &e) : 0;
}

bool cli_rollout_is_on(const struct places *p)
{
	struct config c;
	struct err ignored;

	return places_rollout_is_on(
		places_read_config(p, &c, NULL, NULL, &ignored) < 0 ? NULL : &c);
}

enum reason cli_unreachable(const struct places *p, const struct err *connect_failed,
			    struct err *e)
{
	if (connect_failed->code != ENOENT && connect_failed->code != ECONNREFUSED) {
		*e = *connect_failed;
		return REASON_CAPABILITY_UNAVAILABLE;
	}
	if (!cli_rollout_is_on(p)) {
		err_set(e, EPERM, "the rollout is off; set 'rollout = on' in %s", p->conf);
		return REASON_PLANE_DISABLED;
	}
	err_set(e, connect_failed->code, "the plane is not up (cordon up); nobody listens on %s",
		p->socket);
	return REASON_CAPABILITY_UNAVAILABLE;
}

const char *cli_text(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

bool cli_is(const json_t *o, const char *key, const char *word)
{
	const char *text = cli_text(o, key);

	return text && strcmp(text, word) == 0;
}

int cli_print_json(const json_t *v)
{
	struct err e;
	size_t len;
	autofree char *text = json_dump_compact(v, &len);

	if (!text || fd_write_all(STDOUT_FILENO, text, len, &e) < 0 ||
	    fd_write_all(STDOUT_FILENO, "\n", 1, &e) < 0)
		return STATUS_FAILED;
	return 0;
}

/* An answer without a known reason is the plane's fault. */
int cli_refused(const struct invocation *in, int http_status, const json_t *answer)
{
	const char *code = cli_text(answer, "reason"), *text = cli_text(answer, "text");
	enum reason r = code ? reason_from_code(code) : REASON_NONE;
	struct err e = { 0 };

	if (in->common.is_json && answer)
		cli_print_json(answer);
	if (r == REASON_NONE) {
		err_set(&e, EPROTO, "the broker answers %d%s%s", http_status, text ? ": " : "",
			text ? text : "");
		return cli_fail(STATUS_FAILED, &e);
	}
	err_set(&e, EPERM, "%s", text ? text : reason_row(r)->meaning);
	return cli_refuse(r, &e);
}

int cli_call(const struct invocation *in, const char *method, const char *path,
	     const json_t *body, json_t **ret)
{
	struct places p;
	struct err e, why;
	autofree char *text = NULL, *answer = NULL;
	size_t len = 0, answer_len = 0;
	int status = cli_places(in, &p);

	if (status)
		return status;
	if (body) {
		text = json_dump_compact(body, &len);
		if (!text) {
			err_set(&e, EINVAL, "an argument is not UTF-8");
			return cli_refuse(REASON_INVALID_REQUEST, &e);
		}
	}
	status = http_call(p.socket, method, path, text, len, &answer, &answer_len, &e);
	if (status < 0)
		return cli_refuse(cli_unreachable(&p, &e, &why), &why);
	auto_json json_t *v = json_parse_strict(answer, answer_len, 16, &e);
	if (!v)
		return err_wrap(&e, "the broker's answer"), cli_fail(STATUS_FAILED, &e);
	if (status / 100 != 2)
		return cli_refused(in, status, v);
	if (ret)
		*ret = take_ptr(v);
	return 0;
}

int cli_read_input(const char *file, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	if (strcmp(file, "-") == 0)
		return fd_read_all(STDIN_FILENO, max, ret, ret_len, e);
	return fd_read_file(AT_FDCWD, file, max, ret, ret_len, e);
}

/* /etc/passwd alone: a static program that starts in no time has no name service. */
void cli_own_name(char ret[64])
{
	autofclose FILE *f = fopen("/etc/passwd", "re");
	struct passwd *pw;
	uid_t uid = getuid();

	while (f && (pw = fgetpwent(f)))
		if (pw->pw_uid == uid) {
			snprintf(ret, 64, "%s", pw->pw_name);
			return;
		}
	snprintf(ret, 64, "%u", uid);
}
