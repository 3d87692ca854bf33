/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind job.h: three hash tables and one list by age. Does not
 * start, end or record anything.
 */
#include "broker/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "broker/skills.h"

static unsigned bucket_of(const void *key, size_t len)
{
	const uint8_t *p = key;
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 16777619u;
	return h % JOB_BUCKETS;
}

/* Each part with its length before it: no two tuples give the same bytes. */
static void add_part(struct digest *d, const char *text)
{
	uint64_t len = strlen(text);

	digest_add(d, &len, sizeof(len));
	digest_add(d, text, len);
}

void workspace_key_of(const char *org_id, const char *run_id, const char *job_id,
		      uint8_t ret[DIGEST_LEN])
{
	auto_(digest) d = digest_new();

	memset(ret, 0, DIGEST_LEN);
	if (!d)
		return; /* jobs_open() sees the zero key and gives up */
	add_part(d, run_id ? "run" : "job");
	add_part(d, org_id);
	add_part(d, run_id ? run_id : job_id);
	digest_end(d, ret);
}

/* --- Organisations and workspaces */

static struct org *org_get(struct jobs *t, const char *name)
{
	struct org **bucket = &t->orgs[bucket_of(name, strlen(name))];

	for (struct org *o = *bucket; o; o = o->next)
		if (strcmp(o->name, name) == 0) {
			o->refs++;
			return o;
		}
	struct org *o = calloc(1, sizeof(*o));
	if (!o || !(o->name = strdup(name))) {
		free(o);
		return NULL;
	}
	o->refs = 1;
	o->next = *bucket;
	*bucket = o;
	return o;
}

static void org_put(struct jobs *t, struct org *o)
{
	if (!o || --o->refs)
		return;
	struct org **p = &t->orgs[bucket_of(o->name, strlen(o->name))];
	while (*p != o)
		p = &(*p)->next;
	*p = o->next;
	free(o->name);
	free(o);
}

struct workspace *jobs_find_workspace(struct jobs *t, const uint8_t key[DIGEST_LEN])
{
	struct workspace *w = t->workspaces[bucket_of(key, DIGEST_LEN)];

	while (w && memcmp(w->key, key, DIGEST_LEN) != 0)
		w = w->next;
	return w;
}

static struct workspace *workspace_get(struct jobs *t, const struct job *j)
{
	static const uint8_t zero[DIGEST_LEN];
	uint8_t key[DIGEST_LEN];

	workspace_key_of(j->org_id, j->run_id, j->id, key);
	if (memcmp(key, zero, DIGEST_LEN) == 0)
		return NULL;
	struct workspace *w = jobs_find_workspace(t, key);
	if (w) {
		w->refs++;
		return w;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	memcpy(w->key, key, DIGEST_LEN);
	w->is_run = j->run_id != NULL;
	w->refs = 1;
	struct workspace **bucket = &t->workspaces[bucket_of(key, DIGEST_LEN)];
	w->next = *bucket;
	*bucket = w;
	return w;
}

static void workspace_put(struct jobs *t, struct workspace *w)
{
	if (!w || --w->refs)
		return;
	struct workspace **p = &t->workspaces[bucket_of(w->key, DIGEST_LEN)];
	while (*p != w)
		p = &(*p)->next;
	*p = w->next;
	free(w);
}

/* --- Jobs */

static void job_done(struct jobs *t, struct job *j)
{
	view_free(j->view);
	org_put(t, j->org);
	workspace_put(t, j->workspace);
	free(j->org_id);
	free(j->user_id);
	free(j->run_id);
	free(j);
}

static bool job_name(struct job *j, const char *id)
{
	uint8_t random[16];

	if (id)
		return snprintf(j->id, sizeof(j->id), "%s", id) < (int)sizeof(j->id);
	if (digest_random(random, sizeof(random)) < 0)
		return false;
	memcpy(j->id, "job-", 4);
	digest_hex(random, sizeof(random), j->id + 4);
	return true;
}

/* Identity and what hangs on it. False: out of memory. */
static bool job_fill(struct jobs *t, struct job *j, const struct session *s, const char *id)
{
	if (!job_name(j, id))
		return false;
	j->org_id = strdup(s->org_id);
	j->user_id = strdup(s->user_id);
	j->run_id = s->run_id[0] ? strdup(s->run_id) : NULL;
	j->surface = s->surface;
	if (!j->org_id || !j->user_id || (s->run_id[0] && !j->run_id))
		return false;
	j->org = org_get(t, j->org_id);
	j->workspace = j->org ? workspace_get(t, j) : NULL;
	return j->workspace != NULL;
}

enum reason jobs_open(struct jobs *t, const struct session *s, uid_t uid, const char *id,
		      struct job **ret)
{
	if (strlen(s->org_id) > JOB_FIELD_MAX || strlen(s->user_id) > JOB_FIELD_MAX ||
	    strlen(s->run_id) > JOB_FIELD_MAX)
		return REASON_INVALID_REQUEST;
	struct job *j = calloc(1, sizeof(*j));
	if (!j)
		return REASON_WORKER_ERROR;
	j->uid = uid;
	if (!job_fill(t, j, s, id)) {
		job_done(t, j);
		return REASON_WORKER_ERROR;
	}
	if (!admission_job_open(t->admission, &j->org->admission)) {
		job_done(t, j);
		return REASON_OPEN_JOBS_EXHAUSTED;
	}
	j->has_place = true;
	j->opened_ms = clock_realtime_ns() / 1000000;
	j->touched_ms = clock_monotonic_ms();
	struct job **bucket = &t->buckets[bucket_of(j->id, strlen(j->id))];
	j->next = *bucket;
	*bucket = j;
	j->older = t->newest;
	*(t->newest ? &t->newest->newer : &t->oldest) = j;
	t->newest = j;
	t->njobs++;
	*ret = j;
	return REASON_NONE;
}

struct job *jobs_find(struct jobs *t, const char *id, uid_t uid)
{
	struct job *j = t->buckets[bucket_of(id, strlen(id))];

	while (j && strcmp(j->id, id) != 0)
		j = j->next;
	return j && j->uid == uid ? j : NULL;
}

void job_end(struct jobs *t, struct job *j, enum reason why)
{
	if (j->has_place)
		admission_job_close(t->admission, &j->org->admission);
	j->has_place = false;
	if (j->ended == REASON_NONE) {
		j->ended = why;
		t->nended++;
	}
}

void job_free(struct jobs *t, struct job *j)
{
	struct job **p = &t->buckets[bucket_of(j->id, strlen(j->id))];

	job_end(t, j, REASON_JOB_CLOSED);
	t->nended--;
	while (*p != j)
		p = &(*p)->next;
	*p = j->next;
	*(j->older ? &j->older->newer : &t->oldest) = j->newer;
	*(j->newer ? &j->newer->older : &t->newest) = j->older;
	t->njobs--;
	job_done(t, j);
}
