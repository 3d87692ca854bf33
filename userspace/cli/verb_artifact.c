/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon artifact: files and trees into and out of the workspace of a run or a
 * job (W3). They go as a tar stream through a command in the sandbox, never by
 * mount: what goes in is checked there against the digests made here, what
 * comes out is checked here and is the model's, whatever it says it is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/artifact.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/relay.h"
#include "cli/tar.h"
#include "digest/digest.h"
#include "json/json.h"

enum { BYTES_DEFAULT = 32 << 20, BYTES_MAX = 1 << 30 };

struct artifact_options {
	const char *org, *user, *surface, *run_id, *job;
	struct option_number max_bytes;
	bool keeps_exec;
};

#define A(member, name, kind, arg, help) \
	OPTION(struct artifact_options, member, name, 0, kind, arg, help)

static const struct option rows[] = {
	A(run_id, "run-id", OPTION_TEXT, "R", "the run whose workspace it is"),
	A(job, "job", OPTION_TEXT, "JOB", "or the job"),
	A(org, "org", OPTION_TEXT, "O", "organisation (local)"),
	A(user, "user", OPTION_TEXT, "U", "user (the caller's name)"),
	A(surface, "surface", OPTION_TEXT, "S", "surface (chat)"),
	A(max_bytes, "max-bytes", OPTION_SIZE, "SIZE", "most bytes of the stream (32M)"),
	A(keeps_exec, "keep-exec", OPTION_FLAG, NULL, "keep executable bits of what comes out"),
};

/*
 * Scripts of the sandbox's own shell; $1 and $2 are data. The image's tools and
 * no others: the workspace's own directories stand first on the usual path.
 */
#define IMAGE_PATH "PATH=/usr/bin:/bin; "
static const char put_script[] =
	IMAGE_PATH "mkdir -p -- \"./$1\" && exec tar -xf - -C \"./$1\"";
static const char check_script[] = IMAGE_PATH "cd \"./$1\" && exec sha256sum -c - >/dev/null";
static const char get_script[] = IMAGE_PATH "cd \"./$1\" && exec tar -cf - \"./$2\"";
static const char list_script[] =
	IMAGE_PATH "cd \"./$1\" && exec find . -type f -exec sha256sum '{}' +";

static int read_options(struct invocation *in, struct artifact_options *o, int least, int most,
			const char *words, int *ret_status)
{
	struct err e;

	*o = (struct artifact_options){ .org = "local", .surface = "chat" };
	if (cli_options(in, rows, ARRAY_SIZE(rows), o, ret_status))
		return 1;
	if (in->rest.argc < least || in->rest.argc > most)
		err_set(&e, EINVAL, "%s wants %s", in->path, words);
	else if (!o->run_id == !o->job)
		err_set(&e, EINVAL, "%s wants one of --run-id and --job", in->path);
	else if (o->max_bytes.is_given && (o->max_bytes.value < 1 || o->max_bytes.value > BYTES_MAX))
		err_set(&e, EINVAL, "--max-bytes: from 1 to 1G");
	else
		return 0;
	*ret_status = cli_refuse_options(&e);
	return 1;
}

static uint64_t most_bytes(const struct artifact_options *o)
{
	return o->max_bytes.is_given ? o->max_bytes.value : BYTES_DEFAULT;
}

/* --- One command of ours in the sandbox */

static int add_session(json_t *body, const struct artifact_options *o, struct err *e)
{
	char own[64];
	json_t *s = json_object();

	cli_own_name(own);
	if (json_add_text(s, "orgId", o->org) < 0 ||
	    json_add_text(s, "userId", o->user ? o->user : own) < 0 ||
	    json_add_text(s, "surface", o->surface) < 0 ||
	    json_add_text(s, "runId", o->run_id) < 0 ||
	    json_object_set_new(body, "session", s) < 0)
		return err_set(e, EINVAL, "the session is not UTF-8");
	return 0;
}

static int set_path(char path[HTTP_PATH_MAX], const struct artifact_options *o, struct err *e)
{
	strcpy(path, o->job ? "/v1/jobs/" : "/v1/run");
	if (!o->job)
		return 0;
	if (http_add_part(path, o->job, e) < 0 || strlen(path) + 10 >= HTTP_PATH_MAX)
		return err_set(e, EINVAL, "the job's name is too long");
	strcat(path, "/commands"); /* length checked above */
	return 0;
}

