/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and verified reading. A chunk is hashed in the buffer it is answered
 * from and the stored file is not looked at again: a mapping, even a private
 * one, would show what is written to the file after it was hashed.
 */
#include "skill/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "digest/digest.h"

enum {
	IN_ORDER_CHUNKS = 3, /* only who reads in order asks for so many at once */
	AHEAD_BYTES = 1 << 20,
};

static const struct skill_store closed = { -1, -1, -1, -1 };

static int open_dir(int dirfd, const char *path, int *ret, struct err *e)
{
	*ret = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_set(e, errno, "open '%s': %s", path, strerror(errno)) : 0;
}

int skill_store_open(int dirfd, const char *path, struct skill_store *ret, struct err *e)
{
	struct skill_store s = closed;
	int rc = open_dir(dirfd, path, &s.dir, e);

	if (rc == 0)
		rc = open_dir(s.dir, "manifests", &s.manifests, e);
	if (rc == 0)
		rc = open_dir(s.dir, "blobs", &s.blobs, e);
	if (rc == 0)
		rc = open_dir(s.dir, "leaves", &s.leaves, e);
	if (rc < 0) {
		skill_store_close(&s);
		return err_wrap(e, "skills");
	}
	*ret = s;
	return 0;
}

void skill_store_close(struct skill_store *s)
{
	int fds[] = { s->dir, s->manifests, s->blobs, s->leaves };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	*s = closed;
}

int skill_store_catalog(const struct skill_store *s, struct catalog **ret, struct err *e)
{
	autofree char *text = NULL;
	size_t len = 0;
	int rc = fd_read_file(s->dir, "catalog", CATALOG_MAX, &text, &len, e);

	if (rc == -ENOENT)
		rc = 0;
	return rc < 0 ? rc : catalog_parse(text ? text : "", len, ret, e);
}

static int open_named(int dirfd, const uint8_t digest[SKILL_SHA], struct err *e)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(digest, SKILL_SHA, hex);
	int fd = openat(dirfd, hex, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? err_set(e, errno, "open '%s': %s", hex, strerror(errno)) : fd;
}

int skill_store_open_manifest(const struct skill_store *s, const uint8_t digest[SKILL_SHA],
			      struct err *e)
{
	return open_named(s->manifests, digest, e);
}

int skill_store_image(const struct skill_store *s, const uint8_t digest[SKILL_SHA],
		      struct skill_image **ret, struct err *e)
{
	autoclose int fd = open_named(s->manifests, digest, e);
	autofree char *text = NULL;
	uint8_t real[SKILL_SHA];
	size_t len;

	if (fd < 0 || fd_read_all(fd, SKILL_MANIFEST_MAX, &text, &len, e) < 0)
		return err_wrap(e, "manifest");
	digest_sha256(text, len, real);
	if (!digest_equal(real, digest, SKILL_SHA))
		return err_set(e, EBADMSG, "the stored manifest is not the one that was staged");
	return skill_image_parse(text, len, ret, e);
}

/* Exactly @len bytes at @at; a file that ends earlier is damaged. */
static int read_exactly(int fd, void *buf, size_t len, uint64_t at, struct err *e)
{
	uint8_t *p = buf;

	while (len > 0) {
		ssize_t n = pread(fd, p, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "read: %s", strerror(errno));
		if (n == 0)
			return err_set(e, EBADMSG, "the stored content is too short");
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int load_leaves(const struct skill_store *s, const uint8_t digest[SKILL_SHA], uint64_t size,
		       uint8_t **ret, struct err *e)
{
	size_t len = (size_t)skill_chunks(size) * SKILL_SHA;
	autoclose int fd = open_named(s->leaves, digest, e);
	autofree uint8_t *leaves = malloc(len);
	uint8_t real[SKILL_SHA];

	if (fd < 0)
		return err_wrap(e, "leaves");
	if (!leaves)
		return err_set(e, ENOMEM, "leaves: out of memory");
	if (read_exactly(fd, leaves, len, 0, e) < 0)
		return err_wrap(e, "leaves");
	digest_sha256(leaves, len, real);
	if (!digest_equal(real, digest, SKILL_SHA))
		return err_set(e, EBADMSG, "the stored leaves are not those that were staged");
	*ret = take_ptr(leaves);
	return 0;
}

int skill_file_open(const struct skill_store *s, const struct skill_digests *digests, uint64_t size,
		    struct skill_file *ret, struct err *e)
{
	struct skill_file f = { .fd = -1, .size = size };
	int rc = 0;

	memcpy(f.sha256, digests->sha256, SKILL_SHA);
	f.fd = open_named(s->blobs, digests->sha256, e);
	if (f.fd < 0)
		return err_wrap(e, "content");
	/* A guess per small read costs random readers most; large ones are guessed for below. */
	if (size > SKILL_CHUNK)
		posix_fadvise(f.fd, 0, 0, POSIX_FADV_RANDOM);
	if (size > SKILL_CHUNK)
		rc = load_leaves(s, digests->leaves, size, &f.leaves, e);
	if (rc < 0)
		skill_file_close(&f);
	else
		*ret = f;
	return rc;
}

void skill_file_close(struct skill_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->leaves);
	f->fd = -1;
	f->leaves = NULL;
}

void skill_file_expect(const struct skill_store *s, const uint8_t sha256[SKILL_SHA])
{
	struct err ignored;
	autoclose int fd = open_named(s->blobs, sha256, &ignored);

	if (fd >= 0)
		posix_fadvise(fd, 0, SKILL_CHUNK, POSIX_FADV_WILLNEED);
}

long skill_file_read(const struct skill_file *f, uint64_t first, uint64_t count, uint8_t *buf,
		     struct err *e)
{
	uint64_t at = first * SKILL_CHUNK, end = at + count * SKILL_CHUNK;

	if (end > f->size)
		end = f->size;
	if (at >= end && f->size > 0)
		return 0;
	if (count >= IN_ORDER_CHUNKS)
		posix_fadvise(f->fd, (off_t)end, AHEAD_BYTES, POSIX_FADV_WILLNEED);
	if (read_exactly(f->fd, buf, end - at, at, e) < 0)
		return -e->code;
	for (uint64_t pos = at, chunk = first; pos < end || chunk == 0; chunk++) {
		size_t n = end - pos < SKILL_CHUNK ? end - pos : SKILL_CHUNK;
		const uint8_t *want = f->leaves ? f->leaves + chunk * SKILL_SHA : f->sha256;
		uint8_t real[SKILL_SHA];
		digest_sha256(buf + (pos - at), n, real);
		if (!digest_equal(real, want, SKILL_SHA))
			return err_set(e, EBADMSG, "the stored content is not what was staged");
		pos += n;
	}
	return (long)(end - at);
}
