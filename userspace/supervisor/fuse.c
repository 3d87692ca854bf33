/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and clones the skills' mount. Answers nothing: cordon-skills does. */
#include "supervisor/fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"

static int mount_at(const char *path, int device_fd, struct err *e)
{
	char options[160];

	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
		 device_fd);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", path, strerror(errno));
	if (mount("cordon-skills", path, "fuse", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME,
		  options) < 0)
		return err_set(e, errno, "mount the skills: %s", strerror(errno));
	return 0;
}

int fuse_open(const struct plane *p, struct fuse *ret, struct err *e)
{
	struct fuse f;

	snprintf(f.path, sizeof(f.path), "%s/skills", p->places.run);
	autoclose int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return err_set(e, errno, "/dev/fuse: %s", strerror(errno));
	autoclose int state = memfd_create("skills-state", MFD_CLOEXEC);
	if (state < 0)
		return err_set(e, errno, "memfd: %s", strerror(errno));
	if (mount_at(f.path, device, e) < 0)
		return -e->code;
	f.device_fd = take_fd(&device);
	f.state_fd = take_fd(&state);
	*ret = f;
	return 0;
}

int fuse_clone(const struct fuse *f, struct err *e)
{
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, f->path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return fd < 0 ? err_set(e, errno, "clone the skills' mount: %s", strerror(errno)) : fd;
}
