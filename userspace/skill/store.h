/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILL_STORE_H
#define CORDON_SKILL_STORE_H

/*
 * The content-addressed store, read side. Nothing of it is believed: a
 * manifest is hashed before it is parsed, a file chunk by chunk as it is read.
 *
 *	catalog		skill/catalog.h; the one mutable file
 *	manifests/HEX	by the SHA-256 of their text
 *	blobs/HEX	contents of files, by their SHA-256
 *	leaves/HEX	the SHA-256s of a file's chunks, one after the other
 *
 * Reading needs no daemon and no lock. What changes the store is the stager.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/scope.h"
#include "skill/catalog.h"
#include "skill/image.h"

struct skill_store {
	int dir, manifests, blobs, leaves; /* -1: not open */
};

/* The directory of an instance's store, below its state directory. */
#define SKILL_STORE_NAME "skills"

/* -ENOENT where there is no store yet. */
int skill_store_open(int dirfd, const char *path, struct skill_store *ret, struct err *e);
void skill_store_close(struct skill_store *s);

/* A missing catalog is an empty one. Gives *ret. */
int skill_store_catalog(const struct skill_store *s, struct catalog **ret, struct err *e);

/* Opens the manifest without reading it: to hold a lock on a version in use. Gives a descriptor. */
int skill_store_open_manifest(const struct skill_store *s, const uint8_t digest[SKILL_SHA],
			      struct err *e);

/* -EBADMSG where the stored text is not the one of @digest. Gives *ret. */
int skill_store_image(const struct skill_store *s, const uint8_t digest[SKILL_SHA],
		      struct skill_image **ret, struct err *e);

/* --- One file of a skill, read by whole chunks */

struct skill_file {
	int fd;
	uint64_t size;
	uint8_t sha256[SKILL_SHA];
	uint8_t *leaves; /* of every chunk; NULL where the file has at most one */
};

/* Opens the content and loads its leaves. -EBADMSG where those are not the right ones. */
int skill_file_open(const struct skill_store *s, const struct skill_digests *digests, uint64_t size,
		    struct skill_file *ret, struct err *e);
void skill_file_close(struct skill_file *f);

/* Has the kernel fetch a small content that is likely to be read soon. Nothing depends on it. */
void skill_file_expect(const struct skill_store *s, const uint8_t sha256[SKILL_SHA]);

/*
 * Reads @count chunks from @first on into @buf (SKILL_CHUNK bytes each, the
 * last one shorter) and verifies every one of them there: what is in @buf
 * afterwards is what was hashed. Gives the bytes, or -EBADMSG, or -errno.
 */
long skill_file_read(const struct skill_file *f, uint64_t first, uint64_t count, uint8_t *buf,
		     struct err *e);

#endif
