/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_LOOP_H
#define CORDON_GATEWAY_LOOP_H

/*
 * One epoll, one thread. A watch is embedded in its owner and small, because
 * there are two in every tunnel. Deadlines come in few lengths: every length
 * is a list in which each entry is put at the end, so that arming one is two
 * pointers and the front is always the soonest.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"

struct watch {
	void (*fn)(struct watch *w, uint32_t events);
	int fd;
};

enum deadline_kind {
	DEADLINE_HEAD,	/* a request's head, and a refusal's way out */
	DEADLINE_DIAL,
	DEADLINE_IDLE,
	DEADLINE_SOON, /* listeners that wait for descriptors */
	DEADLINE_KINDS,
};

struct deadline {
	void (*fn)(struct deadline *d);
	struct deadline *prev, *next; /* NULL: not armed */
	uint64_t at_ms;
	uint8_t kind;
};

/* Work left over in this round: done again before the loop sleeps. */
struct chore {
	void (*fn)(struct chore *c);
	struct chore *next;
	bool is_queued;
};

enum { LOOP_BATCH = 128 };

struct loop {
	int epoll_fd;
	bool is_ended;
	uint64_t now_ms; /* of this round */
	uint32_t length_ms[DEADLINE_KINDS];
	struct deadline lists[DEADLINE_KINDS]; /* heads of rings */
	struct chore *chores, **chores_end;
	struct epoll_event batch[LOOP_BATCH];
	int batch_len;
	/* How long the resolver lets the loop sleep, -1 for ever; and its turn. */
	int (*extra_timeout)(void *ctx);
	void (*extra_turn)(void *ctx);
	void *extra_ctx;
};

int loop_open(struct loop *l, const uint32_t length_ms[DEADLINE_KINDS], struct err *e);
void loop_close(struct loop *l);

int loop_watch(struct loop *l, struct watch *w, int fd, uint32_t events,
	       void (*fn)(struct watch *, uint32_t), struct err *e);
void loop_change(struct loop *l, struct watch *w, uint32_t events);

/* Ends watching and closes. Events of this round that are still to come for it are dropped. */
void loop_unwatch_close(struct loop *l, struct watch *w);

void loop_arm(struct loop *l, struct deadline *d, enum deadline_kind kind,
	      void (*fn)(struct deadline *));
void loop_disarm(struct deadline *d);

void loop_queue(struct loop *l, struct chore *c, void (*fn)(struct chore *));
void loop_unqueue(struct loop *l, struct chore *c);

/* Until is_ended. */
int loop_run(struct loop *l, struct err *e);

#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#endif
