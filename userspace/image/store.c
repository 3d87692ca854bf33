/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image store on disk. Knows names, digests, locks and leftovers; nothing of
 * how an image is made or what is in it.
 */
#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "digest/digest.h"
#include "image/tree.h"

enum { RESOLVE_DIGITS_MIN = 8, POINTER_MAX = 128 };

static const char SUFFIX_IMAGE[] = ".erofs";
static const char SUFFIX_NAME[] = ".ref";
static const char SUFFIX_RECIPE[] = ".recipe";
static const char PREFIX_TEMP[] = ".tmp-";
static const char PREFIX_DIGEST[] = "sha256:";

int store_open(const char *path, struct store *ret_s, struct err *e)
{
	char real[PATH_MAX];
	int r = fd_mkdir_parents(path, 0755, e);

	if (r < 0)
		return err_wrap(e, "image store");
	if (!realpath(path, real))
		return err_set(e, errno, "image store '%s': %s", path, strerror(errno));
	if (strlen(real) >= sizeof(ret_s->path))
		return err_set(e, ENAMETOOLONG, "image store: path of %zu bytes", strlen(real));
	int fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "image store '%s': %s", path, strerror(errno));
	memcpy(ret_s->path, real, strlen(real) + 1);
	ret_s->dirfd = fd;
	return 0;
}

void store_close(struct store *s)
{
	if (s->dirfd >= 0)
		close(s->dirfd);
	s->dirfd = -1;
}

static bool is_hex(const char *s, size_t len)
{
	return strspn(s, "0123456789abcdef") >= len;
}

bool store_name_is_valid(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > IMAGE_NAME_MAX || name[0] == '.' || name[0] == '-' || name[0] == '_')
		return false;
	if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != len)
		return false;
	return !(len >= RESOLVE_DIGITS_MIN && is_hex(name, len));
}

static DIR *open_listing(const struct store *s, struct err *e)
{
	autoclose int fd = openat(s->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		err_set(e, errno, "list '%s': %s", s->path, strerror(errno));
	else
		take_fd(&fd);
	return dir;
}

/* --- locks and leftovers */

int store_lock(const struct store *s, const char *kind, bool wait, struct err *e)
{
	char name[STORE_TEMP_SIZE];

	snprintf(name, sizeof(name), ".lock-%s", kind);
	autoclose int fd = openat(s->dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(e, errno, "lock '%s/%s': %s", s->path, name, strerror(errno));
	while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "lock '%s/%s': %s", s->path, name,
				       strerror(errno));
	return take_fd(&fd);
}

/* ".tmp-KIND-XXXXXX" -> KIND; false for anything else. */
static bool temp_kind(const char *name, char ret_kind[IMAGE_NAME_MAX + 1])
{
	size_t head = strlen(PREFIX_TEMP);

	if (strncmp(name, PREFIX_TEMP, head) != 0)
		return false;
	const char *dash = strrchr(name + head, '-');
	if (!dash || dash == name + head || dash - (name + head) > IMAGE_NAME_MAX)
		return false;
	snprintf(ret_kind, IMAGE_NAME_MAX + 1, "%.*s", (int)(dash - (name + head)), name + head);
	return store_name_is_valid(ret_kind);
}

/* @held: the one kind whose lock the caller has; NULL to take each lock that is free. */
static int sweep(const struct store *s, const char *held, struct err *e)
{
	DIR *dir = open_listing(s, e);
	struct dirent *d;
	int r = 0;

	if (!dir)
		return -e->code;
	while (r == 0 && (d = readdir(dir))) {
		char kind[IMAGE_NAME_MAX + 1];
		autoclose int lock = -1;

		if (!temp_kind(d->d_name, kind) || (held && strcmp(kind, held) != 0))
			continue;
		if (!held && (lock = store_lock(s, kind, false, e)) < 0)
			continue;
		r = tree_remove(s->path, d->d_name, e);
	}
	closedir(dir);
	return r;
}

int store_sweep(const struct store *s, struct err *e)
{
	return sweep(s, NULL, e);
}

int store_sweep_kind(const struct store *s, const char *kind, struct err *e)
{
	return sweep(s, kind, e);
}

int store_temp_dir(const struct store *s, const char *kind, char ret_name[STORE_TEMP_SIZE],
		   struct err *e)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s%s-XXXXXX", s->path, PREFIX_TEMP, kind);

	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, ENAMETOOLONG, "image store: path too long");
	if (!mkdtemp(path))
		return err_set(e, errno, "make '%s': %s", path, strerror(errno));
	snprintf(ret_name, STORE_TEMP_SIZE, "%s", path + strlen(s->path) + 1);
	return 0;
}

