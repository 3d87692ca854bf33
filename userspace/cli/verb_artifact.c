/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon artifact: files and trees into and out of the workspace of a run or a
 * job (W3), by the API's doors for them. What goes in must come back as the
 * digests made here; what comes out is judged here once more and is the
 * model's, whatever it says it is.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "artifact/tar.h"
#include "base/scope.h"
#include "cli/artifact.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
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

/* --- The API's door */

static int add_query(char path[HTTP_PATH_MAX], const char *key, const char *value, struct err *e)
{
	size_t at = strlen(path);

	if (!value)
		return 0;
	if (snprintf(path + at, HTTP_PATH_MAX - at, "%s%s=", strchr(path, '?') ? "&" : "?", key) >=
	    (int)(HTTP_PATH_MAX - at))
		return err_set(e, ENAMETOOLONG, "a name is too long");
	return http_add_part(path, value, e);
}

static int set_target(char path[HTTP_PATH_MAX], const char *door, const char *inside,
		      const struct artifact_options *o, struct err *e)
{
	char own[64], bytes[24];
	int rc;

	cli_own_name(own);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)most_bytes(o));
	snprintf(path, HTTP_PATH_MAX, "%s", door);
	if (o->job)
		rc = add_query(path, "job", o->job, e);
	else if ((rc = add_query(path, "orgId", o->org, e)) == 0 &&
		 (rc = add_query(path, "userId", o->user ? o->user : own, e)) == 0 &&
		 (rc = add_query(path, "surface", o->surface, e)) == 0)
		rc = add_query(path, "runId", o->run_id, e);
	if (rc == 0)
		rc = add_query(path, "bytes", bytes, e);
	return rc == 0 && strcmp(inside, ".") != 0 ? add_query(path, "path", inside, e) : rc;
}

static inline void connection_done(struct http *h)
{
	http_close(h);
}

/* The answer's body; a refusal is printed. An exit status. */
static int read_answer(const struct invocation *in, struct http *h, char **ret, size_t *ret_len)
{
	struct err e;

	if (http_read_head(h, &e) < 0 || http_read_body(h, ret, ret_len, &e) < 0)
		return cli_fail(STATUS_FAILED, &e);
	if (h->head.status / 100 == 2)
		return 0;
	auto_json json_t *v = json_parse_strict(*ret, *ret_len, 16, &e);
	return v ? cli_refused(in, h->head.status, v) :
		   (err_wrap(&e, "the broker's answer"), cli_fail(STATUS_FAILED, &e));
}

