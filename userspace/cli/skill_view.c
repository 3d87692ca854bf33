/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon skill list, show, read, verify. `read` is the restricted reader (K5):
 * one catalogued file by slug and path, verified, and nothing else. Who may not
 * look at the store is shown the same by the plane.
 */
#include "cli/skill_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/table.h"
#include "digest/base64.h"
#include "digest/digest.h"
#include "json/json.h"
#include "skill/describe.h"
#include "skill/frontmatter.h"
#include "skill/store.h"

enum { CHUNKS_AT_ONCE = 32 };

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

enum { DESK_CLOSED = -1 };

/*
 * 0, or an exit status with the reason said, or DESK_CLOSED: the caller may not
 * look. No store is an empty catalog.
 */
static int desk_open(const struct invocation *in, struct desk *d)
{
	char path[PLACES_PATH_MAX + 16];
	struct err e;
	int status = cli_places(in, &d->places);

	if (status)
		return status;
	snprintf(path, sizeof(path), "%s/%s", d->places.state, SKILL_STORE_NAME);
	int rc = skill_store_open(AT_FDCWD, path, &d->store, &e);
	if (rc == -EACCES)
		return DESK_CLOSED;
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

const char *skill_advice(const struct places *p, bool requires_execution)
{
	return front_matter_advice(requires_execution, cli_rollout_is_on(p));
}

/* The plane is asked where the store is closed to the caller: it belongs to the plane's group. */
static int ask_plane(const struct invocation *in, const char *path, json_t **ret)
{
	return cli_call(in, "GET", path, NULL, ret);
}

static void add_advice(const struct places *p, json_t *o)
{
	json_add_text(o, "advice",
		      skill_advice(p, json_is_true(json_object_get(o, "requiresExecution"))));
}

/* --- list */

struct list_options {
	bool wants_all;
};

static const struct option list_rows[] = {
	OPTION(struct list_options, wants_all, "all", 0, OPTION_FLAG, NULL, "older versions too"),
};

static int get_list(const struct invocation *in, const struct list_options *o, json_t **ret)
{
	autodesk d = { .store = { -1, -1, -1, -1 } };
	auto_json json_t *answer = NULL;
	int status = desk_open(in, &d);

	if (status == DESK_CLOSED) {
		status = ask_plane(in, o->wants_all ? "/v1/skills?all=1" : "/v1/skills", &answer);
		*ret = json_incref(json_object_get(answer, "skills"));
	} else if (status == 0) {
		*ret = skill_describe_all(&d.store, d.catalog, o->wants_all);
	}
	for (size_t i = 0; status == 0 && i < json_array_size(*ret); i++)
		add_advice(&d.places, json_array_get(*ret, i));
	return status;
}

int skill_list(struct invocation *in)
{
	static const struct column columns[] = {
		{ "SLUG", "slug" },   { "DIGEST", "digest" }, { "CURRENT", "current" },
		{ "FILES", "files" }, { "BYTES", "bytes" },   { "DESCRIPTION", "description" },
	};
	struct list_options o = { 0 };
	auto_json json_t *all = NULL;
	int status;

	if (cli_options(in, list_rows, ARRAY_SIZE(list_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	status = get_list(in, &o, &all);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(all);
	table_print(all, columns, ARRAY_SIZE(columns));
	return 0;
}

/* --- show */

static int get_one(const struct invocation *in, const char *slug, json_t **ret)
{
	autodesk d = { .store = { -1, -1, -1, -1 } };
	char path[HTTP_PATH_MAX] = "/v1/skills/";
	struct err e;
	int status = desk_open(in, &d);

	if (status == DESK_CLOSED && http_add_part(path, slug, &e) < 0)
		return cli_refuse_options(&e);
	if (status == DESK_CLOSED) {
		status = ask_plane(in, path, ret);
	} else if (status == 0) {
		const struct catalog_entry *entry = catalog_find(d.catalog, slug);
		if (!entry)
			return unknown("skill", slug);
		*ret = skill_describe(&d.store, entry, true);
	}
	if (status == 0)
		add_advice(&d.places, *ret);
	return status;
}

int skill_show_one(struct invocation *in)
{
	static const struct column columns[] = {
		{ "MODE", "mode" }, { "SIZE", "size" }, { "PATH", "path" }, { "LINK", "link" },
	};
	auto_json json_t *o = NULL, *entries = NULL;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_want(in, 1, "SLUG", &status))
		return status;
	status = get_one(in, in->rest.argv[0], &o);
	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(o);
	entries = json_incref(json_object_get(o, "entries"));
	json_object_del(o, "entries");
	table_print_object(o);
	table_print(entries, columns, ARRAY_SIZE(columns));
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

static int print_data(const json_t *o)
{
	const json_t *plain = json_object_get(o, "data");
	const char *b64 = cli_text(o, "dataB64");
	size_t len = b64 ? strlen(b64) : 0;
	autofree uint8_t *buf = malloc(len + 1);
	struct err e;

	ssize_t n = !buf ? -ENOMEM : b64 ? base64_decode(b64, len, buf, len) : 0;
	if (n < 0 || (!b64 && !json_is_string(plain))) {
		err_set(&e, EPROTO, "the plane's answer holds no content");
		return cli_fail(STATUS_FAILED, &e);
	}
	int rc = b64 ? fd_write_all(STDOUT_FILENO, buf, (size_t)n, &e) :
		       fd_write_all(STDOUT_FILENO, json_string_value(plain), json_string_length(plain),
				    &e);
	return rc < 0 ? cli_fail(STATUS_FAILED, &e) : 0;
}

static int read_by_plane(const struct invocation *in, const char *slug, const char *file)
{
	char path[HTTP_PATH_MAX] = "/v1/skills/";
	auto_json json_t *o = NULL;
	struct err e;

	if (http_add_part(path, slug, &e) < 0 ||
	    (strcat(path, "/content?path="), http_add_part(path, file, &e)) < 0)
		return cli_refuse_options(&e);
	int status = ask_plane(in, path, &o);
	if (status)
		return status;
	return in->common.is_json ? cli_print_json(o) : print_data(o);
}

static int read_directly(const struct invocation *in, const struct desk *d, const char *slug,
			 const char *path)
{
	auto_(skill_image) image = NULL;
	auto_json json_t *o = NULL;
	uint32_t node = 0;
	struct err e;
	int rc = skill_find_file(&d->store, d->catalog, slug, path, &image, &node, &e);

	if (rc == -EINVAL)
		return cli_refuse(REASON_INVALID_REQUEST, &e);
	if (rc == 0 && in->common.is_json)
		rc = skill_file_to_json(&d->store, image, node, path, &o, &e);
	else if (rc == 0)
		rc = copy_out(d, image, node, &e);
	if (rc < 0)
		return cli_fail(STATUS_FAILED, &e);
	return o ? cli_print_json(o) : 0;
}

int skill_read(struct invocation *in)
{
	autodesk d = { .store = { -1, -1, -1, -1 } };
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_want(in, 2, "SLUG PATH", &status))
		return status;
	const char *slug = in->rest.argv[0], *path = in->rest.argv[1];
	status = desk_open(in, &d);
	if (status == DESK_CLOSED)
		return read_by_plane(in, slug, path);
	return status ? status : read_directly(in, &d, slug, path);
}

/* --- attached while the rollout is off (K7) */

void skill_warn_attached(const struct invocation *in, const char *const *slugs, size_t n)
{
	autodesk d = { .store = { -1, -1, -1, -1 } };

	if (n == 0 || cli_places(in, &d.places) != 0 || !skill_advice(&d.places, true) ||
	    desk_open(in, &d) != 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct catalog_entry *entry = catalog_find(d.catalog, slugs[i]);
		auto_json json_t *o = entry ? skill_describe(&d.store, entry, false) : NULL;
		if (json_is_true(json_object_get(o, "requiresExecution")))
			fprintf(stderr, "cordon: warning: %s: %s\n", slugs[i],
				skill_advice(&d.places, true));
	}
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
	if (status == DESK_CLOSED) {
		struct err e;
		err_set(&e, EACCES, "only who may read the store can verify it");
		return cli_refuse(REASON_CAPABILITY_DENIED, &e);
	}
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
