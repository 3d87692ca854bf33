/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a former life of the instance left outside cgroups: mounts and
 * loop devices. Mounts made in a daemon's own namespace went with it, and so
 * did the BPF pins: they are in a bpffs of cordond's own (ground.c).
 */
#include "supervisor/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "config/mountinfo.h"
#include "supervisor/cgroup.h"

enum { MOUNTS_ROUNDS = 256 };

static inline void close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/*
 * The last mount of ours in mountinfo: at or below ROOT/run/cordon, or with the
 * instance's name as its source. 1: *ret filled.
 */
static int find_mount(const struct plane *p, char *ret, size_t size)
{
	autofclose FILE *f = fopen("/proc/self/mountinfo", "re");
	autofree char *line = NULL;
	size_t cap = 0;
	int found = 0;

	while (f && getline(&line, &cap, f) >= 0) {
		struct mount_line m;
		if (mount_line_parse(line, &m) < 0)
			continue;
		bool named = strncmp(m.source, p->instance, strlen(p->instance)) == 0;
		if (!named && !is_below(m.target, p->places.run))
			continue;
		snprintf(ret, size, "%s", m.target);
		found = 1;
	}
	return found;
}

static int sweep_mounts(const struct plane *p, struct err *e)
{
	char at[4096];

	for (int i = 0; find_mount(p, at, sizeof(at)); i++)
		if (i == MOUNTS_ROUNDS || umount2(at, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
			return err_set(e, errno ? errno : EBUSY, "unmount '%s': %s", at,
				       strerror(errno));
	return 0;
}

/* Loop devices over files of this instance's state. One whose mount is gone is let go. */
static int sweep_loops(const struct plane *p, struct err *e)
{
	__attribute__((cleanup(close_dir))) DIR *d = opendir("/sys/block");

	for (struct dirent *x; d && (x = readdir(d));) {
		char path[320], file[4096];
		if (strncmp(x->d_name, "loop", 4) != 0)
			continue;
		snprintf(path, sizeof(path), "/sys/block/%s/loop/backing_file", x->d_name);
		autofclose FILE *f = fopen(path, "re");
		if (!f || !fgets(file, sizeof(file), f) || !is_below(file, p->places.state))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", x->d_name);
		autoclose int fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 || (ioctl(fd, LOOP_CLR_FD, 0) < 0 && errno != ENXIO))
			return err_set(e, errno, "loop device '%s': %s", path, strerror(errno));
	}
	return 0;
}

int sweep_all(const struct plane *p, struct err *e)
{
	static int (*const steps[])(const struct plane *, struct err *) = {
		cgroup_sweep, sweep_mounts, sweep_loops,
	};
	int rc = 0;

	/* Each step is tried whatever became of the others; the first failure is told. */
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct err mine;
		if (steps[i](p, &mine) < 0 && rc == 0) {
			*e = mine;
			rc = -mine.code;
		}
	}
	return rc;
}
