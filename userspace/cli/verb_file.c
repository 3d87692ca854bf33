/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon file: a model's own file access on the host, inside the roots the
 * operator allows and with the caller's own rights (K6). It can never reach a
 * skill or the plane. What is read is somebody's content: never trusted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/file_sets.h"
#include "cli/input.h"
#include "cli/table.h"
#include "digest/base64.h"
#include "digest/digest.h"
#include "json/json.h"

enum {
	FILE_MAX = 64 << 20,
	LIST_MAX = 100000,
	SEARCH_FILE_MAX = 16 << 20,
	SEARCH_LINE_MAX = 1000,
	SEARCH_HITS_MAX = 10000,
};

struct desk {
	struct files_set set;
	char path[FILES_PATH_MAX]; /* of the operand, absolute as it was written */
};

static void desk_close(struct desk *d)
{
	files_set_done(&d->set);
}
#define autodesk __attribute__((cleanup(desk_close))) struct desk

/* Outside is a refusal with a reason of its own; missing is a plain failure. */
static int failed(const struct err *e)
{
	return e->code == EACCES ? cli_refuse(REASON_CAPABILITY_DENIED, e) : cli_fail(STATUS_FAILED, e);
}

/* Behind the working directory where it is relative; nothing is resolved here. */
static int absolute(const char *path, char ret[FILES_PATH_MAX], struct err *e)
{
	char cwd[FILES_PATH_MAX] = "";
	int n;

	if (path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		return err_set(e, errno, "working directory: %s", strerror(errno));
	n = snprintf(ret, FILES_PATH_MAX, "%s%s%s", cwd, path[0] == '/' ? "" : "/", path);
	return n >= FILES_PATH_MAX ? err_set(e, ENAMETOOLONG, "path too long") : 0;
}

static int desk_open(const struct invocation *in, const char *operand, struct desk *d)
{
	struct places p;
	struct err e;
	int status = cli_places(in, &p);

	if (status)
		return status;
	if (file_set_of_model(&p, &d->set, &e) < 0)
		return cli_fail(STATUS_FAILED, &e);
	if (d->set.nallow == 0) {
		err_set(&e, EACCES, "no directory is allowed; set file_allow in %s", p.conf);
		return failed(&e);
	}
	return operand && absolute(operand, d->path, &e) < 0 ? cli_refuse_options(&e) : 0;
}

/* --- read */

static int print_content(const char *path, const char *buf, size_t len)
{
	auto_json json_t *o = json_object();
	json_t *plain = memchr(buf, '\0', len) ? NULL : json_stringn(buf, len);
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];

	digest_sha256(buf, len, digest);
	digest_hex(digest, sizeof(digest), hex);
	json_add_text(o, "path", path);
	json_add_u64(o, "size", len);
	json_add_text(o, "sha256", hex);
	if (plain) {
		json_object_set_new(o, "data", plain);
	} else {
		autofree char *text = malloc(BASE64_MAX(len));
		if (!text)
			return STATUS_FAILED;
		base64_encode(buf, len, text);
		json_add_text(o, "dataB64", text);
	}
	json_object_set_new(o, "untrusted", json_true());
	return cli_print_json(o);
}

static int file_read(struct invocation *in)
{
	autodesk d = { 0 };
	struct files_place place;
	autofree char *buf = NULL;
	size_t len;
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_want(in, 1, "PATH", &status))
		return status;
	status = desk_open(in, in->rest.argv[0], &d);
	if (status)
		return status;
	autoclose int fd = files_open(&d.set, d.path, &place, &e);
	if (fd < 0 || fd_read_all(fd, FILE_MAX, &buf, &len, &e) < 0)
		return failed(&e);
	if (in->common.is_json)
		return print_content(place.path, buf, len);
	return fd_write_all(STDOUT_FILENO, buf, len, &e) < 0 ? cli_fail(STATUS_FAILED, &e) : 0;
}

/* --- write */

static int file_write(struct invocation *in)
{
	autodesk d = { 0 };
	struct files_place place;
	autofree char *buf = NULL;
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];
	size_t len;
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_want(in, 1, "PATH", &status))
		return status;
	status = desk_open(in, in->rest.argv[0], &d);
	if (status)
		return status;
	/* Judged before anything is read: a refusal does not wait for input. */
	if (files_find(&d.set, d.path, &place, &e) < 0 ||
	    cli_read_input("-", FILE_MAX, &buf, &len, &e) < 0 ||
	    files_write(&d.set, d.path, buf, len, &place, &e) < 0)
		return failed(&e);
	if (!in->common.is_json)
		return 0;
	auto_json json_t *o = json_object();
	digest_sha256(buf, len, digest);
	digest_hex(digest, sizeof(digest), hex);
	json_add_text(o, "path", place.path);
	json_add_u64(o, "size", len);
	json_add_text(o, "sha256", hex);
	return cli_print_json(o);
}

/* --- list */

struct listing {
	json_t *rows;
	size_t base_len;
};

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "special";
}

static int list_one(void *ctx, int fd, const char *path, const struct stat *st, struct err *e)
{
	struct listing *l = ctx;
	const char *name = path + l->base_len + 1;
	char mode[16];

	(void)fd;
	if (json_array_size(l->rows) >= LIST_MAX)
		return err_set(e, E2BIG, "more than %d names", LIST_MAX);
	snprintf(mode, sizeof(mode), "%04o", st->st_mode & 07777);
	json_t *o = json_object();
	if (json_add_text(o, "name", name) < 0) {
		autofree char *text = malloc(BASE64_MAX(strlen(name)));
		if (text)
			base64_encode(name, strlen(name), text);
		json_add_text(o, "nameB64", text);
	}
	json_add_text(o, "type", type_of(st->st_mode));
	json_add_text(o, "mode", mode);
	json_add_u64(o, "size", (uint64_t)st->st_size);
	json_array_append_new(l->rows, o);
	return 0;
}

