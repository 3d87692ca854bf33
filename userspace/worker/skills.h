/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_SKILLS_H
#define CORDON_WORKER_SKILLS_H

/*
 * The skills' mount as the worker has it: attached in its own namespace, from
 * which directories (a job's view) are cloned into slots. Nothing here asks the
 * file system for anything: a server that hangs must not hang the worker. A
 * view's directory is opened by cordon-skills, below the root it is lent.
 */
#include <stdint.h>

#include "base/err.h"

struct skills {
	int root_fd; /* O_PATH; -1: this plane has none */
	uint32_t dev_major, dev_minor;
};

/* Attaches the detached mount @mount_fd (borrowed) on the directory @path, which is made. */
int skills_attach(struct skills *s, int mount_fd, const char *path, struct err *e);

/*
 * A detached, read-only mount of the view that @view_fd is a handle of. Refuses
 * what is not a directory below the root of the skills' mount (B6).
 */
int skills_clone(const struct skills *s, int view_fd, struct err *e);

#endif
