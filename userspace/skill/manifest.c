/* Pure: SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests, read and written. The reader accepts exactly what the writer
 * writes: every field has one spelling, so two texts are two versions.
 */
#include "skill/manifest.h"

#include <string.h>

#include "base/hex.h"

static const char first_line[] = "cordon-skill 1";

static int fault(struct manifest_reader *r, const char *words)
{
	r->fault = words;
	return -1;
}

/* One line without its LF. */
struct line {
	const char *p;
	size_t left;
};

static bool next_line(struct manifest_reader *r, struct line *ret)
{
	const char *start = r->text + r->at;
	const char *end = memchr(start, '\n', r->len - r->at);

	r->line++;
	if (!end)
		return false;
	*ret = (struct line){ .p = start, .left = (size_t)(end - start) };
	r->at += ret->left + 1;
	return true;
}

/* The next word, up to a blank that is eaten or the end of the line; never empty. */
static bool next_word(struct line *l, struct line *ret)
{
	const char *blank = memchr(l->p, ' ', l->left);
	size_t n = blank ? (size_t)(blank - l->p) : l->left;

	if (n == 0 || (blank && n + 1 == l->left))
		return false;
	*ret = (struct line){ .p = l->p, .left = n };
	l->p += blank ? n + 1 : n;
	l->left -= blank ? n + 1 : n;
	return true;
}

static bool word_is(const struct line *w, const char *text)
{
	return w->left == strlen(text) && memcmp(w->p, text, w->left) == 0;
}

