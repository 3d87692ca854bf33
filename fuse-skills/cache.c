/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two small tables under one lock each. A tree is loaded outside the lock, by
 * the thread that came first; others that want the same one wait for it.
 */
#include "cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"

enum {
	IMAGES = 1024,
	IMAGE_BYTES_MAX = 96 << 20,
	FILES = 64,
	LEAVES_BYTES_MAX = 16 << 20,
};

struct image_slot {
	uint64_t version; /* 0: free */
	struct skill_image *image; /* NULL: being loaded */
	unsigned users;
	uint64_t used; /* the tick of its last use */
};

struct file_slot {
	struct skill_file file; /* first: it stands for the slot; fd -1: free */
	unsigned users;
	bool is_spent; /* goes when its last user does */
	uint64_t used;
};

struct cache {
	const struct skill_store *store;
	struct state *state;
	pthread_mutex_t images_lock, files_lock;
	pthread_cond_t loaded;
	uint64_t tick;
	size_t image_bytes, leaves_bytes;
	struct image_slot images[IMAGES];
	struct file_slot files[FILES];
};

struct cache *cache_new(const struct skill_store *store, struct state *state)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->store = store;
	c->state = state;
	pthread_mutex_init(&c->images_lock, NULL);
	pthread_mutex_init(&c->files_lock, NULL);
	pthread_cond_init(&c->loaded, NULL);
	for (size_t i = 0; i < FILES; i++)
		c->files[i].file.fd = -1;
	return c;
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < IMAGES; i++)
		skill_image_free(c->images[i].image);
	for (size_t i = 0; i < FILES; i++)
		skill_file_close(&c->files[i].file);
	free(c);
}

/* --- Trees */

static void drop_image(struct cache *c, struct image_slot *s)
{
	if (s->image)
		c->image_bytes -= s->image->held_bytes;
	skill_image_free(s->image);
	*s = (struct image_slot){ 0 };
}

/* A free slot, making one out of the least recently used idle one; NULL: all in use. */
static struct image_slot *make_room(struct cache *c)
{
	for (;;) {
		struct image_slot *oldest = NULL, *unused = NULL;
		for (size_t i = 0; i < IMAGES; i++) {
			struct image_slot *s = &c->images[i];
			if (s->version == 0)
				unused = s;
			else if (s->users == 0 && (!oldest || s->used < oldest->used))
				oldest = s;
		}
		if (unused && (c->image_bytes <= IMAGE_BYTES_MAX || !oldest))
			return unused;
		if (!oldest)
			return NULL;
		drop_image(c, oldest);
	}
}

static struct image_slot *find_image(struct cache *c, uint64_t version)
{
	/* Most versions sit where their number says; the rest anywhere. */
	struct image_slot *s = &c->images[version % IMAGES];

	if (s->version == version)
		return s;
	for (size_t i = 0; i < IMAGES; i++)
		if (c->images[i].version == version)
			return &c->images[i];
	return NULL;
}

static struct image_slot *claim(struct cache *c, uint64_t version)
{
	struct image_slot *s = make_room(c), *home = &c->images[version % IMAGES];

	if (s && home->version == 0)
		s = home;
	if (s)
		*s = (struct image_slot){ .version = version, .users = 1 };
	return s;
}

static int load(struct cache *c, uint64_t version, struct skill_image **ret, struct err *e)
{
	struct state_version row;

	if (!state_version_copy(c->state, version, &row))
		return err_set(e, ESTALE, "no such version");
	return skill_store_image(c->store, row.digest, ret, e);
}

