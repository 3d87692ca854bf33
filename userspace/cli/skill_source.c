/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two readers, one writer of records. A file is read twice, for its digest and
 * for its bytes: one that changes in between is refused by the stager, as any
 * other wrong digest is.
 */
#include "cli/skill_source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "digest/base64.h"
#include "digest/digest.h"
#include "json/json.h"
#include "skill/stream.h"

enum { DEPTH_MAX = 2048, COPY_LEN = 256 * 1024 };

/* --- Records */

static int begin(struct skill_sink *to, const char *slug, struct err *e)
{
	uint8_t head[STREAM_BEGIN_LEN];
	size_t len = strlen(slug);
	const char *fault = skill_slug_fault(slug, len);
	char shown[160];

	if (fault)
		return err_set(e, EINVAL, "unsafe slug '%s': %s",
			       skill_show(slug, len, shown, sizeof(shown)), fault);
	stream_write_begin(len, head);
	int rc = skill_sink_write(to, head, sizeof(head), e);
	return rc < 0 ? rc : skill_sink_write(to, slug, len, e);
}

static int put_record(struct skill_sink *to, struct stream_record *record, const char *path,
		      size_t path_len, struct err *e)
{
	uint8_t head[STREAM_RECORD_LEN];
	char shown[160];

	if (path_len > SKILL_PATH_MAX)
		return err_set(e, EINVAL, "unsafe path '%s': it has more than 4095 bytes",
			       skill_show(path, path_len, shown, sizeof(shown)));
	record->path_len = (uint16_t)path_len;
	stream_write_record(record, head);
	int rc = skill_sink_write(to, head, sizeof(head), e);
	return rc < 0 ? rc : skill_sink_write(to, path, path_len, e);
}

static int end(struct skill_sink *to, uint64_t count, struct err *e)
{
	const struct stream_record record = { .kind = STREAM_END, .size = count };
	uint8_t head[STREAM_RECORD_LEN];

	stream_write_record(&record, head);
	return skill_sink_write(to, head, sizeof(head), e);
}

/* --- Directories */

struct walk {
	struct skill_sink *to;
	uint64_t count;
	unsigned depth;
	size_t len; /* of the path of what is at hand */
	char path[SKILL_PATH_MAX + SKILL_NAME_MAX + 2];
	char shown[160];
	uint8_t *copy; /* COPY_LEN */
	int (*judge)(void *ctx, const struct stat *st, struct err *e); /* NULL: everything goes */
	void *ctx;
};

static int fault(struct walk *w, const char *words, struct err *e)
{
	return err_set(e, EINVAL, "unsafe path '%s': %s",
		       skill_show(w->path, w->len, w->shown, sizeof(w->shown)), words);
}

static int failed(struct walk *w, struct err *e)
{
	int saved = errno;

	return err_set(e, saved, "'%s': %s", skill_show(w->path, w->len, w->shown, sizeof(w->shown)),
		       strerror(saved));
}

/* Exactly the bytes that were announced: what a file has become meanwhile is not followed. */
static int copy_file(struct walk *w, int fd, uint64_t size, struct err *e)
{
	while (size > 0) {
		size_t want = size < COPY_LEN ? (size_t)size : COPY_LEN;
		ssize_t n = read(fd, w->copy, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(w, e);
		if (n == 0)
			return fault(w, "it changes while it is read", e);
		int rc = skill_sink_write(w->to, w->copy, (size_t)n, e);
		if (rc < 0)
			return rc;
		size -= (uint64_t)n;
	}
	return 0;
}

static int put_file(struct walk *w, int fd, const struct stat *st, struct err *e)
{
	struct stream_record record = { .kind = STREAM_FILE, .is_exec = (st->st_mode & 0111) != 0 };

	if (st->st_mode & (S_ISUID | S_ISGID | S_ISVTX))
		return fault(w, "it is set-uid, set-gid or sticky", e);
	if (w->judge && w->judge(w->ctx, st, e) < 0)
		return err_wrap(e, skill_show(w->path, w->len, w->shown, sizeof(w->shown)));
	if (digest_fd(fd, record.sha256, &record.size, e) < 0)
		return err_wrap(e, skill_show(w->path, w->len, w->shown, sizeof(w->shown)));
	if (lseek(fd, 0, SEEK_SET) < 0)
		return failed(w, e);
	int rc = put_record(w->to, &record, w->path, w->len, e);
	if (rc == 0)
		rc = copy_file(w, fd, record.size, e);
	w->count++;
	return rc;
}

static int put_link(struct walk *w, int dirfd, const char *name, struct err *e)
{
	struct stream_record record = { .kind = STREAM_LINK };
	char target[SKILL_PATH_MAX + 2];
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target));

	if (n < 0)
		return failed(w, e);
	if (n > SKILL_PATH_MAX)
		return fault(w, "the link's target has more than 4095 bytes", e);
	record.size = (uint64_t)n;
	digest_sha256(target, (size_t)n, record.sha256);
	int rc = put_record(w->to, &record, w->path, w->len, e);
	w->count++;
	return rc < 0 ? rc : skill_sink_write(w->to, target, (size_t)n, e);
}

