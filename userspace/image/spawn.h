/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_SPAWN_H
#define CORDON_IMAGE_SPAWN_H

/*
 * One child program, waited for: the bootstrapper and the file system maker. It
 * gets a written environment, no descriptor but its output, and dies with this
 * process, however that ends.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct spawn {
	const char *const *argv; /* argv[0] is an absolute path */
	/*
	 * In mount and pid namespaces of its own: what it mounts and starts is gone
	 * with it, so its directory can be removed at once.
	 */
	bool apart;
	const char *const *env; /* added to its written environment; NULL-terminated, or NULL */
	bool wants_output; /* give its standard output in ret_output, else it is read as lines */
	/* Called for every line of its error (and unwanted) output; may be NULL. */
	void (*on_line)(const char *line, void *arg);
	void *arg;
};

/*
 * 0, or -code: the program could not be started, or ended with another status
 * than 0 (EIO), *e then carrying the last line it said. @ret_output is
 * NUL-terminated (caller frees), NULL unless it was wanted.
 */
int spawn_run(const struct spawn *sp, char **ret_output, struct err *e);

#endif
