/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalog's text, read and written. Opens no file; who may replace it is
 * the stager's business.
 */
#include "skill/catalog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "digest/digest.h"

static const char first_line[] = "cordon-skill-catalog 1\n";

/* One line, its LF already replaced by NUL. Cuts it into words in place. */
static bool read_line(char *line, struct catalog_entry *ret)
{
	char *word[4], *rest = line, *end;

	for (size_t i = 0; i < ARRAY_SIZE(word); i++) {
		word[i] = strsep(&rest, " ");
		if (!word[i] || !*word[i])
			return false;
	}
	if (rest || skill_slug_fault(word[0], strlen(word[0])) ||
	    digest_unhex(word[1], ret->digest, SKILL_SHA) < 0)
		return false;
	if (word[2][0] < '0' || word[2][0] > '9' || strlen(word[2]) > 18)
		return false;
	ret->slug = word[0];
	ret->added_s = strtoull(word[2], &end, 10);
	ret->is_current = strcmp(word[3], "current") == 0;
	return *end == '\0' && (ret->is_current || strcmp(word[3], "kept") == 0);
}

static bool follows(const struct catalog_entry *before, const struct catalog_entry *now)
{
	int order = strcmp(before->slug, now->slug);

	return order < 0 || (order == 0 && before->added_s <= now->added_s);
}

static int read_lines(struct catalog *c, char *p, size_t lines, struct err *e)
{
	for (unsigned n = 2; *p; n++) {
		char *end = strchr(p, '\n');
		if (!end || c->n == lines)
			return err_set(e, EBADMSG, "catalog line %u: not ended", n);
		*end = '\0';
		struct catalog_entry *entry = &c->entries[c->n];
		if (!read_line(p, entry) || (c->n > 0 && !follows(entry - 1, entry)))
			return err_set(e, EBADMSG, "catalog line %u: malformed", n);
		c->n++;
		p = end + 1;
	}
	return 0;
}

int catalog_parse(const char *text, size_t len, struct catalog **ret, struct err *e)
{
	auto_(catalog) c = calloc(1, sizeof(*c));
	size_t head = strlen(first_line), lines = 0;

	if (len > CATALOG_MAX)
		return err_set(e, EBADMSG, "catalog is too long");
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	if (c) {
		c->text = malloc(len + 1);
		c->entries = calloc(lines + 1, sizeof(c->entries[0]));
	}
	if (!c || !c->text || !c->entries)
		return err_set(e, ENOMEM, "catalog: out of memory");
	memcpy(c->text, text, len);
	c->text[len] = '\0';
	if (len > 0 && (len < head || memcmp(text, first_line, head) != 0 || strlen(c->text) != len))
		return err_set(e, EBADMSG, "not a catalog of this version");
	int rc = len > 0 ? read_lines(c, c->text + head, lines, e) : 0;
	if (rc == 0)
		*ret = take_ptr(c);
	return rc;
}

void catalog_free(struct catalog *c)
{
	if (!c)
		return;
	free(c->text);
	free(c->entries);
	free(c);
}

/* The first entry whose slug is not below @slug. */
static size_t first_of(const struct catalog *c, const char *slug)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (strcmp(c->entries[mid].slug, slug) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct catalog_entry *catalog_find(const struct catalog *c, const char *slug)
{
	for (size_t i = first_of(c, slug); i < c->n && strcmp(c->entries[i].slug, slug) == 0; i++)
		if (c->entries[i].is_current)
			return &c->entries[i];
	return NULL;
}

const struct catalog_entry *catalog_find_version(const struct catalog *c, const char *slug,
						 const uint8_t digest[SKILL_SHA])
{
	for (size_t i = first_of(c, slug); i < c->n && strcmp(c->entries[i].slug, slug) == 0; i++)
		if (memcmp(c->entries[i].digest, digest, SKILL_SHA) == 0)
			return &c->entries[i];
	return NULL;
}

const struct catalog_entry *catalog_find_clash(const struct catalog *c, const char *slug)
{
	for (size_t i = 0; i < c->n; i++)
		if (skill_slug_compare(c->entries[i].slug, slug) == 0 &&
		    strcmp(c->entries[i].slug, slug) != 0)
			return &c->entries[i];
	return NULL;
}

/* Versions in their new order; @keep has room for all and one more. */
static size_t select_entries(const struct catalog *c, const struct catalog_entry *add,
			     bool (*drop)(const struct catalog_entry *, void *), void *arg,
			     struct catalog_entry *keep)
{
	size_t n = 0, at = add ? first_of(c, add->slug) : c->n;
	bool is_added = !add;

	for (size_t i = 0; i <= c->n; i++) {
		bool is_own = add && i < c->n && strcmp(c->entries[i].slug, add->slug) == 0;
		if (!is_added && i >= at && !is_own) {
			keep[n] = *add;
			keep[n++].is_current = true;
			is_added = true;
		}
		if (i == c->n || (drop && drop(&c->entries[i], arg)) ||
		    (is_own && memcmp(c->entries[i].digest, add->digest, SKILL_SHA) == 0))
			continue;
		keep[n] = c->entries[i];
		keep[n++].is_current &= !is_own;
	}
	return n;
}

/* The newest of each slug is current where no other is. */
static void settle_current(struct catalog_entry *keep, size_t n)
{
	for (size_t i = 0, has = 0; i < n; i++) {
		has |= keep[i].is_current;
		bool is_last = i + 1 == n || strcmp(keep[i].slug, keep[i + 1].slug) != 0;
		if (!is_last)
			continue;
		keep[i].is_current |= !has;
		has = 0;
	}
}

static int write_entries(const struct catalog_entry *keep, size_t n, char **ret, size_t *ret_len,
			 struct err *e)
{
	autofclose FILE *f = open_memstream(ret, ret_len);

	if (!f)
		return err_set(e, ENOMEM, "catalog: out of memory");
	fputs(first_line, f);
	for (size_t i = 0; i < n; i++) {
		char hex[DIGEST_HEX_MAX];
		digest_hex(keep[i].digest, SKILL_SHA, hex);
		fprintf(f, "%s %s %" PRIu64 " %s\n", keep[i].slug, hex, keep[i].added_s,
			keep[i].is_current ? "current" : "kept");
	}
	return ferror(f) || fflush(f) ? err_set(e, ENOMEM, "catalog: out of memory") : 0;
}

int catalog_render(const struct catalog *c, const struct catalog_entry *add,
		   bool (*drop)(const struct catalog_entry *entry, void *arg), void *arg,
		   char **ret, size_t *ret_len, struct err *e)
{
	autofree struct catalog_entry *keep = calloc(c->n + 1, sizeof(*keep));

	if (!keep)
		return err_set(e, ENOMEM, "catalog: out of memory");
	size_t n = select_entries(c, add, drop, arg, keep);
	settle_current(keep, n);
	return write_entries(keep, n, ret, ret_len, e);
}
