/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON side of an OCI image layout. Refuses what it does not know: other
 * digests than SHA-256, other media types, layers to be fetched from elsewhere, a
 * layout that holds several images for this machine.
 */
#include "image/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "json/json.h"

enum { DOCUMENT_MAX = 4 << 20, DOCUMENT_DEPTH = 16, INDEX_DEPTH = 3 };

#if defined(__x86_64__)
static const char ARCHITECTURE[] = "amd64";
#elif defined(__aarch64__)
static const char ARCHITECTURE[] = "arm64";
#else
static const char ARCHITECTURE[] = "unknown";
#endif

static const char *const INDEXES[] = {
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
};
static const char *const MANIFESTS[] = {
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json",
};
static const char *const LAYERS[] = {
	"application/vnd.oci.image.layer.v1.tar",
	"application/vnd.oci.image.layer.v1.tar+gzip",
	"application/vnd.docker.image.rootfs.diff.tar.gzip",
};

static bool is_one_of(const char *s, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(s, words[i]) == 0)
			return true;
	return false;
}

/* --- blobs */

struct descriptor {
	const char *media_type; /* borrowed from its document */
	struct layer blob;
};

static int read_descriptor(const json_t *v, struct descriptor *ret, struct err *e)
{
	const char *type = json_string_value(json_object_get(v, "mediaType"));
	const char *digest = json_string_value(json_object_get(v, "digest"));
	const json_t *size = json_object_get(v, "size");
	uint8_t bytes[DIGEST_LEN];

	if (!type || !digest || !json_is_integer(size) || json_integer_value(size) < 0)
		return err_set(e, EINVAL, "a descriptor lacks mediaType, digest or size");
	if (strncmp(digest, "sha256:", 7) != 0 || digest_unhex(digest + 7, bytes, DIGEST_LEN) < 0)
		return err_set(e, EINVAL, "'%.80s' is no SHA-256 digest", digest);
	ret->media_type = type;
	ret->blob.size_bytes = (uint64_t)json_integer_value(size);
	memcpy(ret->blob.hex, digest + 7, DIGEST_HEX_MAX);
	return 0;
}

int layout_open_layer(const struct layout *l, const struct layer *layer, struct err *e)
{
	char path[sizeof("blobs/sha256/") + DIGEST_HEX_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "blobs/sha256/%.64s", layer->hex);
	autoclose int fd = fd_open_beneath(l->dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, e);
	if (fd < 0)
		return err_wrap(e, "image layout");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "blob sha256:%.64s is not a regular file", layer->hex);
	if ((uint64_t)st.st_size != layer->size_bytes)
		return err_set(
			e, EBADMSG, "blob sha256:%.64s has %lld bytes, its descriptor says %llu",
			layer->hex, (long long)st.st_size, (unsigned long long)layer->size_bytes);
	return take_fd(&fd);
}

/* A JSON blob, its digest checked over the very bytes that are parsed. */
static json_t *read_document(const struct layout *l, const struct layer *blob, struct err *e)
{
	autoclose int fd = layout_open_layer(l, blob, e);
	autofree char *text = NULL;
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];
	size_t len;

	if (fd < 0 || fd_read_all(fd, DOCUMENT_MAX, &text, &len, e) < 0)
		return NULL;
	digest_sha256(text, len, digest);
	digest_hex(digest, sizeof(digest), hex);
	if (strcmp(hex, blob->hex) != 0) {
		err_set(e, EBADMSG,
			"image_digest_mismatch: blob sha256:%.64s has bytes of sha256:%s",
			blob->hex, hex);
		return NULL;
	}
	json_t *v = json_parse_strict(text, len, DOCUMENT_DEPTH, e);
	if (!v)
		err_wrap(e, "image layout");
	return v;
}

/* --- index: find the one manifest for this machine */

static bool is_for_us(const json_t *entry)
{
	const json_t *platform = json_object_get(entry, "platform");
	const char *os = json_string_value(json_object_get(platform, "os"));
	const char *arch = json_string_value(json_object_get(platform, "architecture"));

	return !platform ||
	       (os && arch && strcmp(os, "linux") == 0 && strcmp(arch, ARCHITECTURE) == 0);
}

/* The one entry of @index for this machine. */
static int choose(const json_t *index, struct descriptor *ret, struct err *e)
{
	const json_t *entries = json_object_get(index, "manifests"), *entry;
	size_t i, fitting = 0;

	json_array_foreach(entries, i, entry)
	{
		struct descriptor d;

		if (!is_for_us(entry))
			continue;
		if (read_descriptor(entry, &d, e) < 0)
			return -e->code;
		*ret = d;
		fitting++;
	}
	if (fitting == 1)
		return 0;
	return err_set(e, EINVAL, "the layout holds %zu images for linux/%s, not one", fitting,
		       ARCHITECTURE);
}

static int read_layers(const json_t *manifest, struct layout *l, struct err *e)
{
	const json_t *layers = json_object_get(manifest, "layers"), *row;
	size_t i;

	if (!json_is_array(layers) || json_array_size(layers) == 0)
		return err_set(e, EINVAL, "the manifest names no layers");
	if (json_array_size(layers) > LAYERS_MAX)
		return err_set(e, E2BIG, "more than %d layers", LAYERS_MAX);
	json_array_foreach(layers, i, row)
	{
		struct descriptor d;

		if (read_descriptor(row, &d, e) < 0)
			return -e->code;
		if (json_object_get(row, "urls") ||
		    !is_one_of(d.media_type, LAYERS, ARRAY_SIZE(LAYERS)))
			return err_set(e, ENOTSUP, "layer of type '%.100s'", d.media_type);
		l->layers[l->n++] = d.blob;
	}
	return 0;
}

static int read_image(const json_t *index, struct layout *l, struct err *e)
{
	auto_json json_t *held = NULL;
	struct descriptor d;

	for (int depth = 0; depth < INDEX_DEPTH; depth++) {
		if (choose(index, &d, e) < 0)
			return -e->code;
		bool is_index = is_one_of(d.media_type, INDEXES, ARRAY_SIZE(INDEXES));
		if (!is_index && !is_one_of(d.media_type, MANIFESTS, ARRAY_SIZE(MANIFESTS)))
			return err_set(e, ENOTSUP, "image of type '%.100s'", d.media_type);
		json_t *next = read_document(l, &d.blob, e);
		json_decref(held);
		held = next;
		if (!held)
			return -e->code;
		if (!is_index)
			return read_layers(held, l, e);
		index = held;
	}
	return err_set(e, EINVAL, "indexes nested more than %d deep", INDEX_DEPTH);
}

int layout_open(const char *path, struct layout *ret, struct err *e)
{
	struct layout l = { .dirfd = -1 };
	auto_json json_t *index = NULL;
	autofree char *text = NULL;
	size_t len;

	autoclose int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, errno, "image layout '%s': %s", path, strerror(errno));
	l.dirfd = dir;
	autoclose int fd = fd_open_beneath(dir, "index.json", O_RDONLY, 0, e);
	if (fd < 0 || fd_read_all(fd, DOCUMENT_MAX, &text, &len, e) < 0)
		return err_wrap(e, path);
	index = json_parse_strict(text, len, DOCUMENT_DEPTH, e);
	if (!index)
		return err_wrap(e, "index.json");
	if (read_image(index, &l, e) < 0)
		return -e->code;
	take_fd(&dir);
	*ret = l;
	return 0;
}

void layout_close(struct layout *l)
{
	if (l->dirfd >= 0)
		close(l->dirfd);
	l->dirfd = -1;
}