/* --- images */

static void image_file(const char *hex, char ret[IMAGE_HEX_SIZE + sizeof(SUFFIX_IMAGE)])
{
	snprintf(ret, IMAGE_HEX_SIZE + sizeof(SUFFIX_IMAGE), "%.64s%s", hex, SUFFIX_IMAGE);
}

static int hash_file(const struct store *s, const char *file, char ret_hex[IMAGE_HEX_SIZE],
		     uint64_t *ret_size, struct err *e)
{
	uint8_t digest[32];
	autoclose int fd = openat(s->dirfd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return err_set(e, errno, "open '%s/%s': %s", s->path, file, strerror(errno));
	if (digest_fd(fd, digest, ret_size, e) < 0)
		return err_wrap(e, file);
	digest_hex(digest, sizeof(digest), ret_hex);
	return 0;
}

int store_hash(const struct store *s, const char *hex, char ret_hex[IMAGE_HEX_SIZE], struct err *e)
{
	char file[IMAGE_HEX_SIZE + sizeof(SUFFIX_IMAGE)];
	uint64_t size;

	image_file(hex, file);
	return hash_file(s, file, ret_hex, &size, e);
}

int store_adopt(const struct store *s, const char *path, struct store_image *ret_image,
		struct err *e)
{
	char file[IMAGE_HEX_SIZE + sizeof(SUFFIX_IMAGE)];
	struct store_image made = { .made = time(NULL) };
	autoclose int fd = openat(s->dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fchmod(fd, 0444) < 0 || fsync(fd) < 0)
		return err_set(e, errno, "finish '%s/%s': %s", s->path, path, strerror(errno));
	if (hash_file(s, path, made.hex, &made.size_bytes, e) < 0)
		return -e->code;
	image_file(made.hex, file);
	if (renameat(s->dirfd, path, s->dirfd, file) < 0 || fsync(s->dirfd) < 0)
		return err_set(e, errno, "name '%s/%s': %s", s->path, file, strerror(errno));
	*ret_image = made;
	return 0;
}

/* --- pointers: names and recipes */

int store_point(const struct store *s, const char *file, const char *hex, struct err *e)
{
	char text[POINTER_MAX];
	int len = snprintf(text, sizeof(text), "%s%.64s\n", PREFIX_DIGEST, hex);

	return fd_replace_file(s->dirfd, file, text, (size_t)len, 0644, e);
}

int store_pointed(const struct store *s, const char *file, char ret_hex[IMAGE_HEX_SIZE],
		  struct err *e)
{
	const size_t head = strlen(PREFIX_DIGEST);
	autofree char *text = NULL;
	size_t len;
	int r = fd_read_file(s->dirfd, file, POINTER_MAX, &text, &len, e);

	if (r < 0)
		return r;
	if (len != head + IMAGE_HEX + 1 || strncmp(text, PREFIX_DIGEST, head) != 0 ||
	    !is_hex(text + head, IMAGE_HEX) || text[len - 1] != '\n')
		return err_set(e, EBADMSG, "'%s/%s' holds no digest", s->path, file);
	snprintf(ret_hex, IMAGE_HEX_SIZE, "%.64s", text + head);
	return 0;
}

/* --- lists */

/* "X<suffix>" -> length of X, 0 for anything else. */
static size_t stem(const char *name, const char *suffix)
{
	size_t len = strlen(name), tail = strlen(suffix);

	return len > tail && strcmp(name + len - tail, suffix) == 0 ? len - tail : 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b); /* both row types begin with their text */
}

typedef int (*row_fn)(const struct store *s, const char *file, void *ret_row, struct err *e);