static int unreachable(const struct places *p, const struct err *why_not)
{
	struct err why;

	return cli_refuse(cli_unreachable(p, why_not, &why), &why);
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

/* A refusal may come before all is sent: it says more than a broken pipe. */
static int send_stream(struct http *h, int fd, struct err *e)
{
	char buf[64 * 1024];
	ssize_t n;
	int rc = 0;

	signal(SIGPIPE, SIG_IGN);
	while (rc == 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		rc = http_upload(h, buf, (size_t)n, e);
	if (rc == 0)
		rc = http_upload(h, "", 0, e);
	return rc == -EPIPE || rc == -ECONNRESET ? 0 : rc;
}

/* What the broker saw is what was read here. */
static bool is_as_sent(const json_t *answer, const struct artifact_pack *p)
{
	return json_is_true(json_object_get(answer, "verified")) &&
	       json_equal(json_object_get(answer, "artifacts"), p->files);
}

static int put_pack(struct invocation *in, const struct artifact_options *o,
		    const struct artifact_pack *p, const char *to)
{
	__attribute__((cleanup(connection_done))) struct http h = { .fd = -1 };
	autofree char *text = NULL;
	char path[HTTP_PATH_MAX];
	struct places places;
	struct err e;
	size_t len;
	int status = cli_places(in, &places);

	if (status)
		return status;
	if (set_target(path, "/v1/artifacts", to, o, &e) < 0)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	if (http_open_upload(places.socket, path, &h, &e) < 0)
		return unreachable(&places, &e);
	if (send_stream(&h, p->fd, &e) < 0)
		return cli_fail(STATUS_FAILED, &e);
	status = read_answer(in, &h, &text, &len);
	if (status)
		return status;
	auto_json json_t *v = json_parse_strict(text, len, 16, &e);
	if (!v || !is_as_sent(v, p)) {
		err_set(&e, EIO, "what arrived is not what was sent");
		return cli_refuse(REASON_STAGING_FAILED, &e);
	}
	return in->common.is_json ? cli_print_json(v) : 0;
}

static int put(struct invocation *in)
{
	struct artifact_options o;
	struct artifact_pack p = { .fd = -1 };
	struct err e;
	int status;

	if (read_options(in, &o, 1, 2, "PATH [DIR]", &status))
		return status;
	const char *to = in->rest.argc > 1 ? in->rest.argv[1] : ".";
	if (check_inside(&to, &e) < 0)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	if (artifact_pack(in->rest.argv[0], most_bytes(&o), &p, &e) < 0)
		return cli_refuse(REASON_STAGING_FAILED, &e);
	status = put_pack(in, &o, &p, to);
	artifact_pack_done(&p);
	return status;
}

/* --- get */

/* The receipt says what the broker kept; what came here must be that. */
static bool is_as_kept(const json_t *receipt, const char *buf, size_t len)
{
	const char *said = cli_text(receipt, "outputHash");
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];

	digest_sha256(buf, len, digest);
	digest_hex(digest, sizeof(digest), hex);
	return said && strcmp(said, hex) == 0;
}

static int show(const struct invocation *in, const json_t *receipt, json_t *files)
{
	const json_t *f;
	size_t i;

	if (in->common.is_json) {
		auto_json json_t *v = json_pack("{s:O, s:O?, s:b, s:s}", "artifacts", files, "receipt",
						receipt, "untrusted", 1, "origin", "model");
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

static int get(struct invocation *in)
{
	__attribute__((cleanup(connection_done))) struct http h = { .fd = -1 };
	struct artifact_options o;
	struct places places;
	char url[HTTP_PATH_MAX];
	autofree char *text = NULL;
	auto_json json_t *files = NULL;
	size_t len;
	struct err e;
	int status;

	if (read_options(in, &o, 2, 2, "PATH DESTINATION", &status) ||
	    (status = cli_places(in, &places)))
		return status;
	const char *path = in->rest.argv[0];
	if (check_inside(&path, &e) < 0 ||
	    set_target(url, "/v1/artifacts/content", path, &o, &e) < 0)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	if (http_connect(places.socket, &h, &e) < 0)
		return unreachable(&places, &e);
	if (http_request(&h, "GET", url, NULL, NULL, 0, &e) < 0)
		return cli_fail(STATUS_FAILED, &e);
	status = read_answer(in, &h, &text, &len);
	if (status)
		return status;
	auto_json json_t *receipt =
		json_parse_strict(h.head.receipt, strlen(h.head.receipt), 4, &e);
	if (!is_as_kept(receipt, text, len)) {
		err_set(&e, EIO, "what arrived is not what the receipt says");
		return cli_refuse(REASON_STAGING_FAILED, &e);
	}
	const char *slash = strrchr(path, '/');
	const char *top = strcmp(path, ".") == 0 ? "" : slash ? slash + 1 : path;
	if (artifact_unpack(text, len, top, in->rest.argv[1], o.keeps_exec, &files, &e) < 0)
		return cli_refuse(REASON_STAGING_FAILED, &e);
	return show(in, receipt, files);
}

/* --- list */

static int list(struct invocation *in)
{
	struct artifact_options o;
	auto_json json_t *answer = NULL;
	char url[HTTP_PATH_MAX];
	struct err e;
	int status;

	if (read_options(in, &o, 0, 1, "at most one DIR", &status))
		return status;
	const char *path = in->rest.argc ? in->rest.argv[0] : ".";
	if (check_inside(&path, &e) < 0 || set_target(url, "/v1/artifacts", path, &o, &e) < 0)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	status = cli_call(in, "GET", url, NULL, &answer);
	return status ? status :
			show(in, json_object_get(answer, "receipt"),
			     json_object_get(answer, "artifacts"));
}

const struct verb artifact_verbs[] = {
	{ "put", "(--run-id R | --job JOB) PATH [DIR]", "copy a file or tree into a workspace", put,
	  NULL, NULL },
	{ "get", "(--run-id R | --job JOB) PATH DESTINATION", "copy one out", get, NULL, NULL },
	{ "list", "(--run-id R | --job JOB) [DIR]", "list files and their digests", list, NULL,
	  NULL },
	{ 0 },
};
