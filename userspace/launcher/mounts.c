/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the mount tree of the plan inside the slot's own mount namespace and
 * leaves the host's behind. Images, /dev, workspace and view arrive as
 * detached mounts from the worker; everything else is made here.
 *
 * Every target is opened beneath the new root without following any symbolic
 * link, and must be a directory (or, for a mask, a file of procfs): an image
 * with /dev or /workspace as a link is refused before anything is mounted on
 * it (ESCAPES a7, a8).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/plan.h"

enum { PROC_MAGIC = 0x9fa0 };

static int sys_move_mount(int from, int to)
{
	return (int)syscall(SYS_move_mount, from, "", to, "",
			    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static int sys_open_tree(int dirfd, const char *path)
{
	return (int)syscall(SYS_open_tree, dirfd, path,
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
				    (*path ? 0 : AT_EMPTY_PATH));
}

/* @target is absolute in the plan and opened beneath @root. O_PATH descriptor or -1. */
static int open_target(int root, const char *target, bool directory)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW | (directory ? O_DIRECTORY : 0),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, root, target, &how, sizeof(how));
}

static const struct plan_mount *row(const char *target)
{
	for (unsigned i = 0; i < plan_mounts_count; i++)
		if (strcmp(plan_mounts[i].target, target) == 0)
			return &plan_mounts[i];
	return NULL;
}

static unsigned attributes(unsigned flags)
{
	return (flags & PLAN_RO ? MOUNT_ATTR_RDONLY : 0) |
	       (flags & PLAN_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
	       (flags & PLAN_NODEV ? MOUNT_ATTR_NODEV : 0) |
	       (flags & PLAN_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
}

struct option {
	const char *key, *value;
};

/* A fresh detached filesystem with the plan's flags. */
static int fresh(const char *type, const struct option *o, unsigned n, unsigned flags)
{
	int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	int fd = -1;

	if (fs < 0)
		return -1;
	bool ok = true;
	for (unsigned i = 0; ok && i < n; i++)
		ok = syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, o[i].key, o[i].value, 0) == 0;
	if (ok && syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes(flags));
	int saved = errno;
	close(fs);
	errno = saved;
	return fd;
}

/* Attaches @fd (closed either way) on @target beneath @root. */
static int attach(int root, const char *target, bool directory, int fd, struct failure *f)
{
	int at, rc;

	if (fd < 0)
		return fail(f, errno, target);
	at = open_target(root, target, directory);
	rc = at < 0 ? -1 : sys_move_mount(fd, at);
	int saved = errno;
	if (at >= 0)
		close(at);
	close(fd);
	return rc < 0 ? fail(f, saved, target) : 0;
}

static void put_decimal(char *buf, size_t size, uint64_t v)
{
	char *p = buf + size - 1;

	*p = '\0';
	do {
		*--p = (char)('0' + v % 10);
		v /= 10;
	} while (v && p > buf);
	memmove(buf, p, (size_t)(buf + size - p));
}

static int attach_tmpfs(int root, const char *target, uint64_t bytes, struct failure *f)
{
	char size[24], inodes[24];

	put_decimal(size, sizeof(size), bytes);
	put_decimal(inodes, sizeof(inodes), bytes / 4096 + 1024);
	const struct option o[] = { { "size", size }, { "nr_inodes", inodes }, { "mode", "1777" } };

	return attach(root, target, true, fresh("tmpfs", o, 3, row(target)->flags), f);
}

static int set_flags(int fd, unsigned flags)
{
	struct mount_attr a = { .attr_set = attributes(flags) };

	return (int)syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &a, sizeof(a));
}

/* @fd's own filesystem is procfs: nobody swapped the target (ESCAPES a6). */
static bool is_procfs(int fd)
{
	struct statfs s;

	return fstatfs(fd, &s) == 0 && s.f_type == PROC_MAGIC;
}