/* Runs @script with its two arguments; its output is kept in @r. An exit status. */
static int sandbox(struct invocation *in, const struct artifact_options *o, struct relay *r,
		   const char *script, const char *first, const char *second, int stdin_fd)
{
	char path[HTTP_PATH_MAX];
	struct err e = { 0 };
	auto_json json_t *body =
		json_pack("{s:[s, s, s, s, s, s], s:{s:s}, s:b, s:I}", "argv", "/bin/sh", "-c", script,
			  "artifact", first, second, "egress", "mode", "none", "stream", 1,
			  "outputBytes", (json_int_t)most_bytes(o));
	int status = cli_places(in, &r->places);

	r->stdin_fd = stdin_fd;
	if (status)
		return status;
	if (!body)
		err_set(&e, EINVAL, "a name is not UTF-8");
	if (!body || set_path(path, o, &e) < 0 || (!o->job && add_session(body, o, &e) < 0))
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	if (stdin_fd >= 0)
		json_add_text(body, "stdin", "stream");
	return relay_run(r, path, body);
}

static struct relay *relay_new(void)
{
	struct relay *r = calloc(1, sizeof(*r));

	if (r) {
		r->keeps = true;
		r->stdin_fd = r->up.fd = r->down.fd = -1;
	}
	return r;
}

static void relay_free(struct relay *r)
{
	if (r)
		relay_done(r);
	free(r);
}
DEFINE_CLEANUP(relay)

/* The sandbox's word for what went wrong: one line, nothing that drives a terminal. */
static int failed_inside(const struct relay *r, const char *what, int status)
{
	char text[200];
	size_t n = 0;

	for (size_t i = 0; i < r->kept[1].len && n + 1 < sizeof(text); i++) {
		unsigned char c = (unsigned char)r->kept[1].at[i];
		if (c == '\n')
			break;
		text[n++] = c < 0x20 || c > 0x7e ? '?' : (char)c;
	}
	text[n] = '\0';
	if (status != 125 && status != STATUS_CANCELLED)
		fprintf(stderr, "cordon: %s: %s\n", what, n ? text : "it failed in the sandbox");
	return status ? status : STATUS_FAILED;
}

/* A path below /workspace as given by a person: "", "." or a relative one. */
static int check_inside(const char **path, struct err *e)
{
	if (strncmp(*path, "/workspace", 10) == 0 && ((*path)[10] == '/' || !(*path)[10]))
		*path += 10 + strspn(*path + 10, "/");
	if (!**path || strcmp(*path, ".") == 0) {
		*path = ".";
		return 0;
	}
	return tar_check_path(*path, e);
}

/* --- put */

static int verify_put(struct invocation *in, const struct artifact_options *o,
		      const struct artifact_pack *p, const char *to)
{
	auto_(relay) r = relay_new();
	struct err e;

	if (p->sums_len == 0)
		return 0;
	int fd = fd_sealed("sums", p->sums, p->sums_len, &e);
	if (!r || fd < 0)
		return STATUS_FAILED;
	int status = sandbox(in, o, r, check_script, to, "", fd);
	return status ? failed_inside(r, "what arrived is not what was sent", status) : 0;
}

static int put(struct invocation *in)
{
	struct artifact_options o;
	struct artifact_pack p = { .fd = -1 };
	auto_(relay) r = relay_new();
	struct err e;
	int status;

	if (!r || read_options(in, &o, 1, 2, "PATH [DIR]", &status))
		return r ? status : STATUS_FAILED;
	const char *to = in->rest.argc > 1 ? in->rest.argv[1] : ".";
	if (check_inside(&to, &e) < 0)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	if (artifact_pack(in->rest.argv[0], most_bytes(&o), &p, &e) < 0)
		return cli_refuse(REASON_STAGING_FAILED, &e);
	status = sandbox(in, &o, r, put_script, to, "", take_fd(&p.fd));
	if (status)
		failed_inside(r, "put", status);
	else
		status = verify_put(in, &o, &p, to);
	if (!status && in->common.is_json) {
		auto_json json_t *v = json_pack("{s:O, s:s, s:b}", "artifacts", p.files, "directory",
						to, "verified", 1);
		status = cli_print_json(v);
	}
	artifact_pack_done(&p);
	return status;
}

/* --- get */

/* The receipt says what the broker kept; what came here must be that. */
static bool is_as_kept(const struct relay *r)
{
	const char *said = cli_text(json_object_get(r->result, "receipt"), "outputHash");
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];

	digest_sha256(r->kept[0].at, r->kept[0].len, digest);
	digest_hex(digest, sizeof(digest), hex);
	return said && strcmp(said, hex) == 0;
}

