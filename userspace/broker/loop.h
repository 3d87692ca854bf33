/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_LOOP_H
#define CORDON_BROKER_LOOP_H

/*
 * One epoll, one thread: watched descriptors and timers. A watch and a timer
 * are embedded in their owner, which may free them at any moment after
 * loop_unwatch() and loop_timer_clear(), also out of another's callback.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"

enum { LOOP_EVENTS = 64 };

struct watch {
	void (*fn)(struct watch *w, uint32_t events);
	int fd; /* the owner's; -1 or 0 with fn NULL: not watched */
	uint32_t events;
};

struct timer {
	void (*fn)(struct timer *t);
	uint64_t at_ms;
	struct timer *prev, *next;
	bool is_set;
};

struct loop {
	int epoll_fd;
	struct epoll_event batch[LOOP_EVENTS];
	int batch_len, batch_at;
	struct timer *timers; /* soonest first */
	bool is_ended;
	/* Asked before every wait; gives how long it may take in ms, -1 for ever. */
	int (*before_wait)(void *ctx);
	void *before_wait_ctx;
};

int loop_open(struct loop *l, struct err *e);

int loop_watch(struct loop *l, struct watch *w, int fd, uint32_t events,
	       void (*fn)(struct watch *, uint32_t), struct err *e);
void loop_change(struct loop *l, struct watch *w, uint32_t events);
void loop_unwatch(struct loop *l, struct watch *w); /* does not close; harmless when not watched */

/* (Re)arms @t. */
void loop_timer_set(struct loop *l, struct timer *t, uint64_t in_ms, void (*fn)(struct timer *));
void loop_timer_clear(struct loop *l, struct timer *t);

/* Until loop_end(). */
int loop_run(struct loop *l, struct err *e);
void loop_end(struct loop *l);

#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#endif
