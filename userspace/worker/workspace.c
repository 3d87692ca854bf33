/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces: making, mounting, measuring, removing. The meta file is written
 * after the image and removed before it: an image without meta never held a
 * command's work and is swept; a meta without image is a workspace that was
 * lost, and says so instead of looking empty (W1).
 */
#include "worker/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/scope.h"
#include "digest/digest.h"
#include "policy/reason.h"
#include "proto/launcher.h"
#include "worker/ext4.h"
#include "worker/mount.h"

enum { META_MAX = 1024 };

static void file_name(const uint8_t key[32], const char *suffix, char *ret, size_t size)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(key, DIGEST_LEN, hex);
	snprintf(ret, size, "%s%s", hex, suffix);
}

/* True when @name is 64 hex digits and @suffix; the key in @ret. */
static bool is_file_of(const char *name, const char *suffix, uint8_t ret[32])
{
	char hex[DIGEST_HEX_MAX];
	size_t n = strlen(name);

	if (n != 64 + strlen(suffix) || strcmp(name + 64, suffix) != 0)
		return false;
	memcpy(hex, name, 64);
	hex[64] = '\0';
	return digest_unhex(hex, ret, DIGEST_LEN) == 0;
}

static bool exists(int dirfd, const char *name)
{
	return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Calls @each with every name in the directory. */
static int each_name(int dirfd, void (*each)(void *ctx, const char *name), void *ctx, struct err *e)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		scope_close(&fd);
		return err_set(e, errno, "read workspaces: %s", strerror(errno));
	}
	for (struct dirent *de; (de = readdir(d));)
		each(ctx, de->d_name);
	closedir(d);
	return 0;
}

/* What a killed worker left: temporary files, and images that never got their meta. */
static void sweep_name(void *ctx, const char *name)
{
	struct workspaces *w = ctx;
	uint8_t key[32];
	char meta[96];
	size_t n = strlen(name);

	if (n > 4 && strcmp(name + n - 4, ".new") == 0) {
		unlinkat(w->dir_fd, name, 0);
		return;
	}
	if (!is_file_of(name, ".ext4", key))
		return;
	file_name(key, ".meta", meta, sizeof(meta));
	if (!exists(w->dir_fd, meta))
		unlinkat(w->dir_fd, name, 0);
}

int workspaces_open(const char *dir, const char *mounts, struct workspaces *ret, struct err *e)
{
	memset(ret, 0, sizeof(*ret));
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", dir, strerror(errno));
	ret->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir_fd < 0)
		return err_set(e, errno, "open '%s': %s", dir, strerror(errno));
	snprintf(ret->mounts, sizeof(ret->mounts), "%s", mounts);
	return each_name(ret->dir_fd, sweep_name, ret, e);
}

/* "size=N\nlabel=TEXT\n" */
static int read_meta(struct workspaces *w, const uint8_t key[32], uint64_t *ret_quota, char *label,
		     size_t label_size)
{
	char name[96];
	autofree char *text = NULL;
	struct err e;

	file_name(key, ".meta", name, sizeof(name));
	if (fd_read_file(w->dir_fd, name, META_MAX, &text, NULL, &e) < 0)
		return -e.code;
	if (sscanf(text, "size=%" SCNu64 "\n", ret_quota) != 1)
		return -EINVAL;
	char *l = strstr(text, "\nlabel=");
	if (label && l) {
		l += 7;
		l[strcspn(l, "\n")] = '\0';
		snprintf(label, label_size, "%s", l);
	}
	return 0;
}

static int write_meta(struct workspaces *w, const struct w_run *run, struct err *e)
{
	char name[96], text[META_MAX];
	char label[PROTO_LABEL_MAX];

	memcpy(label, run->workspace_label, sizeof(label));
	label[sizeof(label) - 1] = '\0';
	label[strcspn(label, "\n")] = '\0';
	file_name(run->workspace_key, ".meta", name, sizeof(name));
	int n = snprintf(text, sizeof(text), "size=%" PRIu64 "\nlabel=%s\n",
			 run->limits.workspace_bytes, label);
	return fd_replace_file(w->dir_fd, name, text, (size_t)n, 0600, e);
}

static void unmount(struct workspace_mount *m)
{
	umount2(m->path, MNT_DETACH);
	rmdir(m->path);
	m->is_used = false;
}

