/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: read, hash, judge, write the manifest, hand over to the depot.
 * Nothing of the stream is believed; the digests it brings say only what the
 * sender meant to send.
 */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "digest/digest.h"
#include "skill/frontmatter.h"
#include "skill/stream.h"

enum { INPUT_LEN = 256 * 1024, PATIENCE_MS = 60000 /* without a byte: others wait behind it */ };
#define STAGE_TOTAL_MAX (16ull << 30)

static const char front_matter_name[] = "SKILL.md";

/* One staging. */
struct staging {
	struct depot *depot;
	struct depot_room room;
	int fd;
	uint8_t *input;
	size_t have, at;
	struct skill_entry *entries;
	size_t nentries, cap;
	uint64_t total;
	struct digest *whole;
	char shown[160]; /* the path at hand, for messages */
	struct k_staged result;
};

/* --- The stream */

static int refill(struct staging *s, struct err *e)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, PATIENCE_MS) == 0)
		return err_set(e, ETIMEDOUT, "the stream stands still");
	do
		n = read(s->fd, s->input, INPUT_LEN);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(e, errno, "stream: %s", strerror(errno));
	if (n == 0)
		return err_set(e, EPROTO, "the stream ends too early");
	s->have = (size_t)n;
	s->at = 0;
	return 0;
}

static int take_bytes(struct staging *s, void *buf, size_t len, struct err *e)
{
	uint8_t *p = buf;

	while (len > 0) {
		int rc = s->at == s->have ? refill(s, e) : 0;
		size_t n = s->have - s->at < len ? s->have - s->at : len;
		if (rc < 0)
			return rc;
		memcpy(p, s->input + s->at, n);
		s->at += n;
		p += n;
		len -= n;
	}
	return 0;
}

static int expect_end(struct staging *s, struct err *e)
{
	if (s->at == s->have && refill(s, e) < 0)
		return e->code == EPROTO ? 0 : -e->code;
	return err_set(e, EPROTO, "bytes after the end of the stream");
}

/* --- Contents */

/* The digests of a content that comes by in pieces of any size. */
struct chunker {
	struct digest *whole;
	uint8_t chunk[SKILL_CHUNK];
	size_t filled;
	uint8_t *leaves;
	size_t n;
};

static void end_chunk(struct chunker *c)
{
	digest_sha256(c->chunk, c->filled, c->leaves + c->n++ * SKILL_SHA);
	c->filled = 0;
}

static void chunker_add(struct chunker *c, const uint8_t *p, size_t len)
{
	digest_add(c->whole, p, len);
	while (len > 0) {
		size_t n = SKILL_CHUNK - c->filled < len ? SKILL_CHUNK - c->filled : len;
		memcpy(c->chunk + c->filled, p, n);
		c->filled += n;
		p += n;
		len -= n;
		if (c->filled == SKILL_CHUNK)
			end_chunk(c);
	}
}

static int copy_content(struct staging *s, int out, uint64_t size, struct chunker *c, struct err *e)
{
	while (size > 0) {
		int rc = s->at == s->have ? refill(s, e) : 0;
		size_t n = s->have - s->at < size ? s->have - s->at : (size_t)size;
		if (rc == 0)
			rc = fault_step("stage.write", e);
		if (rc == 0)
			rc = fd_write_all(out, s->input + s->at, n, e);
		if (rc < 0)
			return rc;
		chunker_add(c, s->input + s->at, n);
		s->at += n;
		size -= n;
	}
	if (c->filled > 0)
		end_chunk(c);
	return 0;
}

static int create(const struct staging *s, const char *name, struct err *e)
{
	if (fault_step("stage.create", e) < 0)
		return -e->code;
	int fd = openat(s->room.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
			0640);

	return fd < 0 ? err_set(e, errno, "create '%s': %s", name, strerror(errno)) : fd;
}

