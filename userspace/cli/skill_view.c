/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon skill list, show, read, verify. `read` is the restricted reader (K5):
 * one catalogued file by slug and path, verified, and nothing else.
 */
#include "cli/skill_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/input.h"
#include "cli/table.h"
#include "digest/base64.h"
#include "digest/digest.h"
#include "json/json.h"
#include "skill/frontmatter.h"
#include "skill/store.h"

enum { CHUNKS_AT_ONCE = 32, READ_JSON_MAX = 64 << 20 };

/* The store and its catalog, as one of these verbs looks at them. */
struct desk {
	struct places places;
	struct skill_store store;
	struct catalog *catalog;
};

static void desk_close(struct desk *d)
{
	skill_store_close(&d->store);
	catalog_free(d->catalog);
}
#define autodesk __attribute__((cleanup(desk_close))) struct desk

/* 0, or an exit status with the reason said. No store is an empty catalog. */
static int desk_open(const struct invocation *in, struct desk *d)
{
	char path[PLACES_PATH_MAX + 16];
	struct err e;
	int status = cli_places(in, &d->places);

	if (status)
		return status;
	snprintf(path, sizeof(path), "%s/%s", d->places.state, SKILL_STORE_NAME);
	int rc = skill_store_open(AT_FDCWD, path, &d->store, &e);
	if (rc == 0)
		rc = skill_store_catalog(&d->store, &d->catalog, &e);
	else if (rc == -ENOENT)
		rc = catalog_parse("", 0, &d->catalog, &e);
	return rc < 0 ? cli_fail(STATUS_FAILED, &e) : 0;
}

static int unknown(const char *what, const char *name)
{
	char shown[160];
	struct err e;

	err_set(&e, ENOENT, "no %s '%s'", what, skill_show(name, strlen(name), shown, sizeof(shown)));
	return cli_fail(STATUS_FAILED, &e);
}

static bool rollout_is_on(const struct places *p)
{
	const char *env = getenv("CORDON_ROLLOUT");
	struct config c;
	struct err ignored;

	if (env)
		return strcmp(env, "on") == 0;
	return places_read_config(p, &c, NULL, NULL, &ignored) == 0 && c.rollout;
}

const char *skill_advice(const struct places *p, bool requires_execution)
{
	return front_matter_advice(requires_execution, rollout_is_on(p));
}

/* --- What a version says of itself */

/* The first bytes of a file, verified; NULL with *e set. */
static char *read_head(const struct desk *d, const struct skill_image *image, uint32_t node,
		       uint64_t chunks, size_t *ret_len, struct err *e)
{
	const struct skill_node *n = &image->nodes[node];
	autofree char *buf = malloc(chunks * SKILL_CHUNK + 1);
	struct skill_file file;

	if (!buf) {
		err_set(e, ENOMEM, "out of memory");
		return NULL;
	}
	if (skill_file_open(&d->store, &image->digests[n->content], n->size, &file, e) < 0)
		return NULL;
	long len = skill_file_read(&file, 0, chunks, (uint8_t *)buf, e);
	skill_file_close(&file);
	if (len < 0)
		return NULL;
	*ret_len = (size_t)len;
	return take_ptr(buf);
}

/* Gives NULL and what the front matter says, or what is wrong with it. */
static const char *read_front_matter(const struct desk *d, const struct skill_image *image,
				     struct front_matter *ret, char fault[160])
{
	long node = skill_image_find(image, "SKILL.md", 8);
	uint32_t line = 0;
	size_t len = 0;
	struct err e;

	memset(ret, 0, sizeof(*ret));
	if (node <= 0 || image->nodes[node].kind != SKILL_FILE)
		return NULL;
	autofree char *text = read_head(d, image, (uint32_t)node, FRONT_MATTER_MAX / SKILL_CHUNK, &len,
					&e);
	const char *words = text ? front_matter_read(text, len, ret, &line) : e.msg;
	if (!words)
		return NULL;
	if (text)
		snprintf(fault, 160, "SKILL.md line %u: %s", line, words);
	else
		snprintf(fault, 160, "SKILL.md: %.140s", words);
	return fault;
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

/* An object for one version; a damaged one says so in "fault". */
static json_t *describe(const struct desk *d, const struct catalog_entry *entry,
			struct skill_image **ret_image)
{
	char hex[DIGEST_HEX_MAX], named[DIGEST_HEX_MAX + 8], fault[160] = "";
	struct front_matter fm = { 0 };
	json_t *o = json_object();
	struct err e;