static bool read_number(const struct line *w, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (w->left > 12 || (w->left > 1 && w->p[0] == '0'))
		return false;
	for (size_t i = 0; i < w->left; i++) {
		if (w->p[i] < '0' || w->p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(w->p[i] - '0');
	}
	*ret = v;
	return v <= max;
}

static bool read_sha(const struct line *w, uint8_t ret[SKILL_SHA])
{
	if (w->left != 2 * SKILL_SHA)
		return false;
	for (size_t i = 0; i < SKILL_SHA; i++) {
		int high = hex_small_value(w->p[2 * i]), low = hex_small_value(w->p[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

int manifest_begin(struct manifest_reader *r, const char *text, size_t len)
{
	struct line l, word;

	memset(r, 0, sizeof(*r));
	r->text = text;
	r->len = len;
	if (len > SKILL_MANIFEST_MAX)
		return fault(r, "too long");
	if (!next_line(r, &l) || !word_is(&l, first_line))
		return fault(r, "not a manifest of this version");
	if (!next_line(r, &l) || !next_word(&l, &word) || !word_is(&word, "slug") ||
	    skill_slug_fault(l.p, l.left))
		return fault(r, "no slug");
	memcpy(r->slug, l.p, l.left);
	return 0;
}

static int read_path(struct manifest_reader *r, struct line *l, struct skill_entry *ret)
{
	unsigned now = r->count & 1, before = !now;
	long n = skill_unescape(l->p, l->left, r->path[now], SKILL_PATH_MAX);

	if (n < 0 || skill_path_fault(r->path[now], (size_t)n))
		return fault(r, "unsafe path");
	r->path_len[now] = (size_t)n;
	if (r->count > 0 && skill_path_compare(r->path[before], r->path_len[before], r->path[now],
					       r->path_len[now]) >= 0)
		return fault(r, "paths out of order");
	ret->path = r->path[now];
	ret->path_len = (size_t)n;
	if (++r->count > SKILL_ENTRIES_MAX)
		return fault(r, "too many entries");
	return 1;
}

static int read_file(struct manifest_reader *r, struct line *l, struct skill_entry *ret)
{
	struct line word;

	ret->kind = SKILL_FILE;
	if (!next_word(l, &word) || !(word_is(&word, "644") || word_is(&word, "755")))
		return fault(r, "mode is neither 644 nor 755");
	ret->is_exec = word.p[0] == '7';
	if (!next_word(l, &word) || !read_number(&word, SKILL_FILE_MAX, &ret->size))
		return fault(r, "not a size");
	if (!next_word(l, &word) || !read_sha(&word, ret->sha256))
		return fault(r, "not a digest");
	if (!next_word(l, &word))
		return fault(r, "no digest of the chunks");
	if (ret->size > SKILL_CHUNK ? !read_sha(&word, ret->leaves) : !word_is(&word, "-"))
		return fault(r, "not the digest of the chunks");
	return read_path(r, l, ret);
}

static int read_link(struct manifest_reader *r, struct line *l, struct skill_entry *ret)
{
	struct line word;

	ret->kind = SKILL_LINK;
	if (!next_word(l, &word))
		return fault(r, "no target");
	long n = skill_unescape(word.p, word.left, r->target, SKILL_PATH_MAX);
	if (n < 0 || skill_target_fault(r->target, (size_t)n))
		return fault(r, "unsafe target");
	ret->target = r->target;
	ret->target_len = (size_t)n;
	ret->size = (uint64_t)n;
	return read_path(r, l, ret);
}

static int read_end(struct manifest_reader *r, struct line *l, struct skill_entry *ret)
{
	uint64_t count;

	(void)ret;
	if (!read_number(l, SKILL_ENTRIES_MAX, &count) || l->left == 0 || count != r->count)
		return fault(r, "wrong count at the end");
	return r->at == r->len ? 0 : fault(r, "bytes after the end");
}

static const struct {
	const char *word;
	int (*read)(struct manifest_reader *r, struct line *l, struct skill_entry *ret);
} line_kinds[] = {
	{ "file", read_file },
	{ "link", read_link },
	{ "end", read_end },
};

int manifest_next(struct manifest_reader *r, struct skill_entry *ret)
{
	struct line l, word;

	memset(ret, 0, sizeof(*ret));
	if (!next_line(r, &l) || !next_word(&l, &word))
		return fault(r, "the end is missing");
	for (size_t i = 0; i < sizeof(line_kinds) / sizeof(line_kinds[0]); i++)
		if (word_is(&word, line_kinds[i].word))
			return line_kinds[i].read(r, &l, ret);
	return fault(r, "unknown line");
}

/* --- Writing; SKILL_LINE_MAX holds the longest line there is */

static char *put_text(char *out, const char *text)
{
	size_t n = strlen(text);

	memcpy(out, text, n);
	return out + n;
}

static char *put_number(char *out, uint64_t v)
{
	char digits[20];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) != 0);
	while (n > 0)
		*out++ = digits[--n];
	return out;
}

static char *put_sha(char *out, const uint8_t sha[SKILL_SHA])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < SKILL_SHA; i++) {
		*out++ = digits[sha[i] >> 4];
		*out++ = digits[sha[i] & 15];
	}
	return out;
}

size_t manifest_write_begin(const char *slug, char *out)
{
	char *p = put_text(out, first_line);

	p = put_text(p, "\nslug ");
	p = put_text(p, slug);
	*p++ = '\n';
	return (size_t)(p - out);
}

size_t manifest_write_entry(const struct skill_entry *entry, char *out)
{
	char *p;

	if (entry->kind == SKILL_LINK) {
		p = put_text(out, "link ");
		p += skill_escape(entry->target, entry->target_len, p, SKILL_ESCAPED_MAX);
	} else {
		p = put_text(out, entry->is_exec ? "file 755 " : "file 644 ");
		p = put_number(p, entry->size);
		*p++ = ' ';
		p = put_sha(p, entry->sha256);
		*p++ = ' ';
		p = entry->size > SKILL_CHUNK ? put_sha(p, entry->leaves) : put_text(p, "-");
	}
	*p++ = ' ';
	p += skill_escape(entry->path, entry->path_len, p, SKILL_ESCAPED_MAX);
	*p++ = '\n';
	return (size_t)(p - out);
}

size_t manifest_write_end(uint32_t count, char *out)
{
	char *p = put_text(out, "end ");

	p = put_number(p, count);
	*p++ = '\n';
	return (size_t)(p - out);
}