/* "b.HEX": what the depot knows the kind and the digest by. */
static void content_name(char kind, const uint8_t digest[SKILL_SHA], char ret[DIGEST_HEX_MAX + 2])
{
	ret[0] = kind;
	ret[1] = '.';
	digest_hex(digest, SKILL_SHA, ret + 2);
}

static int write_named(const struct staging *s, char kind, const uint8_t digest[SKILL_SHA],
		       const void *buf, size_t len, struct err *e)
{
	char name[DIGEST_HEX_MAX + 2];

	content_name(kind, digest, name);
	autoclose int fd = create(s, name, e);
	int rc = fd < 0 ? fd : fd_write_all(fd, buf, len, e);
	if (rc == 0 && fchmod(fd, 0440) < 0)
		rc = err_set(e, errno, "chmod '%s': %s", name, strerror(errno));
	return rc;
}

/* The content is complete: is it what it was said to be? Then it gets its name. */
static int settle_file(const struct staging *s, const struct stream_record *record,
		       struct chunker *c, struct skill_entry *entry, struct err *e)
{
	char name[DIGEST_HEX_MAX + 2];

	digest_end(c->whole, entry->sha256);
	if (!digest_equal(entry->sha256, record->sha256, SKILL_SHA))
		return err_set(e, EBADMSG, "digest mismatch: '%s'", s->shown);
	content_name('b', entry->sha256, name);
	if (renameat(s->room.dir, "content", s->room.dir, name) < 0)
		return err_set(e, errno, "rename: %s", strerror(errno));
	if (entry->size <= SKILL_CHUNK)
		return 0;
	digest_sha256(c->leaves, c->n * SKILL_SHA, entry->leaves);
	return write_named(s, 'l', entry->leaves, c->leaves, c->n * SKILL_SHA, e);
}

static int stage_file(struct staging *s, const struct stream_record *record,
		      struct skill_entry *entry, struct err *e)
{
	autofree struct chunker *c = calloc(1, sizeof(*c));
	autofree uint8_t *leaves = malloc((skill_chunks(record->size) + 1) * SKILL_SHA);
	autoclose int out = create(s, "content", e);
	int rc;

	if (!c || !leaves)
		return err_set(e, ENOMEM, "stage: out of memory");
	if (out < 0)
		return out;
	c->whole = s->whole;
	c->leaves = leaves;
	entry->size = record->size;
	entry->is_exec = record->is_exec;
	rc = copy_content(s, out, record->size, c, e);
	if (rc == 0 && fchmod(out, 0440) < 0)
		rc = err_set(e, errno, "chmod: %s", strerror(errno));
	if (rc == 0)
		rc = settle_file(s, record, c, entry, e);
	else
		digest_end(s->whole, entry->sha256); /* fresh for nobody's use, but fresh */
	s->result.files++;
	s->result.bytes += record->size;
	return rc;
}

static int stage_link(struct staging *s, const struct stream_record *record,
		      struct skill_entry *entry, struct err *e)
{
	autofree char *target = malloc(record->size + 1);
	uint8_t real[SKILL_SHA];
	int rc;

	if (!target)
		return err_set(e, ENOMEM, "stage: out of memory");
	rc = take_bytes(s, target, record->size, e);
	if (rc < 0)
		return rc;
	digest_sha256(target, record->size, real);
	if (!digest_equal(real, record->sha256, SKILL_SHA))
		return err_set(e, EBADMSG, "digest mismatch: '%s'", s->shown);
	const char *fault = skill_target_fault(target, record->size);
	if (fault)
		return err_set(e, EINVAL, "unsafe path '%s': %s", s->shown, fault);
	entry->size = entry->target_len = record->size;
	entry->target = take_ptr(target);
	s->result.links++;
	return 0;
}

/* --- Records */

static int add_entry(struct staging *s, struct skill_entry **ret, struct err *e)
{
	if (s->nentries == SKILL_ENTRIES_MAX)
		return err_set(e, E2BIG, "more than %d files", SKILL_ENTRIES_MAX);
	if (s->nentries == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		void *more = realloc(s->entries, cap * sizeof(s->entries[0]));
		if (!more)
			return err_set(e, ENOMEM, "stage: out of memory");
		s->entries = more;
		s->cap = cap;
	}
	*ret = &s->entries[s->nentries++];
	memset(*ret, 0, sizeof(**ret));
	return 0;
}

