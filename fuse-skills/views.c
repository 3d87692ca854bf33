/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slugs to versions to a view. Nothing here waits for the server; the files
 * read are the catalog when it has changed and, at its first use, the manifest
 * of a version, which is verified before anybody is given it.
 */
#include "views.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "digest/digest.h"
#include "skill/frontmatter.h"

/* --- The catalog */

static void drop_idle_pins(struct views *v);

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int follow_catalog(struct views *v, struct err *e)
{
	struct stat st = { 0 };
	struct catalog *c = NULL;

	if (fstatat(v->store.dir, "catalog", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
		return err_set(e, errno, "catalog: %s", strerror(errno));
	if (v->catalog && is_same_file(&st, &v->read))
		return 0;
	int rc = skill_store_catalog(&v->store, &c, e);
	if (rc < 0)
		return rc;
	uint32_t *numbers = calloc(c->n + 1, sizeof(*numbers));
	if (!numbers) {
		catalog_free(c);
		return err_set(e, ENOMEM, "catalog: out of memory");
	}
	catalog_free(v->catalog);
	free(v->numbers);
	v->catalog = c;
	v->numbers = numbers;
	v->read = st;
	drop_idle_pins(v);
	return 0;
}

static bool catalog_is_fresh(const struct views *v)
{
	struct stat st;

	return v->catalog && fstatat(v->store.dir, "catalog", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       is_same_file(&st, &v->read);
}

int views_catalog(struct views *v, const struct catalog **ret, struct err *e)
{
	int rc = follow_catalog(v, e);

	*ret = v->catalog;
	return rc;
}

/* --- Versions */

static struct pin *pin_of(struct views *v, uint32_t no)
{
	return &v->pins[no % STATE_VERSIONS];
}

static void unlock(struct pin *p)
{
	close(p->fd);
	*p = (struct pin){ 0 };
}

/* Idle ones are a convenience: they make way where descriptors run out. */
static int open_manifest(struct views *v, const uint8_t digest[SKILL_SHA], struct err *e)
{
	int fd = skill_store_open_manifest(&v->store, digest, e);

	if (fd != -EMFILE)
		return fd;
	for (size_t i = 0; i < STATE_VERSIONS; i++)
		if (v->pins[i].no != 0 && v->pins[i].users == 0)
			unlock(&v->pins[i]);
	return skill_store_open_manifest(&v->store, digest, e);
}

static bool is_idle(uint32_t no, void *arg)
{
	const struct pin *p = pin_of(arg, no);

	return p->no != no || p->users == 0;
}

static int pin(struct views *v, uint32_t no, const uint8_t digest[SKILL_SHA], struct err *e)
{
	struct pin *p = pin_of(v, no);
	struct stat st;

	if (p->no == no) {
		p->users++;
		return 0;
	}
	if (p->no != 0) /* an idle one, whose row this is now */
		unlock(p);
	int fd = open_manifest(v, digest, e);
	if (fd < 0)
		return fd;
	/* The stager may hold it for the moment in which it removes it. */
	if (flock(fd, LOCK_SH) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0) {
		close(fd);
		return err_set(e, ENOENT, "the version has just been removed");
	}
	*p = (struct pin){ .no = no, .fd = fd, .users = 1 };
	return 0;
}

static bool is_catalogued(const struct views *v, uint32_t no)
{
	const struct state_version *row = &v->state->versions[no % STATE_VERSIONS];

	return catalog_find_version(v->catalog, row->slug, row->digest) != NULL;
}

/* All of @versions; what the catalog still names stays locked. */
static void unpin(struct views *v, const uint32_t *versions, uint32_t count)
{
	bool is_fresh = catalog_is_fresh(v);

	for (uint32_t i = 0; i < count; i++) {
		struct pin *p = pin_of(v, versions[i]);
		if (p->no != versions[i] || p->users == 0 || --p->users > 0)
			continue;
		if (!is_fresh || !is_catalogued(v, versions[i]))
			unlock(p);
	}
}

static void drop_idle_pins(struct views *v)
{
	for (size_t i = 0; i < state_versions_used(v->state); i++)
		if (v->pins[i].no != 0 && v->pins[i].users == 0 && !is_catalogued(v, v->pins[i].no))
			unlock(&v->pins[i]);
}

static uint32_t find_version(const struct views *v, const uint8_t digest[SKILL_SHA])
{
	for (size_t i = 0; i < state_versions_used(v->state); i++)
		if (atomic_load(&v->state->versions[i].no) != 0 &&
		    memcmp(v->state->versions[i].digest, digest, SKILL_SHA) == 0)
			return (uint32_t)v->state->versions[i].no;
	return 0;
}

/* Does its SKILL.md say that it requires execution? What cannot be read says nothing. */
static bool requires_execution(const struct views *v, const struct skill_image *image)
{
	long node = skill_image_find(image, "SKILL.md", 8);
	struct skill_file file;
	struct front_matter fm = { 0 };
	uint32_t line;
	struct err e;

	if (node <= 0 || image->nodes[node].kind != SKILL_FILE)
		return false;
	const struct skill_node *n = &image->nodes[node];
	autofree uint8_t *buf = malloc(FRONT_MATTER_MAX);
	if (!buf ||
	    skill_file_open(&v->store, &image->digests[n->content], n->size, &file, &e) < 0)
		return false;
	long len = skill_file_read(&file, 0, FRONT_MATTER_MAX / SKILL_CHUNK, buf, &e);
	skill_file_close(&file);
	if (len > 0)
		front_matter_read((const char *)buf, (size_t)len, &fm, &line);
	return fm.requires_execution;
}

static uint32_t add_version(struct views *v, const struct catalog_entry *entry, struct err *e)
{
	struct state_version row = { .added_s = entry->added_s };
	auto_(skill_image) image = NULL;

	if (skill_store_image(&v->store, entry->digest, &image, e) < 0)
		return 0;
	if (strcmp(image->slug, entry->slug) != 0) {
		err_set(e, EBADMSG, "the catalog names another skill's version");
		return 0;
	}
	memcpy(row.digest, entry->digest, SKILL_SHA);
	memcpy(row.slug, image->slug, sizeof(row.slug));
	row.requires_execution = requires_execution(v, image);
	uint32_t no = state_version_add(v->state, &row, is_idle, v);
	if (no == 0)
		err_set(e, ENOSPC, "too many versions are in use");
	return no;
}

/* What a view is asked to show. */
struct wanted {
	const char *slug;
	bool has_digest; /* this version, whatever the catalog says now */
	uint8_t digest[SKILL_SHA];
};

/* The current version of a slug; its number is remembered beside the catalog. */
static uint32_t current_version(struct views *v, struct wanted *w, struct err *e)
{
	const struct catalog_entry *entry = catalog_find(v->catalog, w->slug);

	if (!entry) {
		err_set(e, ENOENT, "no skill '%s'", w->slug);
		return 0;
	}
	uint32_t *number = &v->numbers[entry - v->catalog->entries];
	memcpy(w->digest, entry->digest, SKILL_SHA);
	if (*number == 0 || !state_version(v->state, *number))
		*number = find_version(v, entry->digest);
	if (*number == 0)
		*number = add_version(v, entry, e);
	return *number;
}

static uint32_t named_version(struct views *v, const struct wanted *w, struct err *e)
{
	const struct catalog_entry *entry = catalog_find_version(v->catalog, w->slug, w->digest);
	struct catalog_entry removed = { .slug = w->slug, .added_s = (uint64_t)time(NULL) };
	uint32_t no = find_version(v, w->digest);

	memcpy(removed.digest, w->digest, SKILL_SHA);
	if (no == 0)
		return add_version(v, entry ? entry : &removed, e);
	if (strcmp(v->state->versions[no % STATE_VERSIONS].slug, w->slug) == 0)
		return no;
	err_set(e, ENOENT, "no such version");
	return 0;
}

/* The version that is wanted, pinned. */
static uint32_t take_version(struct views *v, struct wanted *w, struct err *e)
{
	uint32_t no = w->has_digest ? named_version(v, w, e) : current_version(v, w, e);

	if (no != 0 && pin(v, no, w->digest, e) == 0)
		return no;
	if (e->code != ENOENT || w->has_digest)
		err_wrap(e, w->slug);
	return 0;
}

/* --- Views */

/* SLUG, or SLUG@HEX. */
static bool read_name(char *p, size_t len, struct wanted *ret)
{
	char *at = memchr(p, '@', len);

	*ret = (struct wanted){ .slug = p, .has_digest = at != NULL };
	if (at) {
		*at = '\0';
		len = (size_t)(at - p);
		if (digest_unhex(at + 1, ret->digest, SKILL_SHA) < 0)
			return false;
	}
	return !skill_slug_fault(p, len);
}

/* @in's names one by one: 0, or -EINVAL. */
static int read_names(struct k_view_open *in, size_t len, struct wanted *ret, struct err *e)
{
	char *p = in->slugs, *end;

	if (in->count == 0 || in->count > K_SKILLS_MAX || in->bytes > K_SLUGS_BYTES ||
	    len != offsetof(struct k_view_open, slugs) + in->bytes)
		return err_set(e, EINVAL, "malformed list of skills");
	end = in->slugs + in->bytes;
	for (uint32_t i = 0; i < in->count; i++) {
		char *nul = memchr(p, '\0', (size_t)(end - p));
		if (!nul || !read_name(p, (size_t)(nul - p), &ret[i]))
			return err_set(e, EINVAL, "malformed name of a skill");
		for (uint32_t k = 0; k < i; k++)
			if (skill_slug_compare(ret[k].slug, p) == 0)
				return err_set(e, EINVAL, "skill '%s' is named twice", p);
		p = nul + 1;
	}
	return p == end ? 0 : err_set(e, EINVAL, "malformed list of skills");
}

static const struct state_version *row_of(const struct views *v, uint32_t no)
{
	return &v->state->versions[no % STATE_VERSIONS];
}

/* In the order of their slugs, as a directory is listed. */
static void sort_versions(const struct views *v, uint32_t *versions, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i; k > 0 && strcmp(row_of(v, versions[k])->slug,
						     row_of(v, versions[k - 1])->slug) < 0; k--) {
			uint32_t other = versions[k];
			versions[k] = versions[k - 1];
			versions[k - 1] = other;
		}
}

static int take_all(struct views *v, struct wanted *wanted, uint32_t count, uint32_t *versions,
		    struct k_view *ret, struct err *e)
{
	for (uint32_t i = 0; i < count; i++) {
		versions[i] = take_version(v, &wanted[i], e);
		if (versions[i] == 0) {
			unpin(v, versions, i);
			return -e->code;
		}
		const struct state_version *row = row_of(v, versions[i]);
		memcpy(ret->skills[i].digest, row->digest, SKILL_SHA);
		ret->skills[i].requires_execution = row->requires_execution;
		ret->skills[i].pad = 0;
	}
	return 0;
}

int views_add(struct views *v, struct k_view_open *in, size_t len, struct k_view *ret,
	      struct err *e)
{
	struct wanted wanted[K_SKILLS_MAX];
	uint32_t versions[K_SKILLS_MAX];
	int rc = read_names(in, len, wanted, e);

	if (rc == 0)
		rc = follow_catalog(v, e);
	if (rc == 0)
		rc = take_all(v, wanted, in->count, versions, ret, e);
	if (rc < 0)
		return rc;
	ret->count = in->count;
	sort_versions(v, versions, in->count);
	ret->view = state_view_add(v->state, versions, in->count, (uint64_t)time(NULL));
	if (ret->view == 0) {
		unpin(v, versions, in->count);
		return err_set(e, ENOSPC, "too many views are open");
	}
	v->open++;
	return 0;
}

void views_drop(struct views *v, uint64_t view)
{
	uint32_t versions[K_SKILLS_MAX];
	int count = state_view_list(v->state, view, versions);

	if (count < 0)
		return;
	state_view_drop(v->state, view);
	unpin(v, versions, (uint32_t)count);
	v->open--;
}

void views_drop_all(struct views *v)
{
	for (size_t i = 0; i < state_views_used(v->state); i++)
		if (atomic_load(&v->state->views[i].no) != 0)
			views_drop(v, v->state->views[i].no);
}

bool views_count(struct views *v, uint64_t view, struct k_counts *ret)
{
	struct state_view *row = state_view(v->state, view);

	if (!row)
		return false;
	ret->files_looked_up = atomic_load(&row->files_looked_up);
	ret->bytes_served = atomic_load(&row->bytes_served);
	ret->corrupt = atomic_load(&row->corrupt);
	return true;
}

/* What the predecessor had open. A version whose manifest is gone goes on as far as it can. */
static void take_up(struct views *v)
{
	uint32_t versions[K_SKILLS_MAX];
	struct err e;

	for (size_t i = 0; i < state_views_used(v->state); i++) {
		uint64_t no = atomic_load(&v->state->views[i].no);
		int count = no ? state_view_list(v->state, no, versions) : -1;
		for (int k = 0; k < count; k++)
			if (pin(v, versions[k], row_of(v, versions[k])->digest, &e) < 0)
				log_error("skill_gone", "slug=%s error=\"%s\"",
					  row_of(v, versions[k])->slug, e.msg);
		v->open += count >= 0;
	}
}

int views_open(struct views *v, struct state *state, const char *path, struct err *e)
{
	int rc = skill_store_open(AT_FDCWD, path, &v->store, e);

	v->state = state;
	if (rc == 0)
		take_up(v);
	return rc;
}
