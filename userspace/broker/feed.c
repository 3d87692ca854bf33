/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed of one command. SIGPIPE is ignored by the program: a broken pipe is
 * an ordinary end here.
 */
#include "broker/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"

void feed_begin(struct feed *f, struct loop *l)
{
	memset(f, 0, sizeof(*f));
	f->loop = l;
	f->fd = -1;
}

static void close_pipe(struct feed *f)
{
	if (f->fd < 0)
		return;
	loop_unwatch(f->loop, &f->watch);
	close(f->fd);
	f->fd = -1;
}

static void drop_bytes(struct feed *f)
{
	free(f->buf);
	f->buf = NULL;
	f->at = f->len = f->cap = 0;
}

void feed_close(struct feed *f)
{
	close_pipe(f);
	drop_bytes(f);
	f->is_closed = true;
	if (f->on_room)
		f->on_room(f);
}

void feed_done(struct feed *f)
{
	f->on_room = NULL;
	if (f->loop)
		close_pipe(f);
	drop_bytes(f);
}

/* Out of memory or of something like it: what is missing must not look like an end of input. */
static void break_off(struct feed *f)
{
	f->is_broken = true;
	feed_close(f);
}

static void on_writable(struct watch *w, uint32_t events);

/* Writes what the pipe takes; watches for more room only while something waits. */
static void pump(struct feed *f)
{
	while (f->fd >= 0 && f->at < f->len) {
		size_t len = f->len - f->at;
		errno = fault_write("feed.write", &len);
		ssize_t n = errno ? -1 : write(f->fd, f->buf + f->at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			struct err e;
			if (!f->watch.fn &&
			    loop_watch(f->loop, &f->watch, f->fd, EPOLLOUT, on_writable, &e) < 0)
				break_off(f);
			return;
		}
		if (n < 0 && errno != EPIPE) {
			break_off(f);
			return;
		}
		if (n < 0) {
			feed_close(f);
			return;
		}
		f->at += (size_t)n;
	}
	if (f->fd < 0)
		return;
	loop_unwatch(f->loop, &f->watch);
	drop_bytes(f);
	if (f->is_ended)
		close_pipe(f);
}

static void pump_and_tell(struct feed *f)
{
	pump(f);
	if (!f->is_closed && !f->is_ended && f->len - f->at < FEED_MAX / 2 && f->on_room)
		f->on_room(f);
}

static void on_writable(struct watch *w, uint32_t events)
{
	(void)events;
	pump_and_tell(CONTAINER_OF(w, struct feed, watch));
}

void feed_put_whole(struct feed *f, uint8_t *buf, size_t len)
{
	drop_bytes(f);
	f->buf = buf;
	f->len = f->cap = len;
	pump(f);
}

size_t feed_put(struct feed *f, const void *buf, size_t len)
{
	if (f->is_closed || f->is_ended)
		return len;
	pump(f); /* first: what it makes room for is used below, and a full feed is one that watches */
	if (f->is_closed)
		return len;
	if (!f->buf) {
		f->buf = fault_hit("feed.keep") ? NULL : malloc(FEED_MAX);
		if (!f->buf) {
			break_off(f);
			return len;
		}
		f->cap = FEED_MAX;
	}
	if (f->at) {
		memmove(f->buf, f->buf + f->at, f->len - f->at);
		f->len -= f->at;
		f->at = 0;
	}
	size_t room = f->cap - f->len, n = len < room ? len : room;
	if (n == 0)
		return 0;
	memcpy(f->buf + f->len, buf, n);
	f->len += n;
	pump(f);
	return n;
}

void feed_end(struct feed *f)
{
	f->is_ended = true;
	pump(f);
}

void feed_start(struct feed *f, int fd)
{
	f->fd = fd;
	pump_and_tell(f);
}