static int show(const struct invocation *in, const struct relay *r, json_t *files)
{
	const json_t *f;
	size_t i;

	if (in->common.is_json) {
		auto_json json_t *v = json_pack("{s:O, s:O?, s:b, s:s}", "artifacts", files, "receipt",
						json_object_get(r->result, "receipt"), "untrusted", 1,
						"origin", "model");
		return cli_print_json(v);
	}
	json_array_foreach(files, i, f) {
		const char *path = cli_text(f, "path");
		printf("%s  %s\n", cli_text(f, "sha256"), path);
		if (json_is_true(json_object_get(f, "hook")))
			fprintf(stderr, "cordon: untrusted, and tools obey it: %s\n", path);
	}
	return 0;
}

/* "a/b" into "a" and "b"; "b" into "." and "b"; "." into "." and "". */
static void split(const char *path, char dir[TAR_PATH_MAX], const char **base)
{
	const char *slash = strrchr(path, '/');

	if (strcmp(path, ".") == 0) {
		strcpy(dir, ".");
		*base = "";
		return;
	}
	snprintf(dir, TAR_PATH_MAX, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	*base = slash ? slash + 1 : path;
}

static int get(struct invocation *in)
{
	struct artifact_options o;
	char dir[TAR_PATH_MAX];
	const char *base, *path;
	auto_json json_t *files = NULL;
	auto_(relay) r = relay_new();
	struct err e;
	int status;

	if (!r || read_options(in, &o, 2, 2, "PATH DESTINATION", &status))
		return r ? status : STATUS_FAILED;
	path = in->rest.argv[0];
	if (check_inside(&path, &e) < 0)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	split(path, dir, &base);
	status = sandbox(in, &o, r, get_script, dir, base, -1);
	if (status)
		return failed_inside(r, path, status);
	if (!is_as_kept(r)) {
		err_set(&e, EIO, "what arrived is not what the receipt says");
		return cli_refuse(REASON_STAGING_FAILED, &e);
	}
	if (artifact_unpack(r->kept[0].at, r->kept[0].len, base, in->rest.argv[1], o.keeps_exec,
			    &files, &e) < 0)
		return cli_refuse(REASON_STAGING_FAILED, &e);
	return show(in, r, files);
}

/* --- list */

/* "HEX  ./path" lines; a name that would break its line is told by the tool with a backslash. */
static void add_line(json_t *files, const char *line, size_t len)
{
	char path[TAR_PATH_MAX];
	struct err e;

	if (len < 69 || len - 68 >= sizeof(path) || memcmp(line + 64, "  ./", 4) != 0)
		return;
	memcpy(path, line + 68, len - 68);
	path[len - 68] = '\0';
	if (strspn(line, "0123456789abcdef") == 64 && tar_check_path(path, &e) == 0)
		json_array_append_new(files, json_pack("{s:s, s:s#, s:b}", "path", path, "sha256",
						       line, 64, "hook", tar_is_hook(path)));
}

static int list(struct invocation *in)
{
	struct artifact_options o;
	auto_json json_t *files = json_array();
	auto_(relay) r = relay_new();
	struct err e;
	int status;

	if (!r || read_options(in, &o, 0, 1, "at most one DIR", &status))
		return r ? status : STATUS_FAILED;
	const char *path = in->rest.argc ? in->rest.argv[0] : ".";
	if (check_inside(&path, &e) < 0)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	status = sandbox(in, &o, r, list_script, path, "", -1);
	if (status)
		return failed_inside(r, path, status);
	for (size_t at = 0; at < r->kept[0].len;) {
		const char *line = r->kept[0].at + at;
		const char *end = memchr(line, '\n', r->kept[0].len - at);
		size_t len = end ? (size_t)(end - line) : r->kept[0].len - at;
		add_line(files, line, len);
		at += len + 1;
	}
	return show(in, r, files);
}

const struct verb artifact_verbs[] = {
	{ "put", "(--run-id R | --job JOB) PATH [DIR]", "copy a file or tree into a workspace", put,
	  NULL, NULL },
	{ "get", "(--run-id R | --job JOB) PATH DESTINATION", "copy one out", get, NULL, NULL },
	{ "list", "(--run-id R | --job JOB) [DIR]", "list files and their digests", list, NULL,
	  NULL },
	{ 0 },
};
