/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's event loop. Owns the epoll descriptor and the order of timers;
 * knows nothing of what its watchers do. A watch taken out while a batch is
 * being served is struck from the batch too, so no callback sees a freed owner.
 */
#include "broker/loop.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"

int loop_open(struct loop *l, struct err *e)
{
	memset(l, 0, sizeof(*l));
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return l->epoll_fd < 0 ? err_set(e, errno, "epoll: %s", strerror(errno)) : 0;
}

int loop_watch(struct loop *l, struct watch *w, int fd, uint32_t events,
	       void (*fn)(struct watch *, uint32_t), struct err *e)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_set(e, errno, "watch: %s", strerror(errno));
	*w = (struct watch){ .fn = fn, .fd = fd, .events = events };
	return 0;
}

void loop_change(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (!w->fn || w->events == events)
		return;
	w->events = events;
	epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev);
}

void loop_unwatch(struct loop *l, struct watch *w)
{
	if (!w->fn)
		return;
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	for (int i = l->batch_at; i < l->batch_len; i++)
		if (l->batch[i].data.ptr == w)
			l->batch[i].data.ptr = NULL;
	w->fn = NULL;
	w->fd = -1;
}

void loop_timer_clear(struct loop *l, struct timer *t)
{
	if (!t->is_set)
		return;
	*(t->prev ? &t->prev->next : &l->timers) = t->next;
	if (t->next)
		t->next->prev = t->prev;
	t->is_set = false;
}

void loop_timer_set(struct loop *l, struct timer *t, uint64_t in_ms, void (*fn)(struct timer *))
{
	struct timer *before = NULL, *after = l->timers;

	loop_timer_clear(l, t);
	t->fn = fn;
	t->at_ms = clock_monotonic_ms() + in_ms;
	for (after = l->timers; after && after->at_ms <= t->at_ms; after = after->next)
		before = after;
	t->prev = before;
	t->next = after;
	*(before ? &before->next : &l->timers) = t;
	if (after)
		after->prev = t;
	t->is_set = true;
}

static void timers_run(struct loop *l)
{
	uint64_t now = l->timers ? clock_monotonic_ms() : 0;

	while (l->timers && l->timers->at_ms <= now) {
		struct timer *t = l->timers;
		loop_timer_clear(l, t);
		t->fn(t);
	}
}

static int wait_ms(struct loop *l)
{
	int ms = l->before_wait ? l->before_wait(l->before_wait_ctx) : -1;

	if (l->timers) {
		uint64_t now = clock_monotonic_ms();
		uint64_t left = l->timers->at_ms > now ? l->timers->at_ms - now : 0;
		if (ms < 0 || left < (uint64_t)ms)
			ms = left > 3600000 ? 3600000 : (int)left;
	}
	return ms;
}

int loop_run(struct loop *l, struct err *e)
{
	while (!l->is_ended) {
		int n = epoll_wait(l->epoll_fd, l->batch, LOOP_EVENTS, wait_ms(l));
		if (n < 0 && errno != EINTR)
			return err_set(e, errno, "epoll: %s", strerror(errno));
		l->batch_len = n < 0 ? 0 : n;
		for (l->batch_at = 0; l->batch_at < l->batch_len;) {
			struct epoll_event *ev = &l->batch[l->batch_at++];
			struct watch *w = ev->data.ptr;
			if (w)
				w->fn(w, ev->events);
		}
		l->batch_len = 0;
		timers_run(l);
	}
	return 0;
}

void loop_end(struct loop *l)
{
	l->is_ended = true;
}
