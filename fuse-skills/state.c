/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the shared state. Nobody but the keeper publishes, so numbers need
 * no lock; the server may be reading any row at any moment.
 */
#include "state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int state_open(int fd, struct state **ret, struct err *e)
{
	struct stat st;
	struct state *s;

	if (fstat(fd, &st) < 0 || (st.st_size == 0 && ftruncate(fd, sizeof(*s)) < 0))
		return err_set(e, errno, "state: %s", strerror(errno));
	if (st.st_size != 0 && st.st_size != sizeof(*s))
		return err_set(e, EPROTO, "state of another build");
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED)
		return err_set(e, errno, "state: %s", strerror(errno));
	if (st.st_size == 0) {
		s->next_view = s->next_version = 1;
		s->size = sizeof(*s);
		s->magic = STATE_MAGIC;
	}
	if (s->magic != STATE_MAGIC || s->size != sizeof(*s)) {
		munmap(s, sizeof(*s));
		return err_set(e, EPROTO, "state of another build");
	}
	*ret = s;
	return 0;
}

struct state_view *state_view(struct state *s, uint64_t no)
{
	struct state_view *v = &s->views[no % STATE_VIEWS];

	return no && atomic_load(&v->no) == no ? v : NULL;
}

struct state_version *state_version(struct state *s, uint64_t no)
{
	struct state_version *v = &s->versions[no % STATE_VERSIONS];

	return no && atomic_load(&v->no) == no ? v : NULL;
}

int state_view_list(struct state *s, uint64_t no, uint32_t ret[K_SKILLS_MAX])
{
	struct state_view *v = state_view(s, no);
	uint32_t count = v ? v->count : 0;

	if (!v || count > K_SKILLS_MAX)
		return -1;
	memcpy(ret, v->versions, count * sizeof(ret[0]));
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&v->no) == no ? (int)count : -1;
}

bool state_version_copy(struct state *s, uint64_t no, struct state_version *ret)
{
	struct state_version *v = state_version(s, no);

	if (!v)
		return false;
	ret->added_s = v->added_s;
	ret->requires_execution = v->requires_execution;
	memcpy(ret->digest, v->digest, sizeof(ret->digest));
	memcpy(ret->slug, v->slug, sizeof(ret->slug));
	ret->slug[SKILL_SLUG_MAX] = '\0';
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&v->no) == no;
}

uint64_t state_view_add(struct state *s, const uint32_t *versions, uint32_t count, uint64_t now_s)
{
	for (int tries = 0; tries < STATE_VIEWS; tries++) {
		uint64_t no = s->next_view++;
		struct state_view *v = &s->views[no % STATE_VIEWS];
		if (atomic_load(&v->no) != 0)
			continue;
		atomic_store(&v->files_looked_up, 0);
		atomic_store(&v->bytes_served, 0);
		atomic_store(&v->corrupt, 0);
		v->opened_s = now_s;
		v->count = count;
		memcpy(v->versions, versions, count * sizeof(versions[0]));
		atomic_store(&v->no, no);
		return no;
	}
	return 0;
}

void state_view_drop(struct state *s, uint64_t no)
{
	struct state_view *v = state_view(s, no);

	if (v)
		atomic_store(&v->no, 0);
}

uint32_t state_version_add(struct state *s, const struct state_version *from,
			   bool (*is_idle)(uint32_t no, void *arg), void *arg)
{
	for (int tries = 0; tries < STATE_VERSIONS && s->next_version < UINT32_MAX; tries++) {
		uint32_t no = (uint32_t)s->next_version++;
		struct state_version *v = &s->versions[no % STATE_VERSIONS];
		uint32_t old = (uint32_t)atomic_load(&v->no);
		if (old != 0 && !is_idle(old, arg))
			continue;
		atomic_store(&v->no, 0);
		v->added_s = from->added_s;
		v->requires_execution = from->requires_execution;
		memcpy(v->digest, from->digest, sizeof(v->digest));
		memcpy(v->slug, from->slug, sizeof(v->slug));
		atomic_store(&v->no, no);
		return no;
	}
	return 0;
}

void state_bind(struct state *s, uint32_t uid, uint64_t view)
{
	struct state_bind *b = &s->binds[uid % STATE_BINDS];

	atomic_store(&b->view, 0);
	atomic_store(&b->uid, uid);
	atomic_store(&b->view, view);
}

uint64_t state_bound(struct state *s, uint32_t uid)
{
	struct state_bind *b = &s->binds[uid % STATE_BINDS];
	uint64_t view = atomic_load(&b->view);

	return atomic_load(&b->uid) == uid && atomic_load(&b->view) == view ? view : 0;
}

static uint32_t used(uint64_t next, uint32_t rows)
{
	return next < rows ? (uint32_t)next : rows;
}

uint32_t state_views_used(const struct state *s)
{
	return used(s->next_view, STATE_VIEWS);
}

uint32_t state_versions_used(const struct state *s)
{
	return used(s->next_version, STATE_VERSIONS);
}
