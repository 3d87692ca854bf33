/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_ARTIFACT_TAR_H
#define CORDON_ARTIFACT_TAR_H

/*
 * The tar streams that carry artifacts (W3): what a sandbox's tar reads is
 * written here, what it wrote is read here and believed in nothing. Regular
 * files and directories; everything else is refused by name.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	TAR_BLOCK = 512,
	TAR_PATH_MAX = 4096, /* with its NUL */
	TAR_DEPTH_MAX = 64,
};

struct tar_entry {
	char path[TAR_PATH_MAX]; /* relative, no "." or ".." part; "" is the top itself */
	bool is_directory;
	bool is_executable;
	uint64_t size;
	const uint8_t *bytes; /* into the stream that is read */
};

/*
 * One head by itself, for who reads piece by piece. TAR_END is the block of
 * zeros behind the last entry; TAR_LONG_NAME: ret->size bytes of a name follow,
 * for tar_long_name(), and it is given with the next head; TAR_ENTRY: *ret is
 * filled but for its bytes. -EINVAL as tar_read().
 */
enum tar_kind { TAR_END = 0, TAR_ENTRY, TAR_LONG_NAME };
int tar_judge(const uint8_t block[TAR_BLOCK], const char *long_name, struct tar_entry *ret,
	      struct err *e);
int tar_long_name(const void *text, size_t len, char ret[TAR_PATH_MAX], struct err *e);

/* A stream in memory, entry by entry. */
struct tar_reader {
	const uint8_t *buf;
	size_t len, at;
};

/* 1: *ret is filled; 0: the end; -EINVAL: malformed, a link, special or set-id file, named in *e. */
int tar_read(struct tar_reader *r, struct tar_entry *ret, struct err *e);

/*
 * The header blocks of an entry: at most TAR_HEAD_MAX bytes into @out. Gives
 * their number. Its bytes follow, filled up to a whole block.
 */
enum { TAR_HEAD_MAX = 2 * TAR_BLOCK + TAR_PATH_MAX + TAR_BLOCK };
size_t tar_head(const char *path, bool is_directory, bool is_executable, uint64_t size,
		uint8_t out[TAR_HEAD_MAX]);

/* Fill bytes behind @size of them. */
size_t tar_fill(uint64_t size);

/*
 * 0 for a relative path that is safe on either side: parts of 1 to 255 bytes, no
 * "." or "..", no control characters or backslash, UTF-8. -EINVAL says why.
 */
int tar_check_path(const char *path, struct err *e);

/* A name that tools run or obey on their own: what comes out under it wants a look. */
bool tar_is_hook(const char *path);

#endif
