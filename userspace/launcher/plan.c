/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount plan and its check: after everything is attached and before
 * anything of the job runs, the table the kernel reports must be the plan, row
 * for row, with nothing missing, nothing extra and nothing shared (B6). Does
 * not mount; mounts.c does.
 */
#include "launcher/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "launcher/launcher.h"

#define ROX (PLAN_RO | PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC)
#define MASK_DIR(name) { name, " tmpfs ", "/", ROX, PLAN_MASK_DIR }
#define MASK_FILE(name) { name, " tmpfs ", "/null", PLAN_RO | PLAN_NOSUID | PLAN_NOEXEC, PLAN_MASK_FILE }

const struct plan_mount plan_mounts[] = {
	{ "/", " erofs squashfs overlay ", "/", PLAN_RO | PLAN_NOSUID | PLAN_NODEV, PLAN_FIXED },
	{ "/proc", " proc ", "/", PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC, PLAN_FIXED },
	{ "/dev", " tmpfs ", "/", PLAN_RO | PLAN_NOSUID | PLAN_NOEXEC, PLAN_FIXED },
	{ "/dev/shm", " tmpfs ", "/", PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC, PLAN_FIXED },
	{ "/tmp", " tmpfs ", "/", PLAN_NOSUID | PLAN_NODEV, PLAN_FIXED },
	{ "/proc/sys", " proc ", "/sys", ROX, PLAN_READONLY },
	MASK_DIR("/proc/acpi"),
	MASK_DIR("/proc/asound"),
	MASK_DIR("/proc/bus"),
	MASK_DIR("/proc/driver"),
	MASK_DIR("/proc/fs"),
	MASK_DIR("/proc/irq"),
	MASK_DIR("/proc/pressure"), /* anybody may set a trigger there: work for the host */
	MASK_DIR("/proc/scsi"),
	MASK_DIR("/proc/sysvipc"),
	MASK_DIR("/proc/tty"),
	MASK_FILE("/proc/kallsyms"),
	MASK_FILE("/proc/kcore"),
	MASK_FILE("/proc/key-users"),
	MASK_FILE("/proc/keys"),
	MASK_FILE("/proc/kmsg"),
	MASK_FILE("/proc/kpagecgroup"),
	MASK_FILE("/proc/kpagecount"),
	MASK_FILE("/proc/kpageflags"),
	MASK_FILE("/proc/latency_stats"),
	MASK_FILE("/proc/sched_debug"),
	MASK_FILE("/proc/slabinfo"),
	MASK_FILE("/proc/sysrq-trigger"),
	MASK_FILE("/proc/timer_list"),
	MASK_FILE("/proc/vmallocinfo"),
	{ "/workspace", " tmpfs ext4 xfs btrfs ", "/", PLAN_NOSUID | PLAN_NODEV, PLAN_RUN },
	{ "/skills", " fuse fuse.cordon-skills ", NULL, PLAN_RO | PLAN_NOSUID | PLAN_NODEV, PLAN_VIEW },
};
const unsigned plan_mounts_count = sizeof(plan_mounts) / sizeof(plan_mounts[0]);

_Static_assert(sizeof(plan_mounts) / sizeof(plan_mounts[0]) <= 64, "one bit per row");

/* The next blank-separated field of a mountinfo line, NUL-ended in place; NULL at the end. */
static char *field(char **p)
{
	char *s = *p;

	if (!s || !*s)
		return NULL;
	char *end = strchr(s, ' ');
	if (end) {
		*end = '\0';
		*p = end + 1;
	} else {
		*p = s + strlen(s);
	}
	return s;
}

static const struct {
	const char *word;
	unsigned flag;
} option_words[] = {
	{ "ro", PLAN_RO },
	{ "nosuid", PLAN_NOSUID },
	{ "nodev", PLAN_NODEV },
	{ "noexec", PLAN_NOEXEC },
};

