/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_DIGEST_SECRETS_H
#define CORDON_DIGEST_SECRETS_H

/*
 * Versioned secrets (S4): a directory of files named by their version (1, 2,
 * ...), the highest current, the others good for verifying only. The bytes of
 * a file, less one trailing newline, are the key.
 *
 * Refused, naming the file: a directory or file that is not @owner's (or
 * root's), readable by group or world, a symbolic link, no regular file,
 * empty, over SECRET_MAX bytes, a name that is no version. Keys live in pages
 * of their own that are left out of core dumps and zeroed when freed.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/scope.h"

enum { SECRET_MAX = 1024, SECRET_VERSIONS_MAX = 32, SECRET_GENERATED_LEN = 64 };

struct secret {
	uint32_t version;
	uint32_t len;
	uint8_t key[SECRET_MAX];
};

struct secret_set;

/*
 * Loads ROOT/etc/cordon/secrets/@name, @dirfd being the secrets directory
 * (or AT_FDCWD with an absolute path as @name). Nothing is read past an
 * error. -ENOENT: no such directory or no version in it. To rotate, load again
 * and free the old set.
 */
int secrets_load(int dirfd, const char *name, uid_t owner, struct secret_set **ret,
		 struct err *e);

/* The highest version. Never NULL for a loaded set. */
const struct secret *secrets_current(const struct secret_set *set);

/* NULL when there is no such version. */
const struct secret *secrets_version(const struct secret_set *set, uint32_t version);

/* Newest first: 0 is current. NULL at the end: for verifiers that must try each. */
const struct secret *secrets_at(const struct secret_set *set, size_t i);

/* Zeroes and frees; NULL is harmless. */
void secrets_free(struct secret_set *set);
static inline void secret_set_cleanup(struct secret_set **p)
{
	secrets_free(*p);
}

/*
 * Makes @name/@version with SECRET_GENERATED_LEN random hexadecimal digits and
 * a newline, mode 0400, owned by @uid:@gid, and the directory (0700) if it is
 * missing. -EEXIST when the file is there: a secret is never overwritten.
 */
int secrets_generate(int dirfd, const char *name, uint32_t version, uid_t uid, gid_t gid,
		     struct err *e);

/* A set of one key in memory, for tests and for keys that come by another way. */
int secrets_from_key(uint32_t version, const void *key, size_t len, struct secret_set **ret,
		     struct err *e);

#endif
