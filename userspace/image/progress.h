/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_PROGRESS_H
#define CORDON_IMAGE_PROGRESS_H

/*
 * How far a long build is, for whoever looks on: one line that rewrites itself on
 * a terminal, one line per step elsewhere. Always on standard error.
 */
#include <stdbool.h>
#include <time.h>

struct progress {
	const char *what;
	bool is_terminal;
	struct timespec start;
};

/* Borrows @what. */
void progress_start(struct progress *p, const char *what);

/* A line of a child or a step of ours; @arg is the struct progress. */
void progress_line(const char *line, void *arg);

/* Clears the line on a terminal. */
void progress_end(struct progress *p);

#endif
