/* SPDX-License-Identifier: Apache-2.0 */
/* The prepared /dev. Device numbers are the kernel's fixed ones (devices.txt). */
#include "worker/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/scope.h"
#include "worker/mount.h"

static const struct {
	const char *name;
	unsigned major, minor;
} devices[] = {
	{ "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 }, { "urandom", 1, 9 },
};

static const struct {
	const char *name, *target;
} links[] = {
	{ "fd", "/proc/self/fd" },
	{ "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" },
};

int dev_make(const char *path, uid_t owner, struct err *e)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", path, strerror(errno));
	autoclose int fd = mount_tmpfs(64 << 10, 32, owner, "755", MOUNT_NOEXEC, e);
	if (fd < 0)
		return fd;
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		if (mknodat(fd, devices[i].name, S_IFCHR | 0666,
			    makedev(devices[i].major, devices[i].minor)) < 0 ||
		    fchownat(fd, devices[i].name, owner, owner, 0) < 0 ||
		    fchmodat(fd, devices[i].name, 0666, 0) < 0)
			return err_set(e, errno, "/dev/%s: %s", devices[i].name, strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlinkat(links[i].target, fd, links[i].name) < 0 ||
		    fchownat(fd, links[i].name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(e, errno, "/dev/%s: %s", links[i].name, strerror(errno));
	if (mkdirat(fd, "shm", 0755) < 0 || fchmodat(fd, "shm", 0755, 0) < 0)
		return err_set(e, errno, "/dev/shm: %s", strerror(errno));
	return mount_attach(fd, path, e);
}
