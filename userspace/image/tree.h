/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_TREE_H
#define CORDON_IMAGE_TREE_H

/*
 * A directory tree on its way into an image: what every L0 has whatever its
 * recipe (mount points, the fixed user, host names), and what none may have
 * (setuid bits, file capabilities, devices, times of the build).
 */
#include <time.h>

#include "base/err.h"

/* What goes where; a NULL @text is a directory. */
struct tree_entry {
	const char *path; /* relative */
	unsigned mode;
	const char *text;
};

/* Makes the entries in order, parents first. Borrows everything. */
int tree_make(int rootfd, const struct tree_entry *entries, size_t n, struct err *e);

/* Copies the host's file @from to @to in the tree, with @mode. */
int tree_copy(int rootfd, const char *from, const char *to, unsigned mode, struct err *e);

/* Removes @name below @parent, whatever is in it; missing is fine. Never follows links. */
int tree_remove(const char *parent, const char *name, struct err *e);

/*
 * Makes a finished root filesystem at @path one that a plane can mount: mount
 * points, the sandbox user in passwd, group and shadow (appended where the
 * files exist), hosts, host name. Replaces what is there; a path component
 * that is a symbolic link is refused where a mount point must be.
 */
int tree_furnish(const char *path, struct err *e);

/*
 * Walks the tree: no setuid or setgid bit, no file capability, no device, no
 * pipe, no socket is left. What was written since @build_start carries the
 * epoch instead: the newest time that a file brought along, so that two builds
 * of the same files agree (and Python's compiled modules still match their
 * sources' times). Gives *ret_epoch.
 */
int tree_settle(const char *path, time_t build_start, time_t *ret_epoch, struct err *e);

#endif
