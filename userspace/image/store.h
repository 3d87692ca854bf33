/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_STORE_H
#define CORDON_IMAGE_STORE_H

/*
 * The image store: a directory that several instances may share.
 *
 *   <64 hex>.erofs          an image, read-only, named by the SHA-256 of its bytes
 *   NAME.ref                "sha256:HEX\n": the image a human name stands for
 *   NAME-<32 hex>.recipe    "sha256:HEX\n": what a recipe of that digest once gave
 *   .lock-KIND              flock of whoever is building or importing KIND
 *   .tmp-KIND-XXXXXX        its unfinished work: garbage as soon as the lock is free
 *
 * Nothing appears under a final name before it is whole and on disk.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"

enum {
	IMAGE_HEX = 64,
	IMAGE_HEX_SIZE = IMAGE_HEX + 1,
	IMAGE_NAME_MAX = 64,
	STORE_PATH_MAX = 3072, /* leaves room for what is opened beneath it */
	STORE_TEMP_SIZE = IMAGE_NAME_MAX + 16,
	STORE_IMAGES_MAX = 4096,
	STORE_NAMES_MAX = 4096,
};

struct store {
	int dirfd;
	char path[STORE_PATH_MAX];
};

struct store_image {
	char hex[IMAGE_HEX_SIZE];
	uint64_t size_bytes;
	time_t made;
};

/* A human name and the image it stands for. */
struct store_name {
	char name[IMAGE_NAME_MAX + 1];
	char hex[IMAGE_HEX_SIZE];
};

/* Opens @path, made with mode 0755 where it is missing. Gives *ret_s. */
int store_open(const char *path, struct store *ret_s, struct err *e);
void store_close(struct store *s);

/* True for [a-z0-9][a-z0-9._-]* of at most IMAGE_NAME_MAX bytes that is no digest. */
bool store_name_is_valid(const char *name);

/*
 * Takes the lock of @kind; closing the descriptor releases it. Without @wait a
 * taken lock is -EWOULDBLOCK. Gives a descriptor.
 */
int store_lock(const struct store *s, const char *kind, bool wait, struct err *e);

/* Removes unfinished work whose lock nobody holds. */
int store_sweep(const struct store *s, struct err *e);

/* The same for @kind, whose lock the caller holds. */
int store_sweep_kind(const struct store *s, const char *kind, struct err *e);

/* Makes a private directory for unfinished work of @kind (lock held). Gives its name. */
int store_temp_dir(const struct store *s, const char *kind, char ret_name[STORE_TEMP_SIZE],
		   struct err *e);

/*
 * Takes the finished image file @path (relative to the store): hashed, synced,
 * made read-only, renamed to its digest. Gives the digest and size.
 */
int store_adopt(const struct store *s, const char *path, struct store_image *ret_image,
		struct err *e);

/* Points @file ("NAME.ref", "X.recipe") at the image @hex, atomically. */
int store_point(const struct store *s, const char *file, const char *hex, struct err *e);

/* What @file points at; -ENOENT where there is none. */
int store_pointed(const struct store *s, const char *file, char ret_hex[IMAGE_HEX_SIZE],
		  struct err *e);

/* The image @ref means: sha256:HEX, HEX, a unique start of 8 or more digits, or a name. */
int store_resolve(const struct store *s, const char *ref, char ret_hex[IMAGE_HEX_SIZE],
		  struct err *e);

/* Hashes the bytes under @hex. Gives the true digest, equal to @hex or not. */
int store_hash(const struct store *s, const char *hex, char ret_hex[IMAGE_HEX_SIZE], struct err *e);

/* All images, or names, sorted. Give *ret (caller frees) and the count. */
int store_images(const struct store *s, struct store_image **ret, struct err *e);
int store_names(const struct store *s, struct store_name **ret, struct err *e);

/* Removes the image and every name and recipe that points at it. */
int store_remove(const struct store *s, const char *hex, struct err *e);

#endif