int cache_get_tree(struct cache *c, uint64_t version, struct tree *ret, struct err *e)
{
	struct skill_image *image = NULL;
	struct image_slot *s;

	pthread_mutex_lock(&c->images_lock);
	while ((s = find_image(c, version)) && !s->image)
		pthread_cond_wait(&c->loaded, &c->images_lock);
	if (s) {
		s->users++;
		s->used = ++c->tick;
		*ret = (struct tree){ s->image, s };
		pthread_mutex_unlock(&c->images_lock);
		return 0;
	}
	s = claim(c, version);
	pthread_mutex_unlock(&c->images_lock);
	if (!s)
		return err_set(e, EBUSY, "too many versions in use");
	int rc = load(c, version, &image, e);
	pthread_mutex_lock(&c->images_lock);
	if (rc == 0) {
		s->image = image;
		s->used = ++c->tick;
		c->image_bytes += image->held_bytes;
		*ret = (struct tree){ image, s };
	} else {
		*s = (struct image_slot){ 0 };
	}
	pthread_cond_broadcast(&c->loaded);
	pthread_mutex_unlock(&c->images_lock);
	return rc;
}

void cache_put_tree(struct cache *c, struct tree *t)
{
	if (!t->slot)
		return;
	pthread_mutex_lock(&c->images_lock);
	t->slot->users--;
	pthread_mutex_unlock(&c->images_lock);
	*t = (struct tree){ 0 };
}

/* --- Files */

static void drop_file(struct cache *c, struct file_slot *s)
{
	c->leaves_bytes -= s->file.leaves ? skill_chunks(s->file.size) * SKILL_SHA : 0;
	skill_file_close(&s->file);
	*s = (struct file_slot){ .file.fd = -1 };
}

static struct file_slot *find_file(struct cache *c, const uint8_t sha256[SKILL_SHA])
{
	for (size_t i = 0; i < FILES; i++)
		if (c->files[i].file.fd >= 0 && !c->files[i].is_spent &&
		    memcmp(c->files[i].file.sha256, sha256, SKILL_SHA) == 0)
			return &c->files[i];
	return NULL;
}

static struct file_slot *make_file_room(struct cache *c)
{
	for (;;) {
		struct file_slot *oldest = NULL, *unused = NULL;
		for (size_t i = 0; i < FILES; i++) {
			struct file_slot *s = &c->files[i];
			if (s->file.fd < 0)
				unused = s;
			else if (s->users == 0 && (!oldest || s->used < oldest->used))
				oldest = s;
		}
		if (unused && (c->leaves_bytes <= LEAVES_BYTES_MAX || !oldest))
			return unused;
		if (!oldest)
			return NULL;
		drop_file(c, oldest);
	}
}

static void put_file(struct cache *c, struct file_slot *s)
{
	if (--s->users == 0 && s->is_spent)
		drop_file(c, s);
}

/* The one at hand, taken; NULL where there is none, or where it has just given wrong bytes. */
static struct file_slot *take_file(struct cache *c, const uint8_t sha256[SKILL_SHA], bool fresh)
{
	struct file_slot *s = find_file(c, sha256);

	if (!s)
		return NULL;
	s->users++;
	s->used = ++c->tick;
	if (!fresh)
		return s;
	s->is_spent = true;
	put_file(c, s);
	return NULL;
}

int cache_get_file(struct cache *c, const struct skill_digests *digests, uint64_t size, bool fresh,
		   const struct skill_file **ret, struct err *e)
{
	struct skill_file file;
	int rc = 0;

	pthread_mutex_lock(&c->files_lock);
	struct file_slot *s = take_file(c, digests->sha256, fresh);
	pthread_mutex_unlock(&c->files_lock);
	if (!s) {
		rc = skill_file_open(c->store, digests, size, &file, e);
		if (rc < 0)
			return rc;
		pthread_mutex_lock(&c->files_lock);
		s = make_file_room(c);
		if (s) {
			*s = (struct file_slot){ .file = file, .users = 1, .used = ++c->tick };
			c->leaves_bytes += file.leaves ? skill_chunks(size) * SKILL_SHA : 0;
		}
		pthread_mutex_unlock(&c->files_lock);
		if (!s) {
			skill_file_close(&file);
			return err_set(e, EBUSY, "too many files in use");
		}
	}
	*ret = &s->file;
	return rc;
}

void cache_put_file(struct cache *c, const struct skill_file *file)
{
	struct file_slot *s = &c->files[(const struct file_slot *)(const void *)file - c->files];

	pthread_mutex_lock(&c->files_lock);
	put_file(c, s);
	pthread_mutex_unlock(&c->files_lock);
}
