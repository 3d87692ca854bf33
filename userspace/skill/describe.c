/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, verifies and puts into words. Decides nothing about who may ask. */
#include "skill/describe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/scope.h"
#include "digest/base64.h"
#include "digest/digest.h"
#include "json/json.h"
#include "skill/frontmatter.h"

enum { FAULT_MAX = 160 };

/* The first chunks of a file; NULL with *e set. */
static char *read_chunks(const struct skill_store *s, const struct skill_image *image,
			 uint32_t node, uint64_t chunks, size_t *ret_len, struct err *e)
{
	const struct skill_node *n = &image->nodes[node];
	autofree char *buf = malloc((chunks + 1) * SKILL_CHUNK);
	struct skill_file file;

	if (!buf) {
		err_set(e, ENOMEM, "out of memory");
		return NULL;
	}
	if (skill_file_open(s, &image->digests[n->content], n->size, &file, e) < 0)
		return NULL;
	long len = skill_file_read(&file, 0, chunks, (uint8_t *)buf, e);
	skill_file_close(&file);
	if (len < 0)
		return NULL;
	*ret_len = (size_t)len;
	return take_ptr(buf);
}

/* What the front matter says; where it cannot be read, @fault says why. */
static void read_front_matter(const struct skill_store *s, const struct skill_image *image,
			      struct front_matter *ret, char fault[FAULT_MAX])
{
	long node = skill_image_find(image, "SKILL.md", 8);
	uint32_t line = 0;
	size_t len = 0;
	struct err e;

	if (node <= 0 || image->nodes[node].kind != SKILL_FILE)
		return;
	autofree char *text =
		read_chunks(s, image, (uint32_t)node, FRONT_MATTER_MAX / SKILL_CHUNK, &len, &e);
	const char *words = text ? front_matter_read(text, len, ret, &line) : NULL;
	if (!text)
		snprintf(fault, FAULT_MAX, "SKILL.md: %.140s", e.msg);
	else if (words)
		snprintf(fault, FAULT_MAX, "SKILL.md line %u: %s", line, words);
}

static void add_optional(json_t *o, const char *key, const char *text)
{
	json_add_text(o, key, text[0] ? text : NULL);
}

