/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_OPENER_H
#define CORDON_SKILLS_OPENER_H

/*
 * Opens view directories in the mount this program itself serves. That is a
 * request to the server, and while the server is stopped nothing can interrupt
 * whoever waits for it: so a thread waits, and the keeper goes on watching. The
 * thread has a descriptor table of its own: while it waits, the keeper can end
 * and close everything, the server's life line above all.
 */
#include <stdint.h>

#include "base/err.h"

struct opener {
	int fd; /* readable when an answer is there */
	int theirs; /* the thread's end, until it has its own table */
};

struct opener_answer {
	uint64_t view;
	int fd;	   /* O_PATH, ownership to the receiver; -1 */
	int error; /* errno, where fd is -1 */
};

/* Starts the thread. Keeps a pointer to @o. */
int opener_start(struct opener *o, struct err *e);

/* Asks for view @view below @root (borrowed). -EAGAIN: too many wait already. */
int opener_ask(struct opener *o, int root, uint64_t view, struct err *e);

/* 1: *ret filled; 0: nothing there; -errno: it is gone. @m is a buffer. */
struct msg;
int opener_answer(struct opener *o, struct msg *m, struct opener_answer *ret, struct err *e);

#endif