static int take_path(struct staging *s, const struct stream_record *record,
		     struct skill_entry *entry, struct err *e)
{
	autofree char *path = malloc((size_t)record->path_len + 1);
	int rc;

	if (!path)
		return err_set(e, ENOMEM, "stage: out of memory");
	rc = take_bytes(s, path, record->path_len, e);
	if (rc < 0)
		return rc;
	skill_show(path, record->path_len, s->shown, sizeof(s->shown));
	const char *fault = skill_path_fault(path, record->path_len);
	if (fault)
		return err_set(e, EINVAL, "unsafe path '%s': %s", s->shown, fault);
	entry->path_len = record->path_len;
	entry->path = take_ptr(path);
	return 0;
}

static int stage_record(struct staging *s, const struct stream_record *record, struct err *e)
{
	struct skill_entry *entry = NULL;
	int rc = add_entry(s, &entry, e);

	if (rc == 0)
		rc = take_path(s, record, entry, e);
	if (rc < 0)
		return rc;
	entry->kind = record->kind == STREAM_LINK ? SKILL_LINK : SKILL_FILE;
	if (__builtin_add_overflow(s->total, record->size, &s->total) || s->total > STAGE_TOTAL_MAX)
		return err_set(e, EFBIG, "'%s': the skill has more than 16 GiB", s->shown);
	return record->kind == STREAM_LINK ? stage_link(s, record, entry, e) :
					     stage_file(s, record, entry, e);
}

static int read_slug(struct staging *s, struct err *e)
{
	uint8_t begin[STREAM_BEGIN_LEN];
	size_t len;
	int rc = take_bytes(s, begin, sizeof(begin), e);
	const char *fault = rc < 0 ? NULL : stream_read_begin(begin, &len);

	if (rc < 0 || fault)
		return rc < 0 ? rc : err_set(e, EPROTO, "%s", fault);
	rc = take_bytes(s, s->result.slug, len, e);
	if (rc < 0)
		return rc;
	fault = skill_slug_fault(s->result.slug, len);
	skill_show(s->result.slug, len, s->shown, sizeof(s->shown));
	return fault ? err_set(e, EINVAL, "unsafe slug '%s': %s", s->shown, fault) : 0;
}

static int read_records(struct staging *s, struct err *e)
{
	uint8_t head[STREAM_RECORD_LEN];
	struct stream_record record;

	for (;;) {
		int rc = take_bytes(s, head, sizeof(head), e);
		const char *fault = rc < 0 ? NULL : stream_read_record(head, &record);
		if (fault)
			return err_set(e, EPROTO, "%s", fault);
		if (rc == 0 && record.kind == STREAM_END)
			break;
		if (rc == 0)
			rc = stage_record(s, &record, e);
		if (rc < 0)
			return rc;
	}
	if (record.size != s->nentries)
		return err_set(e, EPROTO, "the stream counts its records wrongly");
	return expect_end(s, e);
}

/* --- The manifest */

static int compare_entries(const void *a, const void *b)
{
	const struct skill_entry *x = a, *y = b;

	return skill_path_compare(x->path, x->path_len, y->path, y->path_len);
}

static int check_duplicates(struct staging *s, struct err *e)
{
	for (size_t i = 1; i < s->nentries; i++) {
		const struct skill_entry *entry = &s->entries[i];
		if (compare_entries(entry - 1, entry) == 0)
			return err_set(e, EEXIST, "duplicate path '%s'",
				       skill_show(entry->path, entry->path_len, s->shown,
						  sizeof(s->shown)));
	}
	return 0;
}

