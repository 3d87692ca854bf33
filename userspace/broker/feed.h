/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_FEED_H
#define CORDON_BROKER_FEED_H

/*
 * Standard input on its way into a command: bytes are put in as they come,
 * at most FEED_MAX of them wait, and a pipe's write end takes them out. A
 * command that stops reading makes the feed closed; what comes later is dropped.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/loop.h"

enum { FEED_MAX = 64 * 1024 };

struct feed {
	struct loop *loop;
	struct watch watch;
	int fd; /* -1: not started, or closed */
	uint8_t *buf;
	size_t at, len, cap;
	bool is_ended;	/* nothing more is put in */
	bool is_closed; /* the command's end is gone */
	bool is_broken; /* closed by us: the command did not get all of it */
	void (*on_room)(struct feed *f); /* there is room again, or it is closed */
};

void feed_begin(struct feed *f, struct loop *l);
void feed_done(struct feed *f);

/* All of it waits at once, whatever FEED_MAX says: takes @buf (malloced). */
void feed_put_whole(struct feed *f, uint8_t *buf, size_t len);
/* Gives how many bytes it took; after it is closed that is all of them. */
size_t feed_put(struct feed *f, const void *buf, size_t len);
/* The end of input: the pipe is closed once all is written. */
void feed_end(struct feed *f);
/* Takes the non-blocking write end. */
void feed_start(struct feed *f, int fd);
/* Nothing is written any more. */
void feed_close(struct feed *f);

#endif