/* Covers one file or directory of procfs. A name this kernel lacks needs no cover. */
static int cover(int root, const struct plan_mount *m, int empty_fd, struct failure *f)
{
	int src, at = open_target(root, m->target, m->kind != PLAN_MASK_FILE);

	if (at < 0)
		return errno == ENOENT && m->kind != PLAN_READONLY ? 0 :
								     fail(f, errno, m->target);
	if (!is_procfs(at)) {
		close(at);
		return fail(f, EPERM, m->target);
	}
	if (m->kind == PLAN_MASK_DIR)
		src = sys_open_tree(empty_fd, "");
	else if (m->kind == PLAN_MASK_FILE)
		src = sys_open_tree(root, "dev/null");
	else
		src = sys_open_tree(at, "");
	int rc = src < 0 ? -1 : set_flags(src, m->flags);
	if (rc == 0)
		rc = sys_move_mount(src, at);
	int saved = errno;
	if (src >= 0)
		close(src);
	close(at);
	return rc < 0 ? fail(f, saved, m->target) : 0;
}

static int cover_all(int root, struct failure *f)
{
	const struct option o[] = { { "size", "4096" }, { "nr_inodes", "1" }, { "mode", "555" } };
	const struct plan_mount *first = NULL;
	int empty = -1, rc = 0;

	for (unsigned i = 0; rc == 0 && i < plan_mounts_count; i++) {
		const struct plan_mount *m = &plan_mounts[i];
		if (m->kind != PLAN_MASK_DIR && m->kind != PLAN_MASK_FILE &&
		    m->kind != PLAN_READONLY)
			continue;
		if (m->kind == PLAN_MASK_DIR && !first) {
			/* The first cover is attached, so that the rest can be cloned from it. */
			int at = open_target(root, m->target, true);
			if (at < 0)
				continue;
			close(at);
			rc = attach(root, m->target, true, fresh("tmpfs", o, 3, m->flags), f);
			empty = rc < 0 ? -1 : open_target(root, m->target, true);
			first = m;
			continue;
		}
		rc = cover(root, m, empty, f);
	}
	if (empty >= 0)
		close(empty);
	return rc;
}

/* The new root becomes the only one: after it no path leads to the host. */
static int enter(int root, struct failure *f)
{
	if (fchdir(root) < 0)
		return fail(f, errno, "enter root");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return fail(f, errno, "pivot root");
	if (umount2(".", MNT_DETACH) < 0)
		return fail(f, errno, "leave old root");
	if (chdir("/") < 0)
		return fail(f, errno, "chdir /");
	return 0;
}

int mounts_build(int image_fd, int dev_fd, const struct launch_build *b, struct failure *f)
{
	/* Made before anything covers the host's /proc: the kernel demands a visible one. */
	int proc = fresh("proc", NULL, 0, row("/proc")->flags);
	int at, root;

	if (proc < 0)
		return fail(f, errno, "procfs");
	/* Any directory of the copied tree will do; it goes with the old root. */
	at = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 || sys_move_mount(image_fd, at) < 0)
		return fail(f, errno, "image");
	close(at);
	root = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return fail(f, errno, "image root");
	if (attach(root, "/proc", true, proc, f) < 0 ||
	    attach(root, "/dev", true, dev_fd, f) < 0 ||
	    attach_tmpfs(root, "/dev/shm", b->shm_bytes, f) < 0 ||
	    attach_tmpfs(root, "/tmp", b->tmp_bytes, f) < 0 || cover_all(root, f) < 0 ||
	    enter(root, f) < 0)
		return -1;
	close(root);
	return 0;
}

int mounts_attach(int workspace_fd, int view_fd, struct failure *f)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return fail(f, errno, "open /");
	int rc = attach(root, "/workspace", true, workspace_fd, f);
	if (rc == 0 && view_fd >= 0)
		rc = attach(root, "/skills", true, view_fd, f);
	close(root);
	return rc;
}
