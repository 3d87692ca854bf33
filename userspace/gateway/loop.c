/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's event loop: readiness, deadlines, chores. Knows no connection. */
#include "gateway/loop.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

int loop_open(struct loop *l, const uint32_t length_ms[DEADLINE_KINDS], struct err *e)
{
	memset(l, 0, sizeof(*l));
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0)
		return err_set(e, errno, "epoll: %s", strerror(errno));
	l->now_ms = clock_monotonic_ms();
	l->chores_end = &l->chores;
	for (int k = 0; k < DEADLINE_KINDS; k++) {
		l->length_ms[k] = length_ms[k];
		l->lists[k].prev = l->lists[k].next = &l->lists[k];
	}
	return 0;
}

void loop_close(struct loop *l)
{
	close(l->epoll_fd);
	l->epoll_fd = -1;
}

int loop_watch(struct loop *l, struct watch *w, int fd, uint32_t events,
	       void (*fn)(struct watch *, uint32_t), struct err *e)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	w->fd = fd;
	w->fn = fn;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_set(e, errno, "watch: %s", strerror(errno));
	return 0;
}

void loop_change(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev);
}

void loop_unwatch_close(struct loop *l, struct watch *w)
{
	if (w->fd < 0)
		return;
	/* Closing the only descriptor of a socket takes it out of the epoll set. */
	close(w->fd);
	w->fd = -1;
	for (int i = 0; i < l->batch_len; i++)
		if (l->batch[i].data.ptr == w)
			l->batch[i].data.ptr = NULL;
}

void loop_disarm(struct deadline *d)
{
	if (!d->next)
		return;
	d->prev->next = d->next;
	d->next->prev = d->prev;
	d->prev = d->next = NULL;
}

void loop_arm(struct loop *l, struct deadline *d, enum deadline_kind kind,
	      void (*fn)(struct deadline *))
{
	struct deadline *list = &l->lists[kind];

	loop_disarm(d);
	d->fn = fn;
	d->kind = (uint8_t)kind;
	d->at_ms = l->now_ms + l->length_ms[kind];
	d->prev = list->prev;
	d->next = list;
	list->prev->next = d;
	list->prev = d;
}

void loop_queue(struct loop *l, struct chore *c, void (*fn)(struct chore *))
{
	if (c->is_queued)
		return;
	c->fn = fn;
	c->is_queued = true;
	c->next = NULL;
	*l->chores_end = c;
	l->chores_end = &c->next;
}

void loop_unqueue(struct loop *l, struct chore *c)
{
	struct chore **at = &l->chores;

	if (!c->is_queued)
		return;
	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	if (l->chores_end == &c->next)
		l->chores_end = at;
	c->is_queued = false;
}

/* Those queued now; what they queue again waits for the next round. */
static void do_chores(struct loop *l)
{
	struct chore *last = l->chores ? CONTAINER_OF(l->chores_end, struct chore, next) : NULL;
	bool is_last = false;

	while (l->chores && !is_last) {
		struct chore *c = l->chores;
		is_last = c == last;
		l->chores = c->next;
		if (!l->chores)
			l->chores_end = &l->chores;
		c->is_queued = false;
		c->fn(c);
	}
}

static int next_timeout(const struct loop *l)
{
	int64_t soonest = l->extra_timeout ? l->extra_timeout(l->extra_ctx) : -1;

	if (l->chores)
		return 0;
	for (int k = 0; k < DEADLINE_KINDS; k++) {
		const struct deadline *first = l->lists[k].next;
		int64_t left;

		if (first == &l->lists[k])
			continue;
		left = first->at_ms > l->now_ms ? (int64_t)(first->at_ms - l->now_ms) : 0;
		if (soonest < 0 || left < soonest)
			soonest = left;
	}
	return soonest > 60000 ? 60000 : (int)soonest;
}

static void meet_deadlines(struct loop *l)
{
	for (int k = 0; k < DEADLINE_KINDS; k++)
		while (l->lists[k].next != &l->lists[k] && l->lists[k].next->at_ms <= l->now_ms) {
			struct deadline *d = l->lists[k].next;
			loop_disarm(d);
			d->fn(d);
		}
}

int loop_run(struct loop *l, struct err *e)
{
	while (!l->is_ended) {
		int n = epoll_wait(l->epoll_fd, l->batch, LOOP_BATCH, next_timeout(l));

		if (n < 0 && errno != EINTR)
			return err_set(e, errno, "epoll: %s", strerror(errno));
		l->now_ms = clock_monotonic_ms();
		l->batch_len = n > 0 ? n : 0;
		for (int i = 0; i < l->batch_len; i++) {
			struct watch *w = l->batch[i].data.ptr;
			if (w)
				w->fn(w, l->batch[i].events);
		}
		l->batch_len = 0;
		if (l->extra_turn)
			l->extra_turn(l->extra_ctx);
		meet_deadlines(l);
		do_chores(l);
	}
	return 0;
}
