/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs print and in which order they ask. Making, keeping and hashing
 * images is store's and build's; the configuration is only rewritten by pinning.
 */
#include "image/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "image/build.h"
#include "image/import.h"
#include "image/pin.h"
#include "image/progress.h"
#include "json/json.h"

enum { REF_SIZE = 8 + IMAGE_HEX_SIZE };

int verbs_open(const struct options *o, struct image_context *ret, struct err *e)
{
	char path[PLACES_PATH_MAX];
	autofree char *text = NULL;
	size_t len;

	*ret = (struct image_context){ .options = *o, .store = { .dirfd = -1 } };
	if (places_init(o->root, &ret->places, e) < 0 ||
	    places_read_config(&ret->places, &ret->config, &text, &len, e) < 0)
		return -e->code;
	places_image_store(&ret->places, &ret->config, path);
	return store_open(o->store ? o->store : path, &ret->store, e);
}

void verbs_close(struct image_context *c)
{
	store_close(&c->store);
}

static int print_json(json_t *v, struct err *e)
{
	autofree char *text = v ? json_dump_compact(v, NULL) : NULL;

	json_decref(v);
	if (!text)
		return err_set(e, ENOMEM, "out of memory");
	return puts(text) < 0 ? err_set(e, EIO, "standard output: write error") : 0;
}

static void reference(const char *hex, char ret[REF_SIZE])
{
	snprintf(ret, REF_SIZE, "sha256:%.64s", hex);
}

static bool is_pinned(const struct image_context *c, const char *hex)
{
	char ref[REF_SIZE];

	reference(hex, ref);
	return strcmp(c->config.image, ref) == 0;
}

/* --- pinning */

static int set_key(char *text, size_t *len, const char *key, const char *value, struct err *e)
{
	char out[CONFIG_TEXT_MAX];

	*len = pin_set_key(text, *len, key, value, out, sizeof(out));
	if (*len == 0)
		return err_set(e, E2BIG, "configuration: more than %d bytes", CONFIG_TEXT_MAX);
	memcpy(text, out, *len + 1);
	return 0;
}

/* A store named on the command line is pinned with the image: it would not be found elsewhere. */
static int pin(const struct image_context *c, const char *hex, struct err *e)
{
	char ref[REF_SIZE], text[CONFIG_TEXT_MAX];
	autofree char *old = NULL;
	struct config now;
	size_t len;

	if (fd_mkdir_parents(c->places.etc, 0755, e) < 0)
		return err_wrap(e, "pin");
	autoclose int etc = open(c->places.etc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (etc < 0 || flock(etc, LOCK_EX) < 0)
		return err_set(e, errno, "lock '%s': %s", c->places.etc, strerror(errno));
	if (places_read_config(&c->places, &now, &old, &len, e) < 0)
		return err_wrap(e, "pin");
	memcpy(text, old ? old : "", len + 1);
	reference(hex, ref);
	if (set_key(text, &len, "image", ref, e) < 0)
		return -e->code;
	if (c->options.store && set_key(text, &len, "image_store", c->store.path, e) < 0)
		return -e->code;
	if (config_parse(text, len, &now, e) < 0)
		return err_wrap(e, "pin");
	return fd_replace_file(etc, strrchr(c->places.conf, '/') + 1, text, len, 0644, e);
}

/* --- build and import */

static int print_made(const struct image_context *c, const char *name, const struct build *b,
		      struct err *e)
{
	char ref[REF_SIZE];

	reference(b->image.hex, ref);
	if (c->options.json)
		return print_json(json_pack("{s:s, s:s, s:I, s:b, s:f, s:b, s:s}", "name", name,
					    "digest", ref, "bytes", (json_int_t)b->image.size_bytes,
					    "cached", b->is_cached, "seconds", b->seconds, "pinned",
					    c->options.pin, "store", c->store.path),
				  e);
	printf("%s  %s  %.1f MiB  %s %.1f s%s\n", ref, name,
	       (double)b->image.size_bytes / (1 << 20),
	       b->is_cached ? "already built, verified in" : "built in", b->seconds,
	       c->options.pin ? "  pinned" : "");
	return 0;
}

static int verb_build(const struct image_context *c, struct err *e)
{
	const char *name = c->options.name ? c->options.name : "debian";
	const struct recipe *recipe = recipe_find(name);
	struct progress progress;
	struct build b;

	if (!recipe)
		return err_set(e, EINVAL, "no recipe '%.80s' (debian, busybox)", name);
	progress_start(&progress, name);
	int r = build_recipe(&c->store, recipe, progress_line, &progress, &b, e);
	progress_end(&progress);
	if (r == 0 && c->options.pin)
		r = pin(c, b.image.hex, e);
	return r < 0 ? r : print_made(c, name, &b, e);
}

static int verb_import(const struct image_context *c, struct err *e)
{
	const char *name = c->options.name;
	struct progress progress;
	struct import made;

	if (name && (!store_name_is_valid(name) || recipe_find(name)))
		return err_set(e, EINVAL, "'%.80s' cannot name an imported image", name);
	progress_start(&progress, "import");
	int r = import_layout(&c->store, c->options.operand, name, progress_line, &progress, &made,
			      e);
	progress_end(&progress);
	if (r == 0 && c->options.pin)
		r = pin(c, made.image.hex, e);
	if (r < 0)
		return r;
	if (made.skipped)
		fprintf(stderr, "cordon: image: left out %llu devices and pipes\n",
			(unsigned long long)made.skipped);
	if (!made.has_bash)
		fputs("cordon: image: it has no /bin/bash: command strings will not run\n", stderr);
	const struct build b = { .image = made.image, .seconds = made.seconds };
	return print_made(c, name ? name : "(no name)", &b, e);
}

/* --- list */

static void names_of(const struct store_name *names, int n, const char *hex, json_t *ret)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i].hex, hex) == 0)
			json_array_append_new(ret, json_string(names[i].name));
}