static int walk_directory(struct walk *w, int dirfd, struct err *e);

static int put_opened(struct walk *w, int dirfd, const char *name, struct err *e)
{
	autoclose int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return failed(w, e);
	if (S_ISREG(st.st_mode))
		return put_file(w, fd, &st, e);
	return S_ISDIR(st.st_mode) ? walk_directory(w, fd, e) :
				     fault(w, "it is neither a file nor a directory nor a link", e);
}

/* A device is not even opened; what is there by then is looked at again once it is. */
static int put_entry(struct walk *w, int dirfd, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(w, e);
	if (S_ISLNK(st.st_mode))
		return put_link(w, dirfd, name, e);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return fault(w, "it is neither a file nor a directory nor a link", e);
	return put_opened(w, dirfd, name, e);
}

static int is_name(const struct dirent *d)
{
	return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Recursion is bounded: by the length of a path, and by DEPTH_MAX. */
static int walk_directory(struct walk *w, int dirfd, struct err *e)
{
	struct dirent **names = NULL;
	size_t len = w->len;
	int n = scandirat(dirfd, ".", &names, is_name, by_bytes), rc = 0;

	if (n < 0)
		return failed(w, e);
	if (++w->depth > DEPTH_MAX)
		rc = fault(w, "it lies too deep", e);
	for (int i = 0; i < n; i++) {
		size_t name_len = strlen(names[i]->d_name);
		if (rc == 0) {
			w->len = len;
			if (len > 0)
				w->path[w->len++] = '/';
			memcpy(w->path + w->len, names[i]->d_name, name_len);
			w->len += name_len;
			rc = w->len > SKILL_PATH_MAX ? fault(w, "it has more than 4095 bytes", e) :
						       put_entry(w, dirfd, names[i]->d_name, e);
		}
		free(names[i]);
	}
	free(names);
	w->depth--;
	w->len = len;
	return rc;
}

int skill_source_directory(int dirfd, const char *slug, struct skill_sink *to,
			   int (*judge)(void *ctx, const struct stat *st, struct err *e), void *ctx,
			   struct err *e)
{
	autofree struct walk *w = calloc(1, sizeof(*w));
	autofree uint8_t *copy = malloc(COPY_LEN);

	if (!w || !copy)
		return err_set(e, ENOMEM, "out of memory");
	w->to = to;
	w->copy = copy;
	w->judge = judge;
	w->ctx = ctx;
	int rc = begin(to, slug, e);
	if (rc == 0)
		rc = walk_directory(w, dirfd, e);
	return rc < 0 ? rc : end(to, w->count, e);
}

/* --- JSON */

struct json_file {
	const char *path, *data_b64, *sha256;
	const json_t *mode, *link;
};

static const struct json_field file_fields[] = {
	FIELD(struct json_file, path, "path", FIELD_PTR, FIELD_REQUIRED, 0),
	FIELD(struct json_file, data_b64, "data_b64", FIELD_PTR, 0, 0),
	FIELD(struct json_file, sha256, "sha256", FIELD_PTR, 0, 0),
	FIELD(struct json_file, mode, "mode", FIELD_ANY, 0, 0),
	FIELD(struct json_file, link, "link", FIELD_ANY, 0, 0),
};

/* 0644 or 0755, as text or as a number: octal digits read as such, or the mode's own value. */
static int read_mode(const json_t *v, bool *ret_exec)
{
	static const struct {
		const char *text;
		json_int_t value, digits;
		bool is_exec;
	} modes[] = {
		{ "0644", 0644, 644, false },
		{ "0755", 0755, 755, true },
		{ "644", 0644, 644, false },
		{ "755", 0755, 755, true },
	};

	*ret_exec = false;
	if (!v || json_is_null(v))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		const char *text = json_string_value(v);
		bool is_it = text ? strcmp(text, modes[i].text) == 0 :
				    json_is_integer(v) && (json_integer_value(v) == modes[i].value ||
							   json_integer_value(v) == modes[i].digits);
		if (!is_it)
			continue;
		*ret_exec = modes[i].is_exec;
		return 0;
	}
	return -EINVAL;
}

