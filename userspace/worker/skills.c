/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach once, clone per command. The handle comes from the broker, so it is
 * looked at before it is mounted; with AT_STATX_DONT_SYNC the kernel answers
 * from what it has.
 */
#include "worker/skills.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"
#include "worker/mount.h"

static int look_at(int fd, struct statx *ret, struct err *e)
{
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, ret) < 0)
		return err_set(e, errno, "skills: %s", strerror(errno));
	return S_ISDIR(ret->stx_mode) ? 0 : err_set(e, ENOTDIR, "skills: not a directory");
}

int skills_attach(struct skills *s, int mount_fd, const char *path, struct err *e)
{
	struct statx stx;

	s->root_fd = -1;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", path, strerror(errno));
	if (mount_attach(mount_fd, path, e) < 0)
		return -e->code;
	autoclose int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_set(e, errno, "open '%s': %s", path, strerror(errno));
	if (look_at(root, &stx, e) < 0)
		return -e->code;
	s->dev_major = stx.stx_dev_major;
	s->dev_minor = stx.stx_dev_minor;
	s->root_fd = take_fd(&root);
	return 0;
}

int skills_clone(const struct skills *s, int view_fd, struct err *e)
{
	const struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
	};
	struct statx view, root;

	if (s->root_fd < 0)
		return err_set(e, ENODEV, "skills: not mounted");
	if (look_at(view_fd, &view, e) < 0 || look_at(s->root_fd, &root, e) < 0)
		return -e->code;
	if (view.stx_dev_major != s->dev_major || view.stx_dev_minor != s->dev_minor ||
	    view.stx_ino == root.stx_ino)
		return err_set(e, EPERM, "skills: not a view");
	autoclose int fd = (int)syscall(SYS_open_tree, view_fd, "",
					OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (fd < 0 ||
	    syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(e, errno, "skills: clone a view: %s", strerror(errno));
	return take_fd(&fd);
}