static int render(const struct staging *s, char **ret, size_t *ret_len, struct err *e)
{
	autofclose FILE *f = open_memstream(ret, ret_len);
	autofree char *line = malloc(SKILL_LINE_MAX);

	if (!f || !line)
		return err_set(e, ENOMEM, "stage: out of memory");
	fwrite(line, 1, manifest_write_begin(s->result.slug, line), f);
	for (size_t i = 0; i < s->nentries; i++)
		fwrite(line, 1, manifest_write_entry(&s->entries[i], line), f);
	fwrite(line, 1, manifest_write_end((uint32_t)s->nentries, line), f);
	return ferror(f) || fflush(f) ? err_set(e, ENOMEM, "stage: out of memory") : 0;
}

/* Reads SKILL.md back from where it was just written: it is the content that was hashed. */
static void read_front_matter(struct staging *s, const struct skill_image *image)
{
	long node = skill_image_find(image, front_matter_name, strlen(front_matter_name));
	char name[DIGEST_HEX_MAX + 2];
	struct front_matter fm;
	uint32_t line;

	if (node <= 0 || image->nodes[node].kind != SKILL_FILE)
		return;
	content_name('b', image->digests[image->nodes[node].content].sha256, name);
	autoclose int fd = openat(s->room.dir, name, O_RDONLY | O_CLOEXEC);
	autofree char *buf = calloc(1, FRONT_MATTER_MAX);
	ssize_t n = fd < 0 || !buf ? -1 : read(fd, buf, FRONT_MATTER_MAX);
	const char *fault = n < 0 ? "cannot be read" : front_matter_read(buf, (size_t)n, &fm, &line);
	if (!fault) {
		s->result.requires_execution = fm.requires_execution;
		return;
	}
	s->result.front_matter_line = n < 0 ? 1 : line;
	snprintf(s->result.front_matter_fault, sizeof(s->result.front_matter_fault), "%s", fault);
}

static int settle(struct staging *s, struct err *e)
{
	autofree char *text = NULL;
	auto_(skill_image) image = NULL;
	size_t len;
	int rc;

	if (s->nentries > 0)
		qsort(s->entries, s->nentries, sizeof(s->entries[0]), compare_entries);
	rc = check_duplicates(s, e);
	if (rc == 0)
		rc = render(s, &text, &len, e);
	if (rc == 0)
		rc = skill_image_parse(text, len, &image, e);
	if (rc == 0)
		rc = skill_image_check_links(image, e);
	if (rc < 0)
		return rc;
	read_front_matter(s, image);
	digest_sha256(text, len, s->result.digest);
	rc = write_named(s, 'm', s->result.digest, text, len, e);
	if (rc == 0)
		rc = fault_step("stage.commit", e);
	if (rc == 0)
		rc = depot_commit(s->depot, &s->room, s->result.slug, s->result.digest, e);
	return rc;
}

static void done(struct staging *s)
{
	for (size_t i = 0; i < s->nentries; i++) {
		free((void *)(uintptr_t)s->entries[i].path);
		free((void *)(uintptr_t)s->entries[i].target);
	}
	free(s->entries);
	free(s->input);
	digest_free(s->whole);
	depot_room_close(s->depot, &s->room);
}

int stage_stream(struct depot *d, int fd, struct k_staged *ret, struct err *e)
{
	struct staging s = { .depot = d, .fd = fd, .room = { .dir = -1 } };
	struct err ignored;
	int rc;

	s.input = malloc(INPUT_LEN);
	s.whole = digest_new();
	rc = s.input && s.whole ? depot_room_open(d, &s.room, e) :
				  err_set(e, ENOMEM, "stage: out of memory");
	if (rc == 0)
		rc = read_slug(&s, e);
	if (rc == 0)
		rc = read_records(&s, e);
	if (rc == 0 && s.nentries == 0)
		rc = err_set(e, EINVAL, "the skill holds no file");
	if (rc == 0)
		rc = settle(&s, e);
	done(&s);
	if (depot_collect(d, &ignored) < 0)
		log_error("skills_collect", "%s", ignored.msg);
	if (rc == 0)
		*ret = s.result;
	return rc;
}
