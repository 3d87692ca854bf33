/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's changes. Every one happens under the lock of one file, in an
 * order that a kill can cut anywhere: contents first, then the manifest that
 * names them, then the catalog that names the manifest. What is cut off is
 * named by nothing, and collected.
 *
 * A version that was removed stays until nobody holds its manifest's lock (a
 * view of a running job does) and for RETENTION_S beyond, which covers the
 * moment in which a restarted server has not yet taken that lock again.
 */
#include "depot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "digest/digest.h"

enum { RETENTION_S = 600, SYNC_EACH_MAX = 64 };

static const char room_prefix[] = "room.";

/* --- Directories */

static int lock_store(const struct depot *d, struct err *e)
{
	autoclose int fd =
		openat(d->store.dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);

	if (fd < 0)
		return err_set(e, errno, "open 'lock': %s", strerror(errno));
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "lock: %s", strerror(errno));
	return take_fd(&fd);
}

static int make_dir(int dirfd, const char *name, struct err *e)
{
	if (mkdirat(dirfd, name, 02750) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", name, strerror(errno));
	return 0;
}

struct visit {
	const struct depot *depot;
	int dir;
	void *arg;
	int count;
};

/* Calls @each for every name in the directory that begins with @prefix. */
static int for_each(int dirfd, const char *path, const char *prefix,
		    int (*each)(struct visit *v, const char *name, struct err *e), struct visit *v,
		    struct err *e)
{
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int rc = 0;

	if (!d)
		return err_set(e, errno, "open '%s': %s", path, strerror(errno));
	v->dir = take_fd(&fd);
	while (rc == 0 && (entry = readdir(d)))
		if (entry->d_name[0] != '.' &&
		    strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			rc = each(v, entry->d_name, e);
	closedir(d);
	return rc;
}

static int remove_file(struct visit *v, const char *name, struct err *e)
{
	if (unlinkat(v->dir, name, 0) < 0 && errno != ENOENT)
		return err_set(e, errno, "remove '%s': %s", name, strerror(errno));
	v->count++;
	return 0;
}

static int remove_room(const struct depot *d, const char *name, struct err *e)
{
	struct visit v = { .depot = d };
	int rc = for_each(d->store.dir, name, "", remove_file, &v, e);

	if (rc == 0 && unlinkat(d->store.dir, name, AT_REMOVEDIR) < 0)
		rc = err_set(e, errno, "remove '%s': %s", name, strerror(errno));
	return rc;
}

static int remove_stale_room(struct visit *v, const char *name, struct err *e)
{
	autoclose int fd = openat(v->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0; /* its owner lives, or has just removed it */
	v->count++;
	return remove_room(v->depot, name, e);
}

/* Under the store's lock: a room is made and locked under it too. */
static int remove_stale_rooms(struct depot *d, struct err *e)
{
	autoclose int lock = lock_store(d, e);
	struct visit v = { .depot = d };
	int rc = lock < 0 ? lock :
			    for_each(d->store.dir, ".", room_prefix, remove_stale_room, &v, e);

	d->wants_collect = v.count > 0;
	return rc;
}

int depot_open(int dirfd, const char *path, struct depot *ret, struct err *e)
{
	static const char *const parts[] = { "manifests", "blobs", "leaves" };
	int rc = make_dir(dirfd, path, e);
	autoclose int dir = rc < 0 ? -1 : openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (rc == 0 && dir < 0)
		rc = err_set(e, errno, "open '%s': %s", path, strerror(errno));
	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(parts); i++)
		rc = make_dir(dir, parts[i], e);
	if (rc == 0)
		rc = skill_store_open(dirfd, path, &ret->store, e);
	if (rc < 0)
		return rc;
	rc = remove_stale_rooms(ret, e);
	if (rc < 0)
		depot_close(ret);
	return rc;
}

void depot_close(struct depot *d)
{
	skill_store_close(&d->store);
}

int depot_room_open(const struct depot *d, struct depot_room *ret, struct err *e)
{
	struct depot_room r = { .dir = -1 };
	uint8_t random[8];
	char hex[2 * sizeof(random) + 1];
	autoclose int lock = lock_store(d, e);

	if (lock < 0)
		return lock;
	if (digest_random(random, sizeof(random)) < 0)
		return err_set(e, EIO, "no random bytes");
	digest_hex(random, sizeof(random), hex);
	snprintf(r.name, sizeof(r.name), "%s%s", room_prefix, hex);
	if (mkdirat(d->store.dir, r.name, 0700) < 0)
		return err_set(e, errno, "mkdir '%s': %s", r.name, strerror(errno));
	r.dir = openat(d->store.dir, r.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r.dir < 0 || flock(r.dir, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, errno, "lock '%s': %s", r.name, strerror(errno));
	*ret = r;
	return 0;
}

void depot_room_close(const struct depot *d, struct depot_room *r)
{
	struct err e;

	if (r->dir < 0)
		return;
	if (remove_room(d, r->name, &e) < 0)
		log_error("skills_room", "%s", e.msg);
	close(r->dir);
	r->dir = -1;
}

/* --- The catalog */

static int replace_catalog(const struct depot *d, const struct catalog *c,
			   const struct catalog_entry *add,
			   bool (*drop)(const struct catalog_entry *, void *), void *arg,
			   struct err *e)
{
	autofree char *text = NULL;
	size_t len;
	int rc = catalog_render(c, add, drop, arg, &text, &len, e);

	if (rc == 0)
		rc = fault_step("depot.catalog", e);
	if (rc == 0)
		rc = fd_replace_file(d->store.dir, "catalog", text, len, 0640, e);
	if (rc == 0)
		rc = fault_step("depot.named", e);
	if (rc == 0 && fsync(d->store.dir) < 0)
		rc = err_set(e, errno, "sync: %s", strerror(errno));
	return rc;
}

/* --- Commit */

static int directory_of(const struct depot *d, char kind)
{
	return kind == 'b' ? d->store.blobs : kind == 'l' ? d->store.leaves : d->store.manifests;
}

/* Contents overwrite their namesakes: the bytes are the same, or the old ones are damaged. */
static int place_file(struct visit *v, const char *name, struct err *e)
{
	if (renameat(v->dir, name, directory_of(v->depot, name[0]), name + 2) < 0)
		return err_set(e, errno, "place '%s': %s", name, strerror(errno));
	return 0;
}

static int sync_file(struct visit *v, const char *name, struct err *e)
{
	autoclose int fd = openat(v->dir, name, O_RDONLY | O_CLOEXEC);

	if (++v->count > SYNC_EACH_MAX)
		return 0;
	if (fd < 0 || fsync(fd) < 0)
		return err_set(e, errno, "sync '%s': %s", name, strerror(errno));
	return 0;
}

/* Few files one by one; many with one call, although that one waits for strangers' writes too. */
static int sync_room(const struct depot *d, const struct depot_room *r, struct err *e)
{
	struct visit v = { .depot = d };
	int rc = for_each(r->dir, ".", "", sync_file, &v, e);

	if (rc == 0 && v.count > SYNC_EACH_MAX && syncfs(r->dir) < 0)
		rc = err_set(e, errno, "sync: %s", strerror(errno));
	return rc;
}

static int place_room(const struct depot *d, const struct depot_room *r, struct err *e)
{
	static const char *const order[] = { "b.", "l.", "m." };
	const int dirs[] = { d->store.blobs, d->store.leaves, d->store.manifests };
	struct visit v = { .depot = d };
	int rc = sync_room(d, r, e);

	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(order); i++) {
		rc = fault_step("depot.place", e);
		if (rc == 0)
			rc = for_each(r->dir, ".", order[i], place_file, &v, e);
		if (rc == 0 && fsync(dirs[i]) < 0)
			rc = err_set(e, errno, "sync: %s", strerror(errno));
	}
	return rc;
}

int depot_commit(struct depot *d, const struct depot_room *r, const char *slug,
		 const uint8_t digest[SKILL_SHA], struct err *e)
{
	autoclose int lock = lock_store(d, e);
	auto_(catalog) c = NULL;
	struct catalog_entry add = { .slug = slug, .added_s = (uint64_t)time(NULL) };
	int rc = lock < 0 ? lock : skill_store_catalog(&d->store, &c, e);

	if (rc < 0)
		return rc;
	memcpy(add.digest, digest, SKILL_SHA);
	const struct catalog_entry *clash = catalog_find_clash(c, slug);
	if (clash)
		return err_set(e, EEXIST, "slug '%s' differs from '%s' in case alone", slug,
			       clash->slug);
	for (size_t i = 0; i < c->n; i++) /* a clock set back must not put versions out of order */
		if (strcmp(c->entries[i].slug, slug) == 0 && c->entries[i].added_s > add.added_s)
			add.added_s = c->entries[i].added_s;
	rc = place_room(d, r, e);
	if (rc == 0)
		rc = replace_catalog(d, c, &add, NULL, NULL, e);
	d->wants_collect |= rc < 0;
	return rc;
}

/* --- Removal */

struct wanted {
	const char *slug;
	const uint8_t *digest; /* NULL: every version */
};

static bool is_wanted(const struct catalog_entry *entry, void *arg)
{
	const struct wanted *w = arg;

	return strcmp(entry->slug, w->slug) == 0 &&
	       (!w->digest || memcmp(entry->digest, w->digest, SKILL_SHA) == 0);
}

/* The retention of what goes begins now. */
static void touch_manifests(const struct depot *d, const struct catalog *c, struct wanted *w)
{
	char hex[DIGEST_HEX_MAX];

	for (size_t i = 0; i < c->n; i++) {
		if (!is_wanted(&c->entries[i], w))
			continue;
		digest_hex(c->entries[i].digest, SKILL_SHA, hex);
		utimensat(d->store.manifests, hex, NULL, AT_SYMLINK_NOFOLLOW);
	}
}

int depot_remove(const struct depot *d, const char *slug, const uint8_t *digest_or_null,
		 struct err *e)
{
	autoclose int lock = lock_store(d, e);
	auto_(catalog) c = NULL;
	struct wanted w = { slug, digest_or_null };
	int rc = lock < 0 ? lock : skill_store_catalog(&d->store, &c, e);

	if (rc < 0)
		return rc;
	if (digest_or_null ? !catalog_find_version(c, slug, digest_or_null) :
			     !catalog_find(c, slug))
		return err_set(e, ENOENT, "no skill '%s'%s", slug,
			       digest_or_null ? " of this version" : "");
	touch_manifests(d, c, &w);
	return replace_catalog(d, c, NULL, is_wanted, &w, e);
}

/* --- Collection */

struct name_set {
	uint8_t (*digests)[SKILL_SHA];
	size_t n, cap;
};

static int compare_digests(const void *a, const void *b)
{
	return memcmp(a, b, SKILL_SHA);
}

static int set_add(struct name_set *s, const uint8_t digest[SKILL_SHA], struct err *e)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 1024;
		void *more = realloc(s->digests, cap * SKILL_SHA);
		if (!more)
			return err_set(e, ENOMEM, "collect: out of memory");
		s->digests = more;
		s->cap = cap;
	}
	memcpy(s->digests[s->n++], digest, SKILL_SHA);
	return 0;
}

