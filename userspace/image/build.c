/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of a build: lock, look whether the recipe was built before, sweep,
 * assemble, furnish, settle, pack, adopt, name. The recipes say what goes in; the
 * store says where it goes.
 */
#include "image/build.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/scope.h"
#include "digest/digest.h"
#include "image/spawn.h"
#include "image/tree.h"

static const char MKFS[] = "/usr/bin/mkfs.erofs";
static const char PACK_OPTIONS[] = "erofs lz4 1"; /* part of every recipe's text */
static const char NO_UUID[] = "00000000-0000-0000-0000-000000000000";

enum { RECIPE_DIGITS = 32 };

/* "NAME-<32 hex>.recipe" of everything that decides the image's bytes. */
static int recipe_file(const struct recipe *recipe, char ret[NAME_MAX + 1], struct err *e)
{
	autofree char *text = NULL;
	autofree char *whole = NULL;
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];

	if (recipe->describe(&text, e) < 0)
		return -e->code;
	int len = asprintf(&whole, "%s%s\n", text, PACK_OPTIONS);
	if (len < 0)
		return err_set(e, ENOMEM, "out of memory");
	digest_sha256(whole, (size_t)len, digest);
	digest_hex(digest, sizeof(digest), hex);
	snprintf(ret, NAME_MAX + 1, "%s-%.*s.recipe", recipe->name, RECIPE_DIGITS, hex);
	return 0;
}

/* True when the recipe's image is there and its bytes are right. */
static bool have_built(const struct store *s, const char *recipe, struct store_image *ret_image)
{
	struct store_image image;
	char hex[IMAGE_HEX_SIZE], file[IMAGE_HEX_SIZE + 8];
	struct stat st;
	struct err ignored;

	if (store_pointed(s, recipe, image.hex, &ignored) < 0 ||
	    store_hash(s, image.hex, hex, &ignored) < 0 || strcmp(hex, image.hex) != 0)
		return false;
	snprintf(file, sizeof(file), "%s.erofs", hex);
	if (fstatat(s->dirfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	image.size_bytes = (uint64_t)st.st_size;
	image.made = st.st_mtime;
	*ret_image = image;
	return true;
}

static int check_room(const struct store *s, uint64_t needs_bytes, struct err *e)
{
	struct statvfs v;

	if (fstatvfs(s->dirfd, &v) < 0)
		return err_set(e, errno, "statfs '%s': %s", s->path, strerror(errno));
	uint64_t have = (uint64_t)v.f_bavail * v.f_frsize;
	if (have < needs_bytes)
		return err_set(e, ENOSPC, "'%s' has %" PRIu64 " MiB free, the build needs %" PRIu64,
			       s->path, have >> 20, needs_bytes >> 20);
	return 0;
}

static int pack(const struct store *s, const char *temp, const char *root, time_t epoch,
		struct store_image *ret_image, struct err *e)
{
	char file[PATH_MAX], path[2 * PATH_MAX], time[64];

	snprintf(file, sizeof(file), "%s/image.erofs", temp);
	snprintf(path, sizeof(path), "%s/%s", s->path, file);
	/* Not -T: that would give every file the same time. */
	snprintf(time, sizeof(time), "SOURCE_DATE_EPOCH=%lld", (long long)epoch);
	const char *const argv[] = { MKFS, "--quiet", "-zlz4", "-U", NO_UUID, path, root, NULL };
	const char *const env[] = { time, NULL };
	const struct spawn sp = { .argv = argv, .env = env };
	if (spawn_run(&sp, NULL, e) < 0)
		return -e->code;
	return store_adopt(s, file, ret_image, e);
}

int build_tree(const struct store *s, const char *temp, char ret_root[PATH_MAX], struct err *e)
{
	int n = snprintf(ret_root, PATH_MAX, "%s/%s/root", s->path, temp);

	if (n < 0 || n >= PATH_MAX)
		return err_set(e, ENAMETOOLONG, "image store: path too long");
	if (mkdir(ret_root, 0755) < 0 && errno != EEXIST)
		return err_set(e, errno, "make '%s': %s", ret_root, strerror(errno));
	return 0;
}

int build_finish(const struct store *s, const char *temp, time_t start,
		 void (*on_line)(const char *line, void *arg), void *arg,
		 struct store_image *ret_image, struct err *e)
{
	char root[PATH_MAX];
	time_t epoch;
	int r = build_tree(s, temp, root, e);

	if (r == 0)
		r = tree_furnish(root, e);
	if (r == 0)
		r = tree_settle(root, start, &epoch, e);
	if (r < 0)
		return r;
	if (on_line)
		on_line("packing", arg);
	return pack(s, temp, root, epoch, ret_image, e);
}

static int make(const struct store *s, const struct recipe *recipe, const char *temp,
		void (*on_line)(const char *line, void *arg), void *arg,
		struct store_image *ret_image, struct err *e)
{
	char root[PATH_MAX];
	time_t start = time(NULL);
	int r = build_tree(s, temp, root, e);

	if (r == 0)
		r = recipe->assemble(root, on_line, arg, e);
	return r < 0 ? r : build_finish(s, temp, start, on_line, arg, ret_image, e);
}

static int build_locked(const struct store *s, const struct recipe *recipe, const char *built,
			void (*on_line)(const char *line, void *arg), void *arg, struct build *ret,
			struct err *e)
{
	char temp[STORE_TEMP_SIZE];
	struct err ignored;

	ret->is_cached = have_built(s, built, &ret->image);
	if (ret->is_cached)
		return 0;
	if (check_room(s, recipe->needs_bytes, e) < 0 ||
	    store_temp_dir(s, recipe->name, temp, e) < 0)
		return -e->code;
	int r = make(s, recipe, temp, on_line, arg, &ret->image, e);
	tree_remove(s->path, temp, &ignored);
	return r < 0 ? r : store_point(s, built, ret->image.hex, e);
}

int build_begin(const struct store *s, const char *kind,
		void (*on_line)(const char *line, void *arg), void *arg, struct err *e)
{
	autoclose int lock = store_lock(s, kind, false, e);

	if (lock == -EWOULDBLOCK) {
		if (on_line)
			on_line("waiting for another one of it", arg);
		lock = store_lock(s, kind, true, e);
	}
	if (lock < 0)
		return lock;
	if (store_sweep_kind(s, kind, e) < 0 || store_sweep(s, e) < 0)
		return -e->code;
	return take_fd(&lock);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int build_recipe(const struct store *s, const struct recipe *recipe,
		 void (*on_line)(const char *line, void *arg), void *arg, struct build *ret,
		 struct err *e)
{
	char built[NAME_MAX + 1], ref[IMAGE_NAME_MAX + 8];
	double start = now_s();
	struct build b = { .is_cached = false };
	autoclose int lock = build_begin(s, recipe->name, on_line, arg, e);

	if (lock < 0 || recipe_file(recipe, built, e) < 0)
		return err_wrap(e, recipe->name);
	if (build_locked(s, recipe, built, on_line, arg, &b, e) < 0)
		return err_wrap(e, recipe->name);
	snprintf(ref, sizeof(ref), "%s.ref", recipe->name);
	if (store_point(s, ref, b.image.hex, e) < 0)
		return -e->code;
	b.seconds = now_s() - start;
	*ret = b;
	return 0;
}