struct list_options {
	bool is_deep;
};

static const struct option list_rows[] = {
	OPTION(struct list_options, is_deep, "recursive", 'r', OPTION_FLAG, NULL, "all below, too"),
};

static int file_list(struct invocation *in)
{
	static const struct column columns[] = {
		{ "MODE", "mode" }, { "TYPE", "type" }, { "SIZE", "size" }, { "NAME", "name" },
	};
	struct list_options o = { 0 };
	autodesk d = { 0 };
	struct files_place place;
	auto_json json_t *rows = json_array();
	struct err e;
	int status;

	if (cli_options(in, list_rows, ARRAY_SIZE(list_rows), &o, &status) ||
	    input_want(in, 1, "DIR", &status))
		return status;
	status = desk_open(in, in->rest.argv[0], &d);
	if (status)
		return status;
	autoclose int fd = files_open_directory(&d.set, d.path, &place, &e);
	if (fd < 0)
		return failed(&e);
	struct listing l = { .rows = rows, .base_len = place.path[1] ? strlen(place.path) : 0 };
	if (files_walk(&d.set, d.path, o.is_deep ? FILES_ALL : FILES_ONE_LEVEL, list_one, &l, &e) < 0)
		return failed(&e);
	if (in->common.is_json)
		return cli_print_json(rows);
	table_print(rows, columns, ARRAY_SIZE(columns));
	return 0;
}

/* --- search */

struct search {
	const struct files_set *set;
	const char *text;
	json_t *hits;
	bool is_cut;
};

static int add_hit(struct search *s, const char *path, size_t line, const char *p, size_t len)
{
	json_t *o = json_object();

	if (json_array_size(s->hits) == SEARCH_HITS_MAX) {
		s->is_cut = true;
		json_decref(o);
		return 1;
	}
	while (len > 0 && p[len - 1] == '\r')
		len--;
	json_add_text(o, "path", path);
	json_add_u64(o, "line", line);
	json_object_set_new(o, "text", json_stringn(p, len < SEARCH_LINE_MAX ? len : SEARCH_LINE_MAX));
	json_array_append_new(s->hits, o);
	return 0;
}

static int search_text(struct search *s, const char *path, const char *buf, size_t len)
{
	const char *end = buf + len;
	size_t line = 1;

	if (memchr(buf, '\0', len)) /* not text */
		return 0;
	for (const char *p = buf; p < end; line++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
		if (memmem(p, n, s->text, strlen(s->text)) && add_hit(s, path, line, p, n))
			return 1;
		p += n + 1;
	}
	return 0;
}

/* What cannot be read is passed over: a search answers for what it may see. */
static int search_one(void *ctx, int fd, const char *path, const struct stat *st, struct err *e)
{
	struct search *s = ctx;
	struct files_place place;
	autofree char *buf = NULL;
	struct err ignored;
	size_t len;

	(void)fd;
	(void)e;
	if (!S_ISREG(st->st_mode) || st->st_size > SEARCH_FILE_MAX)
		return 0;
	autoclose int file = files_open(s->set, path, &place, &ignored);
	if (file < 0 || fd_read_all(file, SEARCH_FILE_MAX, &buf, &len, &ignored) < 0)
		return 0;
	return search_text(s, path, buf, len);
}

static void print_hits(const json_t *hits)
{
	for (size_t i = 0; i < json_array_size(hits); i++) {
		const json_t *o = json_array_get(hits, i);
		const char *text = cli_text(o, "text");
		printf("%s:%lld:", cli_text(o, "path") ? cli_text(o, "path") : "?",
		       (long long)json_integer_value(json_object_get(o, "line")));
		for (const char *p = text ? text : ""; *p; p++)
			putchar((unsigned char)*p < ' ' && *p != '\t' ? '?' : *p);
		putchar('\n');
	}
}

static int file_search(struct invocation *in)
{
	autodesk d = { 0 };
	struct search s = { 0 };
	auto_json json_t *answer = json_object();
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status))
		return status;
	if (in->rest.argc != 1 && input_want(in, 2, "TEXT [DIR]", &status))
		return status;
	if (!in->rest.argv[0][0]) {
		err_set(&e, EINVAL, "an empty text is everywhere");
		return cli_refuse_options(&e);
	}
	const char *dir = in->rest.argc == 2 ? in->rest.argv[1] : NULL;
	status = desk_open(in, dir, &d);
	if (status)
		return status;
	s = (struct search){ .set = &d.set, .text = in->rest.argv[0], .hits = json_array() };
	json_object_set_new(answer, "hits", s.hits);
	for (size_t i = 0; i < (dir ? 1 : d.set.nallow); i++)
		if (files_walk(&d.set, dir ? d.path : d.set.allow[i].path, FILES_ALL, search_one, &s, &e) < 0)
			return failed(&e);
	json_object_set_new(answer, "truncated", json_boolean(s.is_cut));
	json_object_set_new(answer, "untrusted", json_true());
	if (in->common.is_json)
		return cli_print_json(answer);
	print_hits(s.hits);
	return json_array_size(s.hits) ? 0 : STATUS_FAILED;
}

const struct verb file_verbs[] = {
	{ "read", "PATH", "print a file", file_read, NULL, NULL },
	{ "write", "PATH", "replace or make a file from standard input", file_write, NULL, NULL },
	{ "list", "DIR [-r]", "list a directory", file_list, NULL, NULL },
	{ "search", "TEXT [DIR]", "find lines with a text", file_search, NULL, NULL },
	{ 0 },
};