static json_t *list_row(const struct image_context *c, const struct store_image *image,
			const struct store_name *names, int n_names)
{
	char ref[REF_SIZE], made[32];
	json_t *of = json_array();
	struct tm tm;

	if (!of)
		return NULL;
	reference(image->hex, ref);
	gmtime_r(&image->made, &tm);
	strftime(made, sizeof(made), "%Y-%m-%dT%H:%M:%SZ", &tm);
	names_of(names, n_names, image->hex, of);
	return json_pack("{s:s, s:o, s:I, s:s, s:b}", "digest", ref, "names", of, "bytes",
			 (json_int_t)image->size_bytes, "made", made, "pinned",
			 is_pinned(c, image->hex));
}

static void print_row(const json_t *row)
{
	const json_t *names = json_object_get(row, "names");
	size_t i;
	json_t *name;

	printf("%s  %8.1f MiB  %s ", json_string_value(json_object_get(row, "digest")),
	       (double)json_integer_value(json_object_get(row, "bytes")) / (1 << 20),
	       json_string_value(json_object_get(row, "made")));
	json_array_foreach(names, i, name) printf(" %s", json_string_value(name));
	puts(json_is_true(json_object_get(row, "pinned")) ? "  (pinned)" : "");
}

static int verb_list(const struct image_context *c, struct err *e)
{
	autofree struct store_image *images = NULL;
	autofree struct store_name *names = NULL;
	int n = store_images(&c->store, &images, e);
	int n_names = n < 0 ? n : store_names(&c->store, &names, e);

	if (n_names < 0)
		return n_names;
	json_t *rows = json_array();
	for (int i = 0; i < n; i++) {
		json_t *row = list_row(c, &images[i], names, n_names);

		if (!rows || !row || json_array_append_new(rows, row) < 0) {
			json_decref(rows);
			return err_set(e, ENOMEM, "out of memory");
		}
		if (!c->options.json)
			print_row(row);
	}
	if (c->options.json)
		return print_json(rows, e);
	json_decref(rows);
	return 0;
}

/* --- verify */

/* 0 right, 1 wrong (and said so), -code. */
static int verify_one(const struct image_context *c, const char *hex, json_t *rows, struct err *e)
{
	char actual[IMAGE_HEX_SIZE], ref[REF_SIZE], found[REF_SIZE];

	if (store_hash(&c->store, hex, actual, e) < 0)
		return -e->code;
	bool is_right = strcmp(actual, hex) == 0;
	reference(hex, ref);
	reference(actual, found);
	if (c->options.json) {
		if (json_array_append_new(rows, json_pack("{s:s, s:b, s:s}", "digest", ref, "ok",
							  is_right, "actual", found)) < 0)
			return err_set(e, ENOMEM, "out of memory");
	} else if (is_right) {
		printf("%s  ok\n", ref);
	} else {
		printf("%s  image_digest_mismatch: its bytes are %s\n", ref, found);
	}
	return is_right ? 0 : 1;
}

static int verify_all(const struct image_context *c, json_t *rows, struct err *e)
{
	autofree struct store_image *images = NULL;
	int n = store_images(&c->store, &images, e), wrong = 0;

	for (int i = 0; i < n; i++) {
		int r = verify_one(c, images[i].hex, rows, e);

		if (r < 0)
			return r;
		wrong |= r;
	}
	return n < 0 ? n : wrong;
}

static int verb_verify(const struct image_context *c, struct err *e)
{
	char hex[IMAGE_HEX_SIZE];
	auto_json json_t *rows = json_array();

	if (!rows)
		return err_set(e, ENOMEM, "out of memory");
	if (c->options.operand && store_resolve(&c->store, c->options.operand, hex, e) < 0)
		return -e->code;
	int r = c->options.operand ? verify_one(c, hex, rows, e) : verify_all(c, rows, e);
	if (r >= 0 && c->options.json && print_json(json_incref(rows), e) < 0)
		return -e->code;
	return r;
}

/* --- rm */

static int verb_rm(const struct image_context *c, struct err *e)
{
	char hex[IMAGE_HEX_SIZE], ref[REF_SIZE];

	if (store_resolve(&c->store, c->options.operand, hex, e) < 0)
		return -e->code;
	reference(hex, ref);
	if (is_pinned(c, hex))
		return err_set(e, EBUSY, "%s is the image pinned in '%s'", ref, c->places.conf);
	if (store_remove(&c->store, hex, e) < 0 || store_sweep(&c->store, e) < 0)
		return -e->code;
	if (c->options.json)
		return print_json(json_pack("{s:s}", "removed", ref), e);
	printf("%s  removed\n", ref);
	return 0;
}

int verbs_run(const struct image_context *c, struct err *e)
{
	static int (*const run[])(const struct image_context *, struct err *) = {
		[VERB_BUILD] = verb_build,   [VERB_IMPORT] = verb_import, [VERB_LIST] = verb_list,
		[VERB_VERIFY] = verb_verify, [VERB_RM] = verb_rm,
	};

	return run[c->options.verb](c, e);
}