static struct workspace_mount *find_mounted(struct workspaces *w, const uint8_t key[32])
{
	for (int i = 0; i < WORKSPACES_MOUNTED; i++)
		if (w->mounted[i].is_used && memcmp(w->mounted[i].key, key, 32) == 0)
			return &w->mounted[i];
	return NULL;
}

/* A free place, the longest unused mount giving way. NULL: all are in use. */
static struct workspace_mount *free_place(struct workspaces *w)
{
	struct workspace_mount *oldest = NULL;

	for (int i = 0; i < WORKSPACES_MOUNTED; i++) {
		struct workspace_mount *m = &w->mounted[i];
		if (!m->is_used)
			return m;
		if (!m->in_use && (!oldest || m->last_use < oldest->last_use))
			oldest = m;
	}
	if (oldest)
		unmount(oldest);
	return oldest;
}

static int mount_keyed(struct workspaces *w, const struct w_run *run, uint64_t quota,
		       struct workspace_mount **ret, struct err *e)
{
	char name[96];
	struct workspace_mount *m = free_place(w);

	if (!m)
		return err_set(e, REASON_WORKER_ERROR, "all %d workspace mounts are in use",
			       WORKSPACES_MOUNTED);
	file_name(run->workspace_key, ".ext4", name, sizeof(name));
	autoclose int fd = fd_open_beneath(w->dir_fd, name, O_RDWR, 0, e);
	if (fd < 0)
		return err_set(e, REASON_WORKSPACE_LOST, "the workspace's image is gone");
	autoclose int mnt = mount_file(fd, "ext4", MOUNT_NODEV, e);
	if (mnt < 0)
		return err_set(e, REASON_WORKSPACE_LOST, "the workspace's image does not mount");
	snprintf(m->path, sizeof(m->path), "%.3000s/ws-%.64s", w->mounts, name);
	if (mkdir(m->path, 0700) < 0 && errno != EEXIST)
		return err_set(e, REASON_WORKER_ERROR, "workspace mount point: %s", strerror(errno));
	if (mount_attach(mnt, m->path, e) < 0) {
		e->code = REASON_WORKER_ERROR;
		return -e->code;
	}
	unlinkat(mnt, "lost+found", AT_REMOVEDIR);
	memcpy(m->key, run->workspace_key, 32);
	m->quota_bytes = quota;
	m->is_used = true;
	*ret = m;
	return 0;
}

/* A new workspace: image first, then the meta that makes it count. */
static int make_keyed(struct workspaces *w, const struct w_run *run, struct err *e)
{
	char name[96];

	file_name(run->workspace_key, ".ext4", name, sizeof(name));
	if (ext4_make(w->dir_fd, name, limits_workspace_hard_bytes(run->limits.workspace_bytes),
		      limits_workspace_inodes(run->limits.workspace_bytes), SANDBOX_ID, e) < 0 ||
	    fault_step("workspace.image", e) < 0 || write_meta(w, run, e) < 0) {
		unlinkat(w->dir_fd, name, 0);
		e->code = REASON_WORKER_ERROR;
		return err_wrap(e, "workspace");
	}
	return 0;
}

/* The mount of the keyed workspace, made where this is its first command. */
static int get_keyed(struct workspaces *w, const struct w_run *run, struct workspace_mount **ret,
		     struct err *e)
{
	uint64_t quota = run->limits.workspace_bytes;
	struct workspace_mount *m = find_mounted(w, run->workspace_key);
	int rc = m ? 0 : read_meta(w, run->workspace_key, &quota, NULL, 0);

	if (m)
		quota = m->quota_bytes;
	if (rc < 0 && (rc != -ENOENT || run->workspace_expect))
		return err_set(e, REASON_WORKSPACE_LOST, "the run's workspace is no longer there");
	if (rc == 0 && (run->flags & RUN_WORKSPACE_SIZE_ASKED) &&
	    quota != run->limits.workspace_bytes)
		return err_set(e, REASON_INVALID_REQUEST,
			       "workspace-size: this run's workspace has %" PRIu64
			       " bytes and keeps them",
			       quota);
	if (m && m->in_use)
		return err_set(e, REASON_WORKER_ERROR, "the workspace is in use");
	if (rc < 0 && make_keyed(w, run, e) < 0)
		return -e->code;
	if (!m && mount_keyed(w, run, quota, &m, e) < 0)
		return -e->code;
	*ret = m;
	return 0;
}