/* A link is its target: a text, or `true` with the target as data. */
static int read_content(const struct json_file *f, enum stream_kind *ret_kind, char **ret,
			size_t *ret_len)
{
	const char *target = json_string_value(f->link);
	size_t len = f->data_b64 ? strlen(f->data_b64) : 0;

	*ret_kind = target || json_is_true(f->link) ? STREAM_LINK : STREAM_FILE;
	if (f->link && !target && !json_is_boolean(f->link) && !json_is_null(f->link))
		return -EINVAL;
	if (target) {
		*ret = strdup(target);
		*ret_len = strlen(target);
		return !*ret ? -ENOMEM : f->data_b64 && len ? -EINVAL : 0;
	}
	if (!f->data_b64)
		return -EINVAL;
	*ret = malloc(len + 1);
	ssize_t n = *ret ? base64_decode(f->data_b64, len, (uint8_t *)*ret, len) : -ENOMEM;
	*ret_len = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

static int put_json_file(const json_t *v, struct skill_sink *to, struct err *e)
{
	struct json_file f = { 0 };
	struct stream_record record = { 0 };
	autofree char *content = NULL;
	char shown[160];
	size_t len = 0;

	if (json_fields_read(v, file_fields, ARRAY_SIZE(file_fields), &f, e) < 0)
		return err_wrap(e, "files");
	skill_show(f.path, strlen(f.path), shown, sizeof(shown));
	if (read_mode(f.mode, &record.is_exec) < 0)
		return err_set(e, EINVAL, "'%s': mode is neither 0644 nor 0755", shown);
	if (read_content(&f, &record.kind, &content, &len) < 0)
		return err_set(e, EINVAL, "'%s': no usable content", shown);
	if (record.kind == STREAM_LINK && record.is_exec)
		return err_set(e, EINVAL, "'%s': a link has no mode", shown);
	record.size = len;
	/* Only a link, whose target stands there in plain words, may go without. */
	if (!f.sha256 && record.kind == STREAM_LINK)
		digest_sha256(content, len, record.sha256);
	else if (!f.sha256 || digest_unhex(f.sha256, record.sha256, SKILL_SHA) < 0)
		return err_set(e, EINVAL, "'%s': sha256 is not 64 lower-case hexadecimal digits", shown);
	int rc = put_record(to, &record, f.path, strlen(f.path), e);
	return rc < 0 ? rc : skill_sink_write(to, content, len, e);
}

struct json_skill {
	const char *slug;
	const json_t *files;
};

static const struct json_field skill_fields[] = {
	FIELD(struct json_skill, slug, "slug", FIELD_PTR, 0, 0),
	FIELD(struct json_skill, files, "files", FIELD_ARRAY, FIELD_REQUIRED, 0),
};

int skill_source_json(const char *text, size_t len, const char *slug_or_null,
		      struct skill_sink *to, struct err *e)
{
	struct json_skill s = { 0 };
	auto_json json_t *v = json_parse_strict(text, len, 4, e);
	int rc;

	if (!v)
		return -e->code;
	if (json_fields_read(v, skill_fields, ARRAY_SIZE(skill_fields), &s, e) < 0)
		return -e->code;
	if (!slug_or_null && !s.slug)
		return err_set(e, EINVAL, "no slug");
	rc = begin(to, slug_or_null ? slug_or_null : s.slug, e);
	for (size_t i = 0; rc == 0 && i < json_array_size(s.files); i++)
		rc = put_json_file(json_array_get(s.files, i), to, e);
	return rc < 0 ? rc : end(to, json_array_size(s.files), e);
}
