/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state machine over blocks: a head, the bytes behind it, their fill. Writes
 * nothing and trusts no length beyond what is still allowed.
 */
#include "artifact/scan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "artifact/tar.h"
#include "base/scope.h"
#include "digest/digest.h"

struct artifact_scan {
	uint64_t allowed; /* bytes of the stream that may still come */
	uint8_t block[TAR_BLOCK];
	size_t have;	    /* of the head in @block */
	uint64_t left;	    /* bytes of the entry that still come */
	size_t fill;	    /* and zeros behind them */
	enum tar_kind kind; /* of the entry they belong to */
	struct tar_entry entry;
	char name[TAR_PATH_MAX], raw[TAR_PATH_MAX]; /* a long name: judged; as it comes */
	size_t raw_len;
	bool has_name, is_over;
	size_t nentries, sums_len;
	struct digest *digest;
	json_t *files;
};

struct artifact_scan *artifact_scan_new(uint64_t max_bytes)
{
	struct artifact_scan *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->allowed = max_bytes;
	s->digest = digest_new();
	s->files = json_array();
	if (s->digest && s->files)
		return s;
	artifact_scan_free(s);
	return NULL;
}

void artifact_scan_free(struct artifact_scan *s)
{
	if (!s)
		return;
	digest_free(s->digest);
	json_decref(s->files);
	free(s);
}

static int note_file(struct artifact_scan *s, struct err *e)
{
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];

	digest_end(s->digest, digest);
	digest_hex(digest, sizeof(digest), hex);
	s->sums_len += 2 * DIGEST_LEN + 3 + strlen(s->entry.path);
	if (s->sums_len > ARTIFACT_SUMS_MAX)
		return err_set(e, E2BIG, "more than %d bytes of names", ARTIFACT_SUMS_MAX);
	json_t *v = json_pack("{s:s, s:I, s:s}", "path", s->entry.path, "size",
			      (json_int_t)s->entry.size, "sha256", hex);
	return json_array_append_new(s->files, v) < 0 ? err_set(e, ENOMEM, "out of memory") : 0;
}

/* The last byte of an entry has come. */
static int finish_entry(struct artifact_scan *s, struct err *e)
{
	if (s->kind == TAR_LONG_NAME) {
		s->has_name = true;
		return tar_long_name(s->raw, s->raw_len, s->name, e);
	}
	s->has_name = false;
	return s->entry.is_directory ? 0 : note_file(s, e);
}

static int begin_entry(struct artifact_scan *s, struct err *e)
{
	int kind = tar_judge(s->block, s->has_name ? s->name : NULL, &s->entry, e);

	s->have = 0;
	if (kind < 0)
		return kind;
	if (kind == TAR_END) {
		s->is_over = true;
		return 0;
	}
	s->nentries += kind == TAR_ENTRY;
	if (s->nentries > ARTIFACT_ENTRIES_MAX)
		return err_set(e, E2BIG, "more than %d files and directories",
			       ARTIFACT_ENTRIES_MAX);
	if (s->entry.size > s->allowed)
		return err_set(e, EFBIG, "'%.150s' is more than may come", s->entry.path);
	s->kind = (enum tar_kind)kind;
	s->left = s->entry.size;
	s->fill = tar_fill(s->entry.size);
	s->raw_len = 0;
	return s->left ? 0 : finish_entry(s, e);
}

static size_t least(uint64_t a, size_t b)
{
	return a < b ? (size_t)a : b;
}

/* Takes what belongs together out of @p. Gives how much, or -code. */
static ssize_t take(struct artifact_scan *s, const uint8_t *p, size_t len, struct err *e)
{
	size_t n;

	if (s->left) {
		n = least(s->left, len);
		if (s->kind == TAR_LONG_NAME) /* tar_judge() bounds its size */
			memcpy(s->raw + s->raw_len, p, n);
		else
			digest_add(s->digest, p, n);
		s->raw_len += s->kind == TAR_LONG_NAME ? n : 0;
		s->left -= n;
		return s->left == 0 && finish_entry(s, e) < 0 ? -e->code : (ssize_t)n;
	}
	if (s->fill) {
		n = least(s->fill, len);
		s->fill -= n;
		return (ssize_t)n;
	}
	n = least(TAR_BLOCK - s->have, len);
	memcpy(s->block + s->have, p, n);
	s->have += n;
	return s->have == TAR_BLOCK && begin_entry(s, e) < 0 ? -e->code : (ssize_t)n;
}

int artifact_scan_add(struct artifact_scan *s, const void *buf, size_t len, struct err *e)
{
	const uint8_t *p = buf;

	if (len > s->allowed)
		return err_set(e, EFBIG, "the stream is more than may come");
	while (len > 0 && !s->is_over) {
		ssize_t n = take(s, p, len, e);
		if (n < 0)
			return (int)n;
		p += n;
		len -= (size_t)n;
		s->allowed -= (size_t)n;
	}
	s->allowed -= len;
	for (; len > 0; len--)
		if (*p++)
			return err_set(e, EINVAL, "tar: bytes behind the end");
	return 0;
}

int artifact_scan_end(struct artifact_scan *s, struct err *e)
{
	if (!s->is_over && (s->have || s->left || s->fill || s->has_name))
		return err_set(e, EINVAL, "tar: cut off");
	return s->nentries ? 0 : err_set(e, EINVAL, "tar: the stream is empty");
}

json_t *artifact_scan_files(const struct artifact_scan *s)
{
	return s->files;
}

char *artifact_scan_sums(const struct artifact_scan *s, size_t *ret_len)
{
	char *text = malloc(s->sums_len + 1), *at = text;
	size_t i;
	const json_t *f;

	if (!text)
		return NULL;
	*at = '\0';
	json_array_foreach(s->files, i, f)
		at += sprintf(at, "%s  %s\n", json_string_value(json_object_get(f, "sha256")),
			      json_string_value(json_object_get(f, "path")));
	*ret_len = (size_t)(at - text);
	return text;
}
