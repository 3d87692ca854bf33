/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Artifacts over the API (W3): a tar stream into the workspace of a run or a
 * job, one out of it, and what lies there. Going in, the stream is judged
 * before the sandbox sees a byte of it and held there against the digests made
 * here; coming out, all of it is judged before the client sees any, and it is
 * the model's, whatever it says it is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "broker/api.h"
#include "broker/command.h"
#include "broker/reply.h"
#include "broker/transfer.h"

enum { BYTES_DEFAULT = 32 << 20 };

/*
 * Scripts of the sandbox's own shell; $1 and $2 are data. The image's tools and
 * no others: the workspace's own directories stand first on the usual path.
 */
#define IMAGE_PATH "PATH=/usr/bin:/bin; "
static const char put_script[] = IMAGE_PATH "mkdir -p -- \"./$1\" && exec tar -xf - -C \"./$1\"";
static const char check_script[] = IMAGE_PATH "cd \"./$1\" && exec sha256sum -c - >/dev/null";
static const char get_script[] = IMAGE_PATH "cd \"./$1\" && exec tar -cf - \"./$2\"";
static const char list_script[] =
	IMAGE_PATH "cd \"./$1\" && exec find . -type f -exec sha256sum '{}' +";

/* --- Which workspace, which path */

static enum reason find_job(struct broker *b, struct exchange *x, struct job **ret,
			    const char **text)
{
	const char *job = exchange_query(x, "job");
	struct exec_request r = {
		.org_id = exchange_query(x, "orgId"),
		.user_id = exchange_query(x, "userId"),
		.surface = exchange_query(x, "surface"),
		.run_id = exchange_query(x, "runId"),
	};

	if (!job && r.run_id)
		return api_open_session(b, x, &r, ret, text);
	if (!job || r.run_id || r.org_id || r.user_id || r.surface) {
		*text = "the query takes either job, or orgId, userId, surface and runId";
		return REASON_INVALID_REQUEST;
	}
	*ret = jobs_find(&b->jobs, job, x->peer->uid);
	return *ret ? REASON_NONE : REASON_UNKNOWN_JOB;
}

static enum reason read_path(struct exchange *x, const char **ret, struct err *e)
{
	*ret = exchange_query(x, "path");
	if (!*ret || strcmp(*ret, ".") == 0) {
		*ret = ".";
		return REASON_NONE;
	}
	return tar_check_path(*ret, e) < 0 ? REASON_INVALID_REQUEST : REASON_NONE;
}

/* NULL: answered. */
static struct transfer *begin(struct broker *b, struct exchange *x, void (*then)(struct transfer *))
{
	static const char *const known[] = { "job",   "orgId", "userId", "surface",
					     "runId", "path",  "bytes",	 NULL };
	struct err e = { 0 };
	const char *text = NULL, *path;
	uint64_t bytes = BYTES_DEFAULT;
	struct job *j = NULL;
	enum reason why = read_path(x, &path, &e);

	if (why != REASON_NONE)
		text = e.msg;
	if (!exchange_query_is(x, known) || !reply_query_number(x, "bytes", &bytes) || bytes == 0 ||
	    bytes > TRANSFER_BYTES_MAX) {
		why = REASON_INVALID_REQUEST;
		text = "the query takes job, or orgId, userId, surface and runId; path; bytes to 1 GiB";
	}
	if (why == REASON_NONE)
		why = find_job(b, x, &j, &text);
	struct transfer *t = why == REASON_NONE ? transfer_new(b, x, j) : NULL;
	if (!t) {
		if (j && j->is_oneshot)
			job_free(&b->jobs, j);
		reply_reason(x, why == REASON_NONE ? REASON_WORKER_ERROR : why, text);
		return NULL;
	}
	snprintf(t->path, sizeof(t->path), "%s", path);
	t->max_bytes = bytes;
	t->then = then;
	return t;
}

/* True: it was, and @t is gone. */
static bool answer_refused(struct transfer *t)
{
	if (t->refused == REASON_NONE && t->exchange)
		return false;
	if (t->exchange)
		reply_reason(t->exchange, t->refused, t->text);
	transfer_free(t);
	return true;
}

