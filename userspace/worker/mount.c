/* SPDX-License-Identifier: Apache-2.0 */
/* The mount API, one step above the system calls. Decides nothing about what is mounted. */
#include "worker/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"

static unsigned attributes(unsigned flags)
{
	return MOUNT_ATTR_NOSUID | (flags & MOUNT_RO ? MOUNT_ATTR_RDONLY : 0) |
	       (flags & MOUNT_NODEV ? MOUNT_ATTR_NODEV : 0) |
	       (flags & MOUNT_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
}

int mount_private(struct err *e)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_set(e, errno, "unshare mounts: %s", strerror(errno));
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_set(e, errno, "make mounts private: %s", strerror(errno));
	return 0;
}

static int set(int fs, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0);
}

static int create(int fs, unsigned flags)
{
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes(flags));
}

int mount_tmpfs(uint64_t bytes, uint64_t inodes, uid_t uid, const char *mode, unsigned flags,
		struct err *e)
{
	char text[3][32];
	autoclose int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	snprintf(text[0], sizeof(text[0]), "%llu", (unsigned long long)bytes);
	snprintf(text[1], sizeof(text[1]), "%llu", (unsigned long long)inodes);
	snprintf(text[2], sizeof(text[2]), "%u", uid);
	if (fs < 0 || set(fs, "size", text[0]) < 0 || set(fs, "nr_inodes", text[1]) < 0 ||
	    set(fs, "uid", text[2]) < 0 || set(fs, "gid", text[2]) < 0 || set(fs, "mode", mode) < 0)
		return err_set(e, errno, "tmpfs: %s", strerror(errno));
	int fd = create(fs, flags);
	return fd < 0 ? err_set(e, errno, "tmpfs: %s", strerror(errno)) : fd;
}

/* A loop device over @file that frees itself when nothing uses it any more. */
static int loop_take(int file, bool ro, struct err *e)
{
	autoclose int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop_config c = {
		.fd = (uint32_t)file,
		.block_size = 4096,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | (ro ? LO_FLAGS_READ_ONLY : 0),
	};

	if (control < 0)
		return err_set(e, errno, "loop control: %s", strerror(errno));
	/* Another process may take the free one first: then ask for the next. */
	for (int tries = 0; tries < 64; tries++) {
		char path[32];
		int n = ioctl(control, LOOP_CTL_GET_FREE);
		if (n < 0)
			return err_set(e, errno, "loop device: %s", strerror(errno));
		snprintf(path, sizeof(path), "/dev/loop%d", n);
		autoclose int fd = open(path, (ro ? O_RDONLY : O_RDWR) | O_CLOEXEC);
		if (fd < 0)
			return err_set(e, errno, "open %s: %s", path, strerror(errno));
		if (ioctl(fd, LOOP_CONFIGURE, &c) == 0)
			return take_fd(&fd);
		if (errno != EBUSY)
			return err_set(e, errno, "loop configure: %s", strerror(errno));
	}
	return err_set(e, EBUSY, "no free loop device");
}

/*
 * Options of a filesystem in a file. A workspace gives deleted blocks back to
 * the host and does not fill its inode table in the background.
 */
static int set_options(int fs, const char *type)
{
	if (strcmp(type, "ext4") != 0)
		return 0;
	if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0)
		return -1;
	return set(fs, "errors", "remount-ro");
}

/* From the descriptor itself: the mount tables then show no path of the host. */
static int mount_from(int fd, const char *type, unsigned flags)
{
	char source[32];
	autoclose int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);

	snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
	if (fs < 0 || set(fs, "source", source) < 0 || set_options(fs, type) < 0)
		return -1;
	if ((flags & MOUNT_RO) &&
	    syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0)
		return -1;
	return create(fs, flags);
}

int mount_file(int fd, const char *type, unsigned flags, struct err *e)
{
	int m = mount_from(fd, type, flags);

	if (m >= 0)
		return m;
	autoclose int loop = loop_take(fd, flags & MOUNT_RO, e);
	if (loop < 0)
		return loop;
	m = mount_from(loop, type, flags);
	return m < 0 ? err_set(e, errno, "mount %s: %s", type, strerror(errno)) : m;
}

int mount_attach(int fd, const char *path, struct err *e)
{
	if (syscall(SYS_move_mount, fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(e, errno, "attach '%s': %s", path, strerror(errno));
	return 0;
}

int mount_clone(const char *path, unsigned flags, int userns_fd, struct err *e)
{
	struct mount_attr a = {
		.attr_set = attributes(flags) | (userns_fd >= 0 ? MOUNT_ATTR_IDMAP : 0),
		.propagation = MS_PRIVATE,
		.userns_fd = userns_fd >= 0 ? (uint64_t)userns_fd : 0,
	};
	autoclose int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
					OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (fd < 0)
		return err_set(e, errno, "clone mount '%s': %s", path, strerror(errno));
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return err_set(e, errno, "%s mount '%s': %s", userns_fd >= 0 ? "idmap" : "restrict",
			       path, strerror(errno));
	return take_fd(&fd);
}