	digest_hex(entry->digest, SKILL_SHA, hex);
	snprintf(named, sizeof(named), "sha256:%s", hex);
	json_add_text(o, "slug", entry->slug);
	json_add_text(o, "digest", named);
	json_object_set_new(o, "current", json_boolean(entry->is_current));
	add_time(o, entry->added_s);
	if (skill_store_image(&d->store, entry->digest, ret_image, &e) < 0)
		snprintf(fault, sizeof(fault), "%.150s", e.msg);
	else
		read_front_matter(d, *ret_image, &fm, fault);
	json_add_u64(o, "files", *ret_image ? (*ret_image)->nfiles : 0);
	json_add_u64(o, "bytes", *ret_image ? (*ret_image)->file_bytes : 0);
	add_optional(o, "name", fm.name);
	add_optional(o, "description", fm.description);
	add_optional(o, "license", fm.license);
	add_optional(o, "compatibility", fm.compatibility);
	add_optional(o, "version", fm.version);
	add_optional(o, "allowedTools", fm.allowed_tools);
	json_object_set_new(o, "requiresExecution", json_boolean(fm.requires_execution));
	add_optional(o, "fault", fault);
	add_optional(o, "advice", skill_advice(&d->places, fm.requires_execution) ?: "");
	return o;
}

/* --- list */

struct list_options {
	bool wants_all;
};

static const struct option list_rows[] = {
	OPTION(struct list_options, wants_all, "all", 0, OPTION_FLAG, NULL, "older versions too"),
};

int skill_list(struct invocation *in)
{
	static const struct column columns[] = {
		{ "SLUG", "slug" },   { "DIGEST", "digest" }, { "CURRENT", "current" },
		{ "FILES", "files" }, { "BYTES", "bytes" },   { "DESCRIPTION", "description" },
	};
	struct list_options o = { 0 };
	autodesk d = { .store = { -1, -1, -1, -1 } };
	auto_json json_t *all = json_array();
	int status;

	if (cli_options(in, list_rows, ARRAY_SIZE(list_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	status = desk_open(in, &d);
	if (status)
		return status;
	for (size_t i = 0; i < d.catalog->n; i++) {
		auto_(skill_image) image = NULL;
		if (o.wants_all || d.catalog->entries[i].is_current)
			json_array_append_new(all, describe(&d, &d.catalog->entries[i], &image));
	}
	if (in->common.is_json)
		return cli_print_json(all);
	table_print(all, columns, ARRAY_SIZE(columns));
	return 0;
}

/* --- show */

static json_t *list_files(const struct skill_image *image)
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

int skill_show_one(struct invocation *in)
{
	static const struct column columns[] = {
		{ "MODE", "mode" }, { "SIZE", "size" }, { "PATH", "path" }, { "LINK", "link" },
	};
	autodesk d = { .store = { -1, -1, -1, -1 } };
	auto_(skill_image) image = NULL;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_want(in, 1, "SLUG", &status))
		return status;
	status = desk_open(in, &d);
	if (status)
		return status;
	const struct catalog_entry *entry = catalog_find(d.catalog, in->rest.argv[0]);
	if (!entry)
		return unknown("skill", in->rest.argv[0]);
	auto_json json_t *o = describe(&d, entry, &image);
	auto_json json_t *files = image ? list_files(image) : json_array();
	if (in->common.is_json) {
		json_object_set(o, "entries", files);
		return cli_print_json(o);
	}
	table_print_object(o);
	table_print(files, columns, ARRAY_SIZE(columns));
	return 0;
}

/* --- read */

/* All of a file to standard output, no byte of it before it was verified. */
static int copy_out(const struct desk *d, const struct skill_image *image, uint32_t node,
		    struct err *e)
{
	const struct skill_node *n = &image->nodes[node];
	autofree uint8_t *buf = malloc(CHUNKS_AT_ONCE * SKILL_CHUNK);
	struct skill_file file;
	int rc = buf ? skill_file_open(&d->store, &image->digests[n->content], n->size, &file, e) :
		       err_set(e, ENOMEM, "out of memory");

	if (rc < 0)
		return rc;
	for (uint64_t at = 0; rc == 0 && (at < skill_chunks(n->size) || at == 0);
	     at += CHUNKS_AT_ONCE) {
		long len = skill_file_read(&file, at, CHUNKS_AT_ONCE, buf, e);
		rc = len < 0 ? (int)len : fd_write_all(STDOUT_FILENO, buf, (size_t)len, e);
	}
	skill_file_close(&file);
	return rc;
}

static int print_as_json(const struct desk *d, const struct skill_image *image, uint32_t node,
			 const char *slug, const char *path, struct err *e)
{
	const struct skill_node *n = &image->nodes[node];
	auto_json json_t *o = json_object();
	char hex[DIGEST_HEX_MAX];
	size_t len;

	if (n->size > READ_JSON_MAX)
		return err_set(e, EFBIG, "'%s' is too large for JSON", path);
	autofree char *data = read_head(d, image, node, skill_chunks(n->size) + 1, &len, e);
	autofree char *text = data ? malloc(BASE64_MAX(len)) : NULL;
	if (!text)
		return data ? err_set(e, ENOMEM, "out of memory") : -e->code;
	digest_hex(image->digests[n->content].sha256, SKILL_SHA, hex);
	json_add_text(o, "slug", slug);
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
	return cli_print_json(o) ? err_set(e, EIO, "cannot write") : 0;
}

int skill_read(struct invocation *in)
{
	autodesk d = { .store = { -1, -1, -1, -1 } };
	auto_(skill_image) image = NULL;
	struct err e = { 0 };
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) ||
	    input_want(in, 2, "SLUG PATH", &status))
		return status;
	const char *slug = in->rest.argv[0], *path = in->rest.argv[1];
	const char *fault = skill_slug_fault(slug, strlen(slug)) ?: skill_path_fault(path, strlen(path));
	if (fault) {
		char shown[160];
		err_set(&e, EINVAL, "unsafe path '%s': %s",
			skill_show(path, strlen(path), shown, sizeof(shown)), fault);
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	}
	status = desk_open(in, &d);
	if (status)
		return status;
	const struct catalog_entry *entry = catalog_find(d.catalog, slug);
	if (!entry)
		return unknown("skill", slug);
	if (skill_store_image(&d.store, entry->digest, &image, &e) < 0)
		return cli_fail(STATUS_FAILED, &e);
	long node = skill_image_find(image, path, strlen(path));
	if (node <= 0 || image->nodes[node].kind != SKILL_FILE)
		return unknown("file of the skill", path);
	int rc = in->common.is_json ? print_as_json(&d, image, (uint32_t)node, slug, path, &e) :
				      copy_out(&d, image, (uint32_t)node, &e);
	return rc < 0 ? cli_fail(STATUS_FAILED, &e) : 0;
}

/* --- verify */

static int verify_file(const struct desk *d, const struct skill_image *image, uint32_t node,
		       uint8_t *buf, struct err *e)
{
	const struct skill_node *n = &image->nodes[node];
	struct skill_file file;
	int rc = skill_file_open(&d->store, &image->digests[n->content], n->size, &file, e);
	autofree struct digest *whole = NULL;
	uint8_t real[SKILL_SHA];

	if (rc < 0)
		return rc;
	whole = digest_new();
	if (!whole)
		rc = err_set(e, ENOMEM, "out of memory");
	for (uint64_t at = 0; rc == 0 && (at < skill_chunks(n->size) || at == 0);
	     at += CHUNKS_AT_ONCE) {
		long len = skill_file_read(&file, at, CHUNKS_AT_ONCE, buf, e);
		if (len < 0)
			rc = (int)len;
		else
			digest_add(whole, buf, (size_t)len);
	}
	skill_file_close(&file);
	if (rc < 0)
		return rc;
	digest_end(whole, real);
	return digest_equal(real, image->digests[n->content].sha256, SKILL_SHA) ?
		       0 :
		       err_set(e, EBADMSG, "the leaves are not those of the content");
}

/* Gives how many of its files are damaged; each is named. */
static int verify_version(const struct desk *d, const struct catalog_entry *entry, json_t *damaged)
{
	autofree uint8_t *buf = malloc(CHUNKS_AT_ONCE * SKILL_CHUNK);
	auto_(skill_image) image = NULL;
	char path[SKILL_PATH_MAX], shown[400];
	struct err e;
	int bad = 0;

	if (!buf || skill_store_image(&d->store, entry->digest, &image, &e) < 0) {
		json_array_append_new(damaged, json_sprintf("%s: %s", entry->slug,
							    buf ? e.msg : "out of memory"));
		return 1;
	}
	for (uint32_t i = 1; i < image->nnodes; i++) {
		if (image->nodes[i].kind != SKILL_FILE ||
		    verify_file(d, image, i, buf, &e) == 0)
			continue;
		skill_show(path, skill_image_path(image, i, path), shown, sizeof(shown));
		json_array_append_new(damaged, json_sprintf("%s/%s: %s", entry->slug, shown, e.msg));
		bad++;
	}
	return bad;
}

int skill_verify(struct invocation *in)
{
	autodesk d = { .store = { -1, -1, -1, -1 } };
	auto_json json_t *damaged = json_array(), *o = json_object();
	uint64_t versions = 0;
	int status, bad = 0;

	if (cli_options(in, NULL, 0, NULL, &status))
		return status;
	const char *slug = in->rest.argc > 0 ? in->rest.argv[0] : NULL;
	if (in->rest.argc > 1 && input_want(in, 1, "[SLUG]", &status))
		return status;
	status = desk_open(in, &d);
	if (status)
		return status;
	if (slug && !catalog_find(d.catalog, slug))
		return unknown("skill", slug);
	for (size_t i = 0; i < d.catalog->n; i++) {
		if (slug && strcmp(d.catalog->entries[i].slug, slug) != 0)
			continue;
		bad += verify_version(&d, &d.catalog->entries[i], damaged);
		versions++;
	}
	json_object_set_new(o, "ok", json_boolean(bad == 0));
	json_add_u64(o, "versions", versions);
	json_object_set(o, "damaged", damaged);
	if (in->common.is_json)
		cli_print_json(o);
	else
		printf("%llu version(s): %s\n", (unsigned long long)versions, bad ? "damaged" : "ok");
	for (size_t i = 0; i < json_array_size(damaged); i++)
		fprintf(stderr, "cordon: %s\n", json_string_value(json_array_get(damaged, i)));
	return bad ? STATUS_FAILED : 0;
}