/* 1 and the row filled in, 0 for a file of another kind. */
static int image_row(const struct store *s, const char *file, void *ret_row, struct err *e)
{
	struct store_image *row = ret_row;
	struct stat st;

	(void)e;
	if (stem(file, SUFFIX_IMAGE) != IMAGE_HEX || !is_hex(file, IMAGE_HEX))
		return 0;
	if (fstatat(s->dirfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0; /* removed meanwhile, or not ours */
	snprintf(row->hex, sizeof(row->hex), "%.64s", file);
	row->size_bytes = (uint64_t)st.st_size;
	row->made = st.st_mtime;
	return 1;
}

static int name_row(const struct store *s, const char *file, void *ret_row, struct err *e)
{
	struct store_name *row = ret_row;
	size_t len = stem(file, SUFFIX_NAME);

	if (len == 0 || len > IMAGE_NAME_MAX)
		return 0;
	int r = store_pointed(s, file, row->hex, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	snprintf(row->name, sizeof(row->name), "%.*s", (int)len, file);
	return 1;
}

static int list(const struct store *s, row_fn make, size_t row_size, size_t max, void **ret,
		struct err *e)
{
	autofree char *rows = calloc(max, row_size);
	DIR *dir = open_listing(s, e);
	struct dirent *d;
	size_t n = 0;
	int r = 0;

	if (!dir)
		return -e->code;
	if (!rows) {
		closedir(dir);
		return err_set(e, ENOMEM, "list '%s': out of memory", s->path);
	}
	while (r >= 0 && (d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		if (n == max)
			r = err_set(e, E2BIG, "'%s' holds more than %zu entries", s->path, max);
		else if ((r = make(s, d->d_name, rows + n * row_size, e)) > 0)
			n++;
	}
	closedir(dir);
	if (r < 0)
		return r;
	qsort(rows, n, row_size, by_text);
	*ret = take_ptr(rows);
	return (int)n;
}

int store_images(const struct store *s, struct store_image **ret, struct err *e)
{
	return list(s, image_row, sizeof(**ret), STORE_IMAGES_MAX, (void **)ret, e);
}

int store_names(const struct store *s, struct store_name **ret, struct err *e)
{
	return list(s, name_row, sizeof(**ret), STORE_NAMES_MAX, (void **)ret, e);
}

/* --- references */

static int resolve_digits(const struct store *s, const char *digits, char ret_hex[IMAGE_HEX_SIZE],
			  struct err *e)
{
	autofree struct store_image *images = NULL;
	int n = store_images(s, &images, e), found = 0;

	for (int i = 0; i < n; i++)
		if (strncmp(images[i].hex, digits, strlen(digits)) == 0 && ++found == 1)
			memcpy(ret_hex, images[i].hex, IMAGE_HEX_SIZE);
	if (n < 0)
		return n;
	if (found > 1)
		return err_set(e, EINVAL, "'%s' is the start of %d images", digits, found);
	return found ? 0 : err_set(e, ENOENT, "no image sha256:%s in '%s'", digits, s->path);
}

int store_resolve(const struct store *s, const char *ref, char ret_hex[IMAGE_HEX_SIZE],
		  struct err *e)
{
	const size_t head = strlen(PREFIX_DIGEST);
	const char *digits = strncmp(ref, PREFIX_DIGEST, head) == 0 ? ref + head : ref;
	char file[IMAGE_NAME_MAX + sizeof(SUFFIX_NAME)];
	size_t len = strlen(digits);

	if (len >= RESOLVE_DIGITS_MIN && len <= IMAGE_HEX && is_hex(digits, len))
		return resolve_digits(s, digits, ret_hex, e);
	if (!store_name_is_valid(ref))
		return err_set(e, EINVAL, "'%.80s' is no image reference (sha256:HEX or a name)",
			       ref);
	snprintf(file, sizeof(file), "%.*s%s", IMAGE_NAME_MAX, ref, SUFFIX_NAME);
	int r = store_pointed(s, file, ret_hex, e);
	if (r == -ENOENT)
		return err_set(e, ENOENT, "no image named '%s' in '%s'", ref, s->path);
	return r;
}

/* --- removal: pointers first, so that none ever points at nothing */

static int unlink_file(const struct store *s, const char *file, struct err *e)
{
	if (unlinkat(s->dirfd, file, 0) < 0 && errno != ENOENT)
		return err_set(e, errno, "remove '%s/%s': %s", s->path, file, strerror(errno));
	return 0;
}

static int remove_pointers(const struct store *s, const char *hex, struct err *e)
{
	DIR *dir = open_listing(s, e);
	struct dirent *d;
	int r = 0;

	if (!dir)
		return -e->code;
	while (r == 0 && (d = readdir(dir))) {
		char points[IMAGE_HEX_SIZE];
		struct err unreadable;

		if (!stem(d->d_name, SUFFIX_NAME) && !stem(d->d_name, SUFFIX_RECIPE))
			continue;
		if (store_pointed(s, d->d_name, points, &unreadable) == 0 &&
		    strcmp(points, hex) == 0)
			r = unlink_file(s, d->d_name, e);
	}
	closedir(dir);
	return r;
}

int store_remove(const struct store *s, const char *hex, struct err *e)
{
	char file[IMAGE_HEX_SIZE + sizeof(SUFFIX_IMAGE)];
	int r = remove_pointers(s, hex, e);

	image_file(hex, file);
	return r < 0 ? r : unlink_file(s, file, e);
}
