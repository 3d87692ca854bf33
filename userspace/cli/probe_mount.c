/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of filesystems. Each runs in a mount namespace of its own over a
 * tmpfs of its own on /tmp (verb_doctor.c makes both), so that the files it
 * makes vanish with it. Loop devices are set to clear themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/probe.h"

enum { EXT4_BYTES = 16 << 20, MAPPED = 1234567 };

#define WORK "/tmp/probe"

static int make_dirs(struct err *e)
{
	if (fd_mkdir_parents(WORK "/tree", 0755, e) < 0)
		return -e->code;
	return fd_mkdir_parents(WORK "/mnt", 0755, e);
}

static int make_erofs(struct err *e)
{
	char *const argv[] = { (char *)(uintptr_t)"mkfs.erofs", (char *)(uintptr_t) "-zlz4",
			       (char *)(uintptr_t)WORK "/image", (char *)(uintptr_t)WORK "/tree",
			       NULL };

	if (make_dirs(e) < 0 ||
	    fd_replace_file(AT_FDCWD, WORK "/tree/file", "cordon", 6, 0644, e) < 0)
		return -e->code;
	return probe_run(argv, e);
}

static int make_ext4(struct err *e)
{
	char *const argv[] = { (char *)(uintptr_t)"mke2fs", (char *)(uintptr_t) "-qFtext4",
			       (char *)(uintptr_t)WORK "/image", NULL };

	if (make_dirs(e) < 0)
		return -e->code;
	autoclose int fd = open(WORK "/image", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, EXT4_BYTES) < 0)
		return err_set(e, errno, "image: %s", strerror(errno));
	return probe_run(argv, e);
}

/* A loop device over the image that goes with its last user. Gives its descriptor and path. */
static int attach_loop(char path[32], struct err *e)
{
	struct loop_config c = { .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	autoclose int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	autoclose int image = open(WORK "/image", O_RDWR | O_CLOEXEC);

	if (control < 0 || image < 0)
		return err_set(e, errno, "loop-control: %s", strerror(errno));
	c.fd = (__u32)image;
	for (int tries = 0; tries < 16; tries++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE);
		if (n < 0)
			return err_set(e, errno, "no free loop device: %s", strerror(errno));
		snprintf(path, 32, "/dev/loop%d", n);
		autoclose int fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &c) == 0)
			return take_fd(&fd);
		if (fd >= 0 && errno != EBUSY)
			return err_set(e, errno, "%s: %s", path, strerror(errno));
	}
	return err_set(e, EBUSY, "loop devices are taken as fast as they are found");
}

static int mount_image(const char *source, const char *type, unsigned long flags, struct err *e)
{
	if (mount(source, WORK "/mnt", type, flags, NULL) < 0)
		return err_set(e, errno, "mount %s: %s", type, strerror(errno));
	return 0;
}

static int mount_loop(const char *type, unsigned long flags, struct err *e)
{
	char path[32];
	autoclose int loop = attach_loop(path, e);

	return loop < 0 ? loop : mount_image(path, type, flags, e);
}

static int read_back(struct err *e)
{
	autofree char *text = NULL;

	if (fd_read_file(AT_FDCWD, WORK "/mnt/file", 64, &text, NULL, e) < 0)
		return -e->code;
	return strcmp(text, "cordon") == 0 ? 0 : err_set(e, EIO, "the image reads wrong");
}

/*
 * The kernel reads image files by their filesystem's pages, which tmpfs does not
 * offer: the bytes go into an unnamed file where images would be kept.
 */
int probe_erofs_file(struct err *e)
{
	autofree char *bytes = NULL;
	char path[32];
	size_t len;

	if (make_erofs(e) < 0 ||
	    fd_read_file(AT_FDCWD, WORK "/image", 1 << 20, &bytes, &len, e) < 0)
		return -e->code;
	autoclose int fd = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(e, errno, "/var/tmp: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd_write_all(fd, bytes, len, e) < 0 ||
	    mount_image(path, "erofs", MS_RDONLY, e) < 0 || read_back(e) < 0)
		return -e->code;
	snprintf(e->msg, sizeof(e->msg), "mounted without a loop device");
	return 0;
}

