/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a reference to a mounted, verified image. The bytes are hashed once per
 * life of the worker, before their first mount; the store belongs to root.
 */
#include "worker/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "digest/digest.h"
#include "policy/reason.h"
#include "worker/mount.h"

int images_open(const char *store, const char *mounts, const char *pinned, struct images *ret,
		struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	ret->store_fd = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->store_fd < 0)
		return err_set(e, errno, "image store '%s': %s", store, strerror(errno));
	snprintf(ret->mounts, sizeof(ret->mounts), "%s", mounts);
	snprintf(ret->pinned, sizeof(ret->pinned), "%s", pinned);
	return 0;
}

/* "sha256:HEX" to its digest. */
static int parse_digest(const char *text, uint8_t *ret)
{
	if (strncmp(text, "sha256:", 7) != 0)
		return -EINVAL;
	return digest_unhex(text + 7, ret, DIGEST_LEN);
}

/* References start with an alphanumeric and stay in a plain alphabet (B8). */
static bool is_name(const char *s)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return *s && *s != '.' && *s != '_' && *s != '-' && s[strspn(s, letters)] == '\0';
}

static int resolve(struct images *s, const char *ref, uint8_t *ret, struct err *e)
{
	char file[160];
	autofree char *text = NULL;
	size_t len;

	if (!*ref)
		ref = s->pinned;
	if (!*ref)
		return err_set(e, REASON_WORKER_ERROR, "no image is pinned (set image = sha256:...)");
	if (parse_digest(ref, ret) == 0)
		return 0;
	if (!is_name(ref) || strlen(ref) > 128)
		return err_set(e, REASON_INVALID_REQUEST, "not an image reference");
	snprintf(file, sizeof(file), "%s.ref", ref);
	if (fd_read_file(s->store_fd, file, 256, &text, &len, e) < 0)
		return err_set(e, REASON_INVALID_REQUEST, "no image named '%s'", ref);
	text[strcspn(text, "\n")] = '\0';
	if (parse_digest(text, ret) < 0)
		return err_set(e, REASON_IMAGE_DIGEST_MISMATCH, "image reference '%s' is damaged",
			       ref);
	return 0;
}

static int mount_image(struct images *s, struct image *im, struct err *e)
{
	char hex[DIGEST_HEX_MAX], file[DIGEST_HEX_MAX + 8];
	uint8_t got[DIGEST_LEN];

	digest_hex(im->digest, DIGEST_LEN, hex);
	snprintf(file, sizeof(file), "%s.erofs", hex);
	autoclose int fd = fd_open_beneath(s->store_fd, file, O_RDONLY, 0, e);
	if (fd < 0)
		return err_set(e, REASON_INVALID_REQUEST, "image sha256:%s is not in the store", hex);
	if (digest_fd(fd, got, NULL, e) < 0)
		return err_set(e, REASON_WORKER_ERROR, "image sha256:%s cannot be read", hex);
	if (!digest_equal(got, im->digest, DIGEST_LEN))
		return err_set(e, REASON_IMAGE_DIGEST_MISMATCH,
			       "image sha256:%s: the bytes do not match the digest", hex);
	snprintf(im->path, sizeof(im->path), "%.3000s/image-%s", s->mounts, hex);
	if (mkdir(im->path, 0700) < 0 && errno != EEXIST)
		return err_set(e, REASON_WORKER_ERROR, "image mount point: %s", strerror(errno));
	autoclose int m = mount_file(fd, "erofs", MOUNT_RO | MOUNT_NODEV, e);
	if (m < 0 || mount_attach(m, im->path, e) < 0) {
		e->code = REASON_WORKER_ERROR;
		return -e->code;
	}
	return 0;
}

/* A free place; NULL: slots hold all of them. */
static struct image *free_place(struct images *s)
{
	struct image *oldest = NULL;

	if (s->n < IMAGES_MAX)
		return &s->list[s->n++];
	for (unsigned i = 0; i < s->n; i++) {
		struct image *im = &s->list[i];
		if (!im->slots && (!oldest || im->last_use < oldest->last_use))
			oldest = im;
	}
	if (oldest && oldest->path[0]) {
		umount2(oldest->path, MNT_DETACH);
		rmdir(oldest->path);
	}
	return oldest;
}

struct image *images_get(struct images *s, const char *ref, struct err *e)
{
	uint8_t digest[DIGEST_LEN];

	if (resolve(s, ref, digest, e) < 0)
		return NULL;
	for (unsigned i = 0; i < s->n; i++)
		if (s->list[i].path[0] && memcmp(s->list[i].digest, digest, DIGEST_LEN) == 0) {
			s->list[i].last_use = ++s->uses;
			return &s->list[i];
		}
	struct image *im = free_place(s);
	if (!im) {
		err_set(e, REASON_WORKER_ERROR, "%d images are in use already", IMAGES_MAX);
		return NULL;
	}
	*im = (struct image){ .last_use = ++s->uses };
	memcpy(im->digest, digest, DIGEST_LEN);
	if (mount_image(s, im, e) < 0) {
		im->path[0] = '\0'; /* a place without an image: the next one takes it first */
		im->last_use = 0;
		return NULL;
	}
	return im;
}