static bool set_has(const struct name_set *s, const char *hex)
{
	uint8_t digest[SKILL_SHA];

	/* A name that is no digest is not ours to judge. */
	return digest_unhex(hex, digest, SKILL_SHA) < 0 ||
	       (s->n > 0 && bsearch(digest, s->digests, s->n, SKILL_SHA, compare_digests));
}

static int drop_manifest(struct visit *v, const char *name, struct err *e)
{
	autoclose int fd = -1;
	struct stat st;

	if (set_has(v->arg, name))
		return 0;
	fd = openat(v->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_mtime + RETENTION_S > time(NULL) ||
	    flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	return remove_file(v, name, e);
}

static int drop_unnamed(struct visit *v, const char *name, struct err *e)
{
	return set_has(v->arg, name) ? 0 : remove_file(v, name, e);
}

struct named {
	struct name_set blobs, leaves;
};

static int note_contents(struct visit *v, const char *name, struct err *e)
{
	struct named *named = v->arg;
	auto_(skill_image) image = NULL;
	uint8_t digest[SKILL_SHA];
	int rc = 0;

	if (digest_unhex(name, digest, SKILL_SHA) < 0)
		return 0;
	if (skill_store_image(&v->depot->store, digest, &image, e) < 0)
		return err_wrap(e, name);
	for (uint32_t i = 0; rc == 0 && i < image->nfiles; i++) {
		rc = set_add(&named->blobs, image->digests[i].sha256, e);
		if (rc == 0)
			rc = set_add(&named->leaves, image->digests[i].leaves, e);
	}
	return rc;
}

/* A manifest that cannot be read may name anything: then no content is removed. */
static int collect_contents(const struct depot *d, int *count, struct err *e)
{
	struct named named = { 0 };
	struct visit v = { .depot = d, .arg = &named };
	int rc = for_each(d->store.manifests, ".", "", note_contents, &v, e);

	/* qsort() takes no NULL, not even of nothing: a store may hold small files alone. */
	if (rc == 0 && named.blobs.n > 0)
		qsort(named.blobs.digests, named.blobs.n, SKILL_SHA, compare_digests);
	if (rc == 0 && named.leaves.n > 0)
		qsort(named.leaves.digests, named.leaves.n, SKILL_SHA, compare_digests);
	v.arg = &named.blobs;
	if (rc == 0)
		rc = for_each(d->store.blobs, ".", "", drop_unnamed, &v, e);
	v.arg = &named.leaves;
	if (rc == 0)
		rc = for_each(d->store.leaves, ".", "", drop_unnamed, &v, e);
	*count += v.count;
	free(named.blobs.digests);
	free(named.leaves.digests);
	return rc;
}

int depot_collect(struct depot *d, struct err *e)
{
	autoclose int lock = lock_store(d, e);
	auto_(catalog) c = NULL;
	struct name_set kept = { 0 };
	struct visit v = { .depot = d, .arg = &kept };
	int rc = lock < 0 ? lock : skill_store_catalog(&d->store, &c, e), count = 0;

	for (size_t i = 0; rc == 0 && i < c->n; i++)
		rc = set_add(&kept, c->entries[i].digest, e);
	if (rc == 0 && kept.n > 0)
		qsort(kept.digests, kept.n, SKILL_SHA, compare_digests);
	if (rc == 0)
		rc = for_each(d->store.manifests, ".", "", drop_manifest, &v, e);
	free(kept.digests);
	count = v.count;
	if (rc == 0 && (count > 0 || d->wants_collect))
		rc = collect_contents(d, &count, e);
	if (rc == 0)
		d->wants_collect = false;
	return rc < 0 ? rc : count;
}