int probe_erofs_loop(struct err *e)
{
	if (make_erofs(e) < 0 || mount_loop("erofs", MS_RDONLY, e) < 0 || read_back(e) < 0)
		return -e->code;
	snprintf(e->msg, sizeof(e->msg), "mounted by a loop device");
	return 0;
}

int probe_ext4_loop(struct err *e)
{
	if (make_ext4(e) < 0 || mount_loop("ext4", 0, e) < 0 ||
	    fd_replace_file(AT_FDCWD, WORK "/mnt/file", "x", 1, 0600, e) < 0)
		return -e->code;
	snprintf(e->msg, sizeof(e->msg), "made, mounted, written");
	return 0;
}

int probe_detached(struct err *e)
{
	if (make_dirs(e) < 0)
		return -e->code;
	autoclose int tree = (int)syscall(SYS_open_tree, AT_FDCWD, WORK "/tree",
					  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_set(e, errno, "open_tree: %s", strerror(errno));
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, WORK "/mnt", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(e, errno, "move_mount: %s", strerror(errno));
	snprintf(e->msg, sizeof(e->msg), "open_tree move_mount");
	return 0;
}

/* --- Idmapped mounts */

static int write_map(pid_t pid, const char *which, struct err *e)
{
	char path[64], map[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	int n = snprintf(map, sizeof(map), "0 %d 1", MAPPED);
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, (size_t)n) != n)
		return err_set(e, errno, "%s: %s", which, strerror(errno));
	return 0;
}

/* A user namespace in which 0 is MAPPED: its descriptor. */
static int make_userns(struct err *e)
{
	int ready[2];
	char c;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_set(e, errno, "pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid == 0) {
		c = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
		if (write(ready[1], &c, 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	int rc = pid < 0 || read(ready[0], &c, 1) != 1 || c != 'y' ?
			 err_set(e, EPERM, "no user namespace") :
			 0;
	close(ready[0]);
	if (rc == 0 && write_map(pid, "uid_map", e) == 0 && write_map(pid, "gid_map", e) == 0) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		rc = open(path, O_RDONLY | O_CLOEXEC);
		if (rc < 0)
			err_set(e, errno, "open '%s': %s", path, strerror(errno));
	} else if (rc == 0) {
		rc = -e->code;
	}
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return rc;
}

/* What @path's root owns must appear as MAPPED through an idmapped clone of its mount. */
static int try_idmap(const char *path, struct err *e)
{
	struct stat st;
	autoclose int ns = make_userns(e);

	if (ns < 0)
		return ns;
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (__u64)ns };
	autoclose int tree =
		(int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_set(e, errno, "open_tree: %s", strerror(errno));
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return err_set(e, errno, "mount_setattr: %s", strerror(errno));
	if (fstat(tree, &st) < 0 || st.st_uid != MAPPED)
		return err_set(e, ENOSYS, "ids are not mapped");
	snprintf(e->msg, sizeof(e->msg), "ids are mapped");
	return 0;
}

int probe_idmap_tmpfs(struct err *e)
{
	return make_dirs(e) < 0 ? -e->code : try_idmap("/tmp", e);
}

int probe_idmap_ext4(struct err *e)
{
	if (make_ext4(e) < 0 || mount_loop("ext4", 0, e) < 0)
		return -e->code;
	return try_idmap(WORK "/mnt", e);
}

int probe_idmap_erofs(struct err *e)
{
	if (make_erofs(e) < 0)
		return -e->code;
	if (mount_image(WORK "/image", "erofs", MS_RDONLY, e) < 0 &&
	    mount_loop("erofs", MS_RDONLY, e) < 0)
		return -e->code;
	return try_idmap(WORK "/mnt", e);
}
