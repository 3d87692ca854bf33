/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_SKILLS_H
#define CORDON_BROKER_SKILLS_H

/*
 * The broker's end of include/proto/skills.h, in the manner of worker.h: a call
 * is embedded in whoever makes it and stands in the link's list until it is
 * answered, lost or forgotten. A view outlives calls and links: it belongs to a
 * job, and skills that were restarted still know it.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "broker/loop.h"
#include "policy/reason.h"
#include "proto/skills.h"
#include "wire/msg.h"

struct skills_call;

struct skills_events {
	/* The view's directory handle, ownership to the receiver. */
	void (*view)(struct skills_call *c, const struct k_view *v, int fd);
	void (*counts)(struct skills_call *c, const struct k_counts *n);
	void (*staged)(struct skills_call *c, const struct k_staged *s);
	void (*removed)(struct skills_call *c);
	/* Sealed memory of @len bytes, ownership of @fd to the receiver. */
	void (*text)(struct skills_call *c, int fd, uint64_t len);
	void (*refused)(struct skills_call *c, enum reason why, const char *text);
	void (*lost)(struct skills_call *c);
};

struct skills_call {
	uint64_t req; /* 0: not in the list */
	const struct skills_events *events;
	struct skills_call *next;
};

/*
 * Silence of so long is asked about, and of twice so long ends all calls (lost):
 * skills are as good as gone until they are heard again.
 */
enum { SKILLS_PATIENCE_MS = 2500 };

struct skills_link {
	struct loop *loop;
	struct watch watch;
	struct msg *buf;
	int fd;	     /* -1: no skills */
	int root_fd; /* of the worker's mount, -1: none */
	uint64_t generation; /* of that mount: handles of an older one lead nowhere */
	bool is_ready, is_broken, is_silent;
	uint64_t heard_ms; /* or asked the first thing after all was answered */
	struct timer patience;
	struct skills_call ping;
	void (*on_pinged)(struct skills_link *k); /* answered, or given up */
	uint64_t broker; /* this process, to skills */
	uint64_t last_req;
	struct skills_call *calls;
};

int skills_init(struct skills_link *k, struct loop *l, struct msg *buf, struct err *e);

/* Skills, or the next ones. Takes @fd. */
int skills_connect(struct skills_link *k, int fd, struct err *e);

/* A worker has mounted them anew. Takes @root_fd (-1: it has none). */
void skills_set_root(struct skills_link *k, int root_fd);

/* What is said where a call was lost. */
extern const char skills_lost_text[];

bool skills_are_up(const struct skills_link *k);
/* Asks for an answer, whatever it is; harmless when one is due or nobody is there. */
void skills_ping(struct skills_link *k);

/* Requests: 0, or -errno and @c is in no list. No event is told out of these calls. */
int skills_stage(struct skills_link *k, struct skills_call *c, const struct skills_events *events,
		 int stream_fd);
/* @hex NULL: every version. */
int skills_remove(struct skills_link *k, struct skills_call *c, const struct skills_events *events,
		  const char *slug, const char *hex);
/* @slug "": the whole catalog. */
int skills_show(struct skills_link *k, struct skills_call *c, const struct skills_events *events,
		const char *slug, bool wants_all);
int skills_read(struct skills_link *k, struct skills_call *c, const struct skills_events *events,
		const char *slug, const char *path);
void skills_forget(struct skills_link *k, struct skills_call *c);

/* --- Views */

struct view_skill {
	char *slug;
	uint8_t digest[32];
	bool requires_execution;
};

/* What a job sees. */
struct skills_view {
	struct skills_link *link;
	uint64_t number; /* 0: not open yet */
	int fd;		 /* the worker clones it */
	uint64_t generation;
	struct k_counts counted; /* when last asked */
	uint32_t count;
	struct view_skill skills[];
};

/*
 * A view of the skills named in @slugs (an array of strings, checked here).
 * REASON_NONE with *ret, not open yet; *text says what is wrong.
 */
enum reason view_new(struct skills_link *k, const json_t *slugs, struct skills_view **ret,
		     const char **text);
/* The same versions again, as view_to_json() wrote them. NULL: malformed. */
struct skills_view *view_from_json(struct skills_link *k, const json_t *skills);
json_t *view_to_json(const struct skills_view *v);
/* Closes it where it is open, and frees. NULL is harmless. */
void view_free(struct skills_view *v);

/* True where the worker can mount it as it is. */
bool view_is_open(const struct skills_view *v);
/* Asks for it, also anew for a worker that was restarted; hand what events->view brings to view_opened(). */
int view_open(struct skills_view *v, struct skills_call *c, const struct skills_events *events);
/* Takes @fd. */
void view_opened(struct skills_view *v, const struct k_view *k, int fd);

/* This host uid reads for the view now, or (open ones only) for nobody. */
void view_bind(const struct skills_view *v, uint32_t uid);
void view_unbind(const struct skills_view *v, uint32_t uid);
int view_count(const struct skills_view *v, struct skills_call *c,
	       const struct skills_events *events);

#endif