static int get_ephemeral(const struct w_run *run, uid_t host_uid, struct workspace *ret,
			 struct err *e)
{
	uint64_t quota = run->limits.workspace_bytes;
	int mnt = mount_tmpfs(limits_workspace_hard_bytes(quota), limits_workspace_inodes(quota),
			      host_uid, "755", MOUNT_NODEV, e);

	if (mnt < 0 || (ret->statfs_fd = dup(mnt)) < 0) {
		scope_close(&mnt);
		return err_set(e, REASON_WORKER_ERROR, "workspace: %s", strerror(errno));
	}
	ret->quota_bytes = quota;
	return mnt;
}

int workspace_get(struct workspaces *w, const struct w_run *run, int userns_fd, uid_t host_uid,
		  struct workspace *ret, struct err *e)
{
	struct workspace_mount *m = NULL;
	int mnt;

	*ret = (struct workspace){ .statfs_fd = -1 };
	if (run->workspace == WORKSPACE_EPHEMERAL)
		return get_ephemeral(run, host_uid, ret, e);
	if (run->workspace != WORKSPACE_KEYED)
		return err_set(e, REASON_WORKER_ERROR, "workspace kind %u", run->workspace);
	if (get_keyed(w, run, &m, e) < 0)
		return -e->code;
	mnt = mount_clone(m->path, MOUNT_NODEV, userns_fd, e);
	if (mnt < 0) {
		e->code = REASON_WORKER_ERROR;
		return -e->code;
	}
	ret->statfs_fd = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ret->quota_bytes = m->quota_bytes;
	ret->keyed = m;
	m->in_use = true;
	m->last_use = ++w->uses;
	return mnt;
}

void workspace_measure(const struct workspace *ws, uint64_t *ret_bytes, bool *ret_over)
{
	struct statfs s;

	*ret_bytes = 0;
	*ret_over = false;
	if (ws->statfs_fd < 0 || fstatfs(ws->statfs_fd, &s) < 0)
		return;
	*ret_bytes = (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
	*ret_over = *ret_bytes > ws->quota_bytes || s.f_ffree == 0;
}

void workspace_done(struct workspace *ws)
{
	if (ws->keyed)
		ws->keyed->in_use = false;
	ws->keyed = NULL;
	scope_close(&ws->statfs_fd);
	ws->statfs_fd = -1;
}

int workspace_remove(struct workspaces *w, const uint8_t key[32], struct err *e)
{
	struct workspace_mount *m = find_mounted(w, key);
	char meta[96], image[96];

	if (m && m->in_use)
		return err_set(e, EBUSY, "the workspace is in use");
	if (m)
		unmount(m);
	file_name(key, ".meta", meta, sizeof(meta));
	file_name(key, ".ext4", image, sizeof(image));
	/* Meta last here: a removal cut short leaves "lost", never "empty". */
	int had_image = unlinkat(w->dir_fd, image, 0) == 0;
	if (unlinkat(w->dir_fd, meta, 0) < 0 && !had_image)
		return err_set(e, ENOENT, "no such workspace");
	return 0;
}

struct listing {
	struct workspaces *w;
	void (*each)(void *ctx, const struct w_workspace_entry *);
	void *ctx;
};

static void list_name(void *ctx, const char *name)
{
	struct listing *l = ctx;
	struct w_workspace_entry entry = { .req = 0 };
	struct stat st;
	char image[96];

	if (!is_file_of(name, ".meta", entry.key))
		return;
	if (read_meta(l->w, entry.key, &entry.quota_bytes, entry.label, sizeof(entry.label)) < 0)
		entry.lost = 1;
	file_name(entry.key, ".ext4", image, sizeof(image));
	if (fstatat(l->w->dir_fd, image, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		entry.lost = 1;
	} else {
		entry.used_bytes = (uint64_t)st.st_blocks * 512;
		entry.mtime_s = (uint64_t)st.st_mtime;
	}
	struct workspace_mount *m = find_mounted(l->w, entry.key);
	entry.in_use = m && m->in_use;
	l->each(l->ctx, &entry);
}

int workspaces_list(struct workspaces *w, void (*each)(void *ctx, const struct w_workspace_entry *),
		    void *ctx, struct err *e)
{
	struct listing l = { .w = w, .each = each, .ctx = ctx };

	return each_name(w->dir_fd, list_name, &l, e);
}
