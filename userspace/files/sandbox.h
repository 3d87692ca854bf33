/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_FILES_SANDBOX_H
#define CORDON_FILES_SANDBOX_H

/*
 * A set of roots, and files opened inside it: the one implementation of inside
 * and outside that both sets use, the one skills are loaded from and the one a
 * model's file access has (K6). Their roots are disjoint because each denies
 * what is the other's; that is up to whoever fills them.
 *
 * Symbolic links are followed, and what counts is where they lead. Directories
 * are known by identity as well as by name, so that a denied one that is also
 * mounted elsewhere stays denied. A regular file with several names has to have
 * all of them inside.
 *
 * -EACCES: outside or denied, whether there is anything or not. Only a path
 * that is inside can be missing (-ENOENT).
 */
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "files/geometry.h"

enum {
	FILES_WALK_MAX = 200000, /* names looked at for one question */
	FILES_HOPS_MAX = 40,
	FILES_DEPTH_MAX = 256,
};

struct files_root {
	char path[FILES_PATH_MAX];
	dev_t dev;
	ino_t ino; /* 0: not there */
};

struct files_set {
	struct files_root *allow, *deny;
	size_t nallow, ndeny;
};

/*
 * Adds a root, resolved to where it really is. An allowed one has to be there
 * (-ENOENT names it); a denied one is denied by its letters too.
 */
int files_allow(struct files_set *s, const char *path, struct err *e);
int files_deny(struct files_set *s, const char *path, struct err *e);

/* @list is separated by ':'; empty parts are skipped. */
int files_allow_list(struct files_set *s, const char *list, struct err *e);
int files_deny_list(struct files_set *s, const char *list, struct err *e);
void files_set_done(struct files_set *s);

/* What a path really is. */
struct files_place {
	char path[FILES_PATH_MAX]; /* real */
	int error;		   /* 0: it is there; else why it is not */
	struct stat st;		   /* where it is there */
};

/* Judges @path (absolute). 0 with *ret, also where nothing is there but could be; -EACCES. */
int files_find(const struct files_set *s, const char *path, struct files_place *ret, struct err *e);

/* Opens a regular file to read, or a directory. Gives a descriptor. */
int files_open(const struct files_set *s, const char *path, struct files_place *ret, struct err *e);
int files_open_directory(const struct files_set *s, const char *path, struct files_place *ret,
			 struct err *e);

/*
 * Replaces a regular file, or makes one, whole or not at all. What is there
 * keeps its mode; its other names, where it has any, keep the old content.
 */
int files_write(const struct files_set *s, const char *path, const void *buf, size_t len,
		struct files_place *ret, struct err *e);

/* The rule for hard links, for a file that is inside: every name is. -EACCES. */
int files_check_links(const struct files_set *s, const struct stat *st, struct err *e);

enum files_depth { FILES_ONE_LEVEL, FILES_ALL };

/*
 * Calls @each for everything below @dir (not for itself), depth first, names in
 * byte order, links not followed, what is denied left out. @each gives 0 to go
 * on, 1 to end, -errno. @fd is a handle (O_PATH) of the entry.
 */
int files_walk(const struct files_set *s, const char *dir, enum files_depth depth,
	       int (*each)(void *ctx, int fd, const char *path, const struct stat *st, struct err *e),
	       void *ctx, struct err *e);

#endif