/* @v is taken. */
static void answer(struct transfer *t, unsigned status, json_t *v)
{
	json_t *from = json_pack("{s:s, s:s, s:O?}", "jobId", t->job_id, "commandId", t->command_id,
				 "receipt", t->receipt);

	if (v && json_object_update_new(v, from) == 0)
		reply_json(t->exchange, status, v);
	else
		reply_reason(t->exchange, REASON_WORKER_ERROR, "out of memory");
	transfer_free(t);
}

/* --- In */

static void on_checked(struct transfer *t)
{
	if (answer_refused(t))
		return;
	answer(t, 201,
	       json_pack("{s:O, s:s, s:b}", "artifacts", artifact_scan_files(t->scan), "directory",
			 t->path, "verified", 1));
}

static void on_put(struct transfer *t)
{
	size_t len = 0;

	if (answer_refused(t))
		return;
	t->then = on_checked;
	char *sums = artifact_scan_sums(t->scan, &len);
	if (!sums)
		transfer_refuse(t, REASON_WORKER_ERROR, "out of memory");
	else if (len)
		transfer_run(t, check_script, t->path, "", false, sums, len);
	else { /* directories alone */
		free(sums);
		on_checked(t);
	}
}

static void on_room(struct feed *f)
{
	const struct command *c = CONTAINER_OF(f, struct command, feed);
	struct transfer *t = c->on_end_ctx;

	if (t->exchange)
		exchange_go_on(t->exchange);
}

void api_artifact_begin(struct broker *b, struct exchange *x)
{
	struct transfer *t = begin(b, x, on_put);

	if (!t)
		return;
	t->scan = artifact_scan_new(t->max_bytes);
	if (!t->scan) {
		transfer_refuse(t, REASON_WORKER_ERROR, "out of memory");
		return;
	}
	transfer_run(t, put_script, t->path, "", true, NULL, 0);
	if (t->command)
		t->command->feed.on_room = on_room;
}

/* What was judged and no more goes on; what the feed has no room for is offered again. */
size_t api_artifact_chunk(struct exchange *x, const void *buf, size_t len)
{
	struct transfer *t = x->owner;
	struct err e = { 0 };
	size_t n = 0, put = 1;

	if (!t)
		return len;
	if (t->refused != REASON_NONE) { /* dropped, as far as it might have been taken */
		x->received += len;
		if (x->received > t->max_bytes)
			transfer_is_whole(t);
		return len;
	}
	if (len > t->judged &&
	    artifact_scan_add(t->scan, (const char *)buf + t->judged, len - t->judged, &e) < 0) {
		transfer_refuse(t, REASON_STAGING_FAILED, e.msg);
		return len;
	}
	t->judged = len > t->judged ? len : t->judged;
	struct command *c = t->command;
	if (!c || c->feed.is_closed)
		n = len; /* its unpacker has seen the end */
	while (n < len && put > 0) {
		put = feed_put(&c->feed, (const char *)buf + n, len - n);
		if (!c->feed.is_closed)
			digest_add(c->input, (const char *)buf + n, put);
		n += put;
	}
	t->judged -= n;
	return n;
}

void api_artifact_end(struct broker *b, struct exchange *x)
{
	struct transfer *t = x->owner;
	struct err e = { 0 };

	(void)b;
	t->is_whole = true;
	if (t->refused == REASON_NONE && artifact_scan_end(t->scan, &e) < 0) {
		transfer_refuse(t, REASON_STAGING_FAILED, e.msg);
		return;
	}
	if (t->command) {
		t->command->feed.on_room = NULL;
		feed_end(&t->command->feed);
	}
	transfer_is_whole(t);
}

/* --- Out */

/* "a/b" into "a" and "b"; "b" into "." and "b"; "." into "." and "". */
static void split(const char *path, char dir[TAR_PATH_MAX], const char **base)
{
	const char *slash = strrchr(path, '/');

	snprintf(dir, TAR_PATH_MAX, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	*base = strcmp(path, ".") == 0 ? "" : slash ? slash + 1 : path;
}

/* Whether @path is @top or lies below it. */
static bool is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return n == 0 || (strncmp(path, top, n) == 0 && (!path[n] || path[n] == '/'));
}