static unsigned option_flags(char *options)
{
	unsigned flags = 0;

	for (char *w = options; w;) {
		char *next = strchr(w, ',');
		if (next)
			*next++ = '\0';
		for (size_t i = 0; i < sizeof(option_words) / sizeof(option_words[0]); i++)
			if (strcmp(w, option_words[i].word) == 0)
				flags |= option_words[i].flag;
		w = next;
	}
	return flags;
}

/* Whether blank-ended @type is among blank-ended @types. */
static bool type_among(const char *types, const char *type)
{
	size_t n = strlen(type);

	for (const char *p = types; n && (p = strstr(p, type)); p++)
		if (p[-1] == ' ' && p[n] == ' ')
			return true;
	return false;
}

/* One line against the plan. 0 and the row's bit in *seen, or -1 naming what is wrong. */
static int check_line(char *line, uint64_t *seen, struct failure *f)
{
	char *p = line;

	field(&p); /* id */
	field(&p); /* parent */
	field(&p); /* device */
	char *root = field(&p), *target = field(&p), *options = field(&p);
	char *tag = field(&p);

	if (!options || !tag)
		return fail(f, EPROTO, "mount table: unreadable line");
	if (strcmp(tag, "-") != 0)
		return fail(f, EPERM, "mount table: a mount propagates");
	char *type = field(&p);
	if (!type)
		return fail(f, EPROTO, "mount table: unreadable line");
	unsigned flags = option_flags(options);
	for (unsigned i = 0; i < plan_mounts_count; i++) {
		const struct plan_mount *m = &plan_mounts[i];
		if (strcmp(m->target, target) != 0)
			continue;
		if (*seen & (1ull << i))
			return fail(f, EPERM, "mount table: a target mounted twice");
		if (flags != m->flags)
			return fail(f, EPERM, "mount table: flags differ from the plan");
		if (!type_among(m->fstypes, type))
			return fail(f, EPERM, "mount table: a type not in the plan");
		if (m->root && strcmp(m->root, root) != 0)
			return fail(f, EPERM, "mount table: a root not in the plan");
		*seen |= 1ull << i;
		return 0;
	}
	return fail(f, EPERM, "mount table: a mount not in the plan");
}

/* May row @m be missing? Masks where the kernel has no such file; the view without skills. */
static bool may_lack(const struct plan_mount *m, bool has_view)
{
	switch (m->kind) {
	case PLAN_MASK_DIR:
	case PLAN_MASK_FILE:
		return access(m->target, F_OK) < 0 && errno == ENOENT;
	case PLAN_VIEW:
		return !has_view;
	default:
		return false;
	}
}

static int read_table(char *buf, size_t size, struct failure *f)
{
	int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return fail(f, errno, "mount table: open");
	for (;;) {
		ssize_t n = read(fd, buf + len, size - 1 - len);
		if (n < 0 || len + (size_t)n == size - 1) {
			close(fd);
			return fail(f, n < 0 ? errno : E2BIG, "mount table: read");
		}
		if (n == 0)
			break;
		len += (size_t)n;
	}
	close(fd);
	buf[len] = '\0';
	return 0;
}

int plan_judge(char *table, bool has_view, struct failure *f)
{
	uint64_t seen = 0;

	for (char *line = table; *line;) {
		char *end = strchr(line, '\n');
		if (!end)
			return fail(f, EPROTO, "mount table: cut line");
		*end = '\0';
		if (check_line(line, &seen, f) < 0)
			return -1;
		line = end + 1;
	}
	for (unsigned i = 0; i < plan_mounts_count; i++) {
		const struct plan_mount *m = &plan_mounts[i];
		if (m->kind == PLAN_VIEW && !has_view && (seen & (1ull << i)))
			return fail(f, EPERM, "mount table: a view nobody asked for");
		if (!(seen & (1ull << i)) && !may_lack(m, has_view))
			return fail(f, EPERM, "mount table: a planned mount is missing");
	}
	return 0;
}

int plan_check(bool has_view, struct failure *f)
{
	static char buf[16384]; /* not on the stack: every page of so large a frame is probed, and faults */

	return read_table(buf, sizeof(buf), f) < 0 ? -1 : plan_judge(buf, has_view, f);
}
