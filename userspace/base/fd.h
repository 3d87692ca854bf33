/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BASE_FD_H
#define CORDON_BASE_FD_H

/*
 * Descriptors: opening beneath a directory, reading and writing whole, sealed
 * memory. Every descriptor made here is close-on-exec. Failures are -errno
 * with *e set.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Opens @path beneath @dirfd: no symbolic link, no magic link, no "..", no
 * mount is crossed upwards. @path is relative. Gives a descriptor.
 */
int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode, struct err *e);

/* Writes all @len bytes, through EINTR and short writes; at @at (not negative), or where @fd is. */
int fd_write_all(int fd, const void *buf, size_t len, struct err *e);
int fd_pwrite_all(int fd, const void *buf, size_t len, off_t at, struct err *e);

/*
 * Reads @fd to its end into a fresh, NUL-terminated buffer of at most @max
 * bytes (EFBIG beyond). Gives *ret (caller frees) and *ret_len.
 */
int fd_read_all(int fd, size_t max, char **ret, size_t *ret_len, struct err *e);

/* The same for a path. Borrows @path. */
int fd_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
		 struct err *e);

/*
 * Replaces @path in @dirfd by @len bytes of @buf: a temporary file beside it,
 * fsync, rename. A reader sees the old or the new, never half.
 */
int fd_replace_file(int dirfd, const char *path, const void *buf, size_t len, mode_t mode,
		    struct err *e);

/*
 * A sealed memfd (no write, grow, shrink, no more seals) holding @len bytes of
 * @buf, positioned at 0. @name shows in /proc only. Gives a descriptor.
 */
int fd_sealed(const char *name, const void *buf, size_t len, struct err *e);

/* True when @fd is a memfd carrying all four content seals. */
int fd_is_sealed(int fd);

/*
 * A connection to the socket at @path, of @type (SOCK_STREAM | SOCK_NONBLOCK
 * ...). ENAMETOOLONG for a path no socket can have. Gives a descriptor.
 */
int fd_dial(const char *path, int type, struct err *e);

/* mkdir -p for an absolute path; existing directories are fine. */
int fd_mkdir_parents(const char *path, mode_t mode, struct err *e);

#endif