static void add_time(json_t *o, uint64_t at_s)
{
	char text[32];
	time_t t = (time_t)at_s;
	struct tm tm;

	if (gmtime_r(&t, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		json_add_text(o, "added", text);
}

static json_t *list_entries(const struct skill_image *image)
{
	char path[SKILL_PATH_MAX + 1], hex[DIGEST_HEX_MAX], escaped[SKILL_ESCAPED_MAX + 1];
	json_t *all = json_array();

	for (uint32_t i = 1; i < image->nnodes; i++) {
		const struct skill_node *n = &image->nodes[i];
		if (n->kind == SKILL_DIR)
			continue;
		json_t *o = json_object();
		size_t len = skill_image_path(image, i, path);
		path[len] = '\0';
		/* Names are bytes: those that are not UTF-8 come in their escaped form. */
		if (json_add_text(o, "path", path) < 0) {
			escaped[skill_escape(path, len, escaped, SKILL_ESCAPED_MAX)] = '\0';
			json_add_text(o, "escapedPath", escaped);
		}
		json_add_u64(o, "size", n->size);
		if (n->kind == SKILL_LINK) {
			json_object_set_new(o, "link", json_stringn(image->text + n->content, n->size));
		} else {
			digest_hex(image->digests[n->content].sha256, SKILL_SHA, hex);
			json_add_text(o, "sha256", hex);
			json_add_text(o, "mode", n->is_exec ? "0755" : "0644");
		}
		json_array_append_new(all, o);
	}
	return all;
}

json_t *skill_describe(const struct skill_store *s, const struct catalog_entry *entry,
		       bool with_entries)
{
	char named[7 + DIGEST_HEX_MAX] = "sha256:", fault[FAULT_MAX] = "";
	auto_(skill_image) image = NULL;
	struct front_matter fm = { 0 };
	json_t *o = json_object();
	struct err e;

	digest_hex(entry->digest, SKILL_SHA, named + 7);
	json_add_text(o, "slug", entry->slug);
	json_add_text(o, "digest", named);
	json_object_set_new(o, "current", json_boolean(entry->is_current));
	add_time(o, entry->added_s);
	if (skill_store_image(s, entry->digest, &image, &e) < 0)
		snprintf(fault, sizeof(fault), "%.150s", e.msg);
	else
		read_front_matter(s, image, &fm, fault);
	json_add_u64(o, "files", image ? image->nfiles : 0);
	json_add_u64(o, "bytes", image ? image->file_bytes : 0);
	add_optional(o, "name", fm.name);
	add_optional(o, "description", fm.description);
	add_optional(o, "license", fm.license);
	add_optional(o, "compatibility", fm.compatibility);
	add_optional(o, "version", fm.version);
	add_optional(o, "allowedTools", fm.allowed_tools);
	json_object_set_new(o, "requiresExecution", json_boolean(fm.requires_execution));
	add_optional(o, "fault", fault);
	if (with_entries)
		json_object_set_new(o, "entries", image ? list_entries(image) : json_array());
	return o;
}

json_t *skill_describe_all(const struct skill_store *s, const struct catalog *c, bool wants_all)
{
	json_t *all = json_array();

	for (size_t i = 0; i < c->n; i++)
		if (wants_all || c->entries[i].is_current)
			json_array_append_new(all, skill_describe(s, &c->entries[i], false));
	return all;
}

int skill_find_file(const struct skill_store *s, const struct catalog *c, const char *slug,
		    const char *path, struct skill_image **ret, uint32_t *ret_node, struct err *e)
{
	const char *fault = skill_slug_fault(slug, strlen(slug));
	auto_(skill_image) image = NULL;
	char shown[160];

	if (!fault)
		fault = skill_path_fault(path, strlen(path));
	skill_show(path, strlen(path), shown, sizeof(shown));
	if (fault)
		return err_set(e, EINVAL, "unsafe path '%s': %s", shown, fault);
	const struct catalog_entry *entry = catalog_find(c, slug);
	if (!entry)
		return err_set(e, ENOENT, "no skill '%s'", slug);
	if (skill_store_image(s, entry->digest, &image, e) < 0)
		return -e->code;
	long node = skill_image_find(image, path, strlen(path));
	if (node <= 0 || image->nodes[node].kind != SKILL_FILE)
		return err_set(e, ENOENT, "no file of the skill '%s'", shown);
	*ret = take_ptr(image);
	*ret_node = (uint32_t)node;
	return 0;
}

int skill_file_to_json(const struct skill_store *s, const struct skill_image *image, uint32_t node,
		       const char *path, json_t **ret, struct err *e)
{
	const struct skill_node *n = &image->nodes[node];
	char hex[DIGEST_HEX_MAX];
	size_t len = 0;

	if (n->size > SKILL_TEXT_MAX)
		return err_set(e, EFBIG, "'%.100s' has more than %d bytes", path, SKILL_TEXT_MAX);
	autofree char *data = read_chunks(s, image, node, skill_chunks(n->size) + 1, &len, e);
	autofree char *text = data ? malloc(BASE64_MAX(len)) : NULL;
	if (!text)
		return data ? err_set(e, ENOMEM, "out of memory") : -e->code;
	json_t *o = json_object();
	digest_hex(image->digests[n->content].sha256, SKILL_SHA, hex);
	json_add_text(o, "slug", image->slug);
	json_add_text(o, "path", path);
	json_add_text(o, "sha256", hex);
	json_add_text(o, "mode", n->is_exec ? "0755" : "0644");
	json_add_u64(o, "size", n->size);
	json_t *plain = memchr(data, '\0', len) ? NULL : json_stringn(data, len);
	base64_encode(data, len, text);
	if (plain)
		json_object_set_new(o, "data", plain);
	else
		json_add_text(o, "dataB64", text);
	*ret = o;
	return 0;
}