/* Every entry is one a receiver may write, and was asked for. */
static int judge(const struct transfer *t, size_t *ret_hooks, struct err *e)
{
	struct tar_reader r = { .buf = t->out, .len = t->out_len };
	const char *slash = strrchr(t->path, '/');
	const char *top = strcmp(t->path, ".") == 0 ? "" : slash ? slash + 1 : t->path;
	struct tar_entry entry;
	size_t n = 0;
	int rc;

	while ((rc = tar_read(&r, &entry, e)) > 0) {
		if (!is_below(entry.path, top))
			return err_set(e, EINVAL, "'%.150s' was not asked for", entry.path);
		if (++n > ARTIFACT_ENTRIES_MAX)
			return err_set(e, E2BIG, "more than %d files and directories",
				       ARTIFACT_ENTRIES_MAX);
		*ret_hooks += !entry.is_directory && tar_is_hook(entry.path);
	}
	return rc < 0 ? rc : n ? 0 : err_set(e, EINVAL, "nothing came out");
}

static void on_got(struct transfer *t)
{
	struct err e = { 0 };
	char count[24];
	size_t hooks = 0, len;

	if (answer_refused(t))
		return;
	if (judge(t, &hooks, &e) < 0) {
		reply_reason(t->exchange, REASON_STAGING_FAILED, e.msg);
		transfer_free(t);
		return;
	}
	struct exchange *x = t->exchange;
	autofree char *receipt = t->receipt ? json_dump_compact(t->receipt, &len) : NULL;
	snprintf(count, sizeof(count), "%zu", hooks);
	exchange_answer(x, 200, "application/x-tar", (char *)take_ptr(t->out), t->out_len);
	exchange_add_field(x, "Cordon-Untrusted", "true");
	exchange_add_field(x, "Cordon-Origin", "model");
	exchange_add_field(x, "Cordon-Hooks", count);
	exchange_add_field(x, "Cordon-Job", t->job_id);
	exchange_add_field(x, "Cordon-Command", t->command_id);
	if (receipt)
		exchange_add_field(x, "Cordon-Receipt", receipt);
	transfer_free(t);
}

void api_artifact_get(struct broker *b, struct exchange *x)
{
	struct transfer *t = begin(b, x, on_got);
	char dir[TAR_PATH_MAX];
	const char *base;

	if (!t)
		return;
	t->is_whole = true;
	split(t->path, dir, &base);
	transfer_run(t, get_script, dir, base, false, NULL, 0);
}

/* --- What lies there */

/* "HEX  ./path" lines; a name that would break its line is told by the tool with a backslash. */
static void add_line(json_t *files, const char *line, size_t len)
{
	char path[TAR_PATH_MAX];
	struct err e;

	if (len < 69 || len - 68 >= sizeof(path) || memcmp(line + 64, "  ./", 4) != 0)
		return;
	memcpy(path, line + 68, len - 68);
	path[len - 68] = '\0';
	if (strspn(line, "0123456789abcdef") == 64 && strlen(path) == len - 68 &&
	    tar_check_path(path, &e) == 0)
		json_array_append_new(files, json_pack("{s:s, s:s#, s:b}", "path", path, "sha256",
						       line, 64, "hook", tar_is_hook(path)));
}

static void on_listed(struct transfer *t)
{
	json_t *files;

	if (answer_refused(t))
		return;
	files = json_array();
	for (size_t at = 0; files && at < t->out_len;) {
		const char *line = (const char *)t->out + at;
		const char *end = memchr(line, '\n', t->out_len - at);
		size_t len = end ? (size_t)(end - line) : t->out_len - at;
		add_line(files, line, len);
		at += len + 1;
	}
	answer(t, 200,
	       json_pack("{s:o, s:b, s:s}", "artifacts", files, "untrusted", 1, "origin", "model"));
}

void api_artifact_list(struct broker *b, struct exchange *x)
{
	struct transfer *t = begin(b, x, on_listed);

	if (!t)
		return;
	t->is_whole = true;
	transfer_run(t, list_script, t->path, "", false, NULL, 0);
}
