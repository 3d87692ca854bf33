/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Landlock half of a confinement: paths, TCP, and from ABI 6 on signals and
 * abstract sockets. Builds the ruleset out of what this kernel's ABI can hold
 * and says what it cannot. The constants are written out here because the
 * build host's headers may be older than the kernel the program runs on.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"
#include "confine/confine.h"

enum {
	ABI_REFER = 2,
	ABI_TRUNCATE = 3,
	ABI_TCP = 4,
	ABI_IOCTL = 5,
	ABI_SCOPE = 6,
};

static const uint64_t fs_refer = 1ULL << 13, fs_truncate = 1ULL << 14, fs_ioctl = 1ULL << 15;
static const uint64_t fs_abi1 = (1ULL << 13) - 1;
static const uint64_t tcp_both = 3;   /* bind, connect */
static const uint64_t scope_both = 3; /* abstract sockets, signals */

/* What is right for a file; a rule on one may hold nothing else. */
static const uint64_t file_rights = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
				    LANDLOCK_ACCESS_FS_READ_FILE | 1ULL << 14 | 1ULL << 15;

/* struct landlock_ruleset_attr as ABI 6 has it; older kernels are given a shorter one. */
struct ruleset {
	uint64_t fs, net, scope;
};

static const struct {
	unsigned access;
	uint64_t rights;
} meanings[] = {
	{ MAY_READ, LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR },
	{ MAY_WRITE, LANDLOCK_ACCESS_FS_WRITE_FILE | 1ULL << 14 },
	{ MAY_CREATE, LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
			      LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
			      1ULL << 13 },
	{ MAY_EXEC, LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE },
	{ MAY_SOCKET, LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE },
	{ MAY_IOCTL, 1ULL << 15 },
};

static uint64_t rights_of(unsigned access)
{
	uint64_t rights = 0;

	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (access & meanings[i].access)
			rights |= meanings[i].rights;
	return rights;
}

static struct ruleset handled(const struct confinement *c, int abi, uint32_t *missing)
{
	struct ruleset r = { .fs = fs_abi1 };

	if (abi >= ABI_REFER)
		r.fs |= fs_refer;
	if (abi >= ABI_TRUNCATE)
		r.fs |= fs_truncate;
	else
		*missing |= MISSING_LANDLOCK_TRUNCATE;
	if (abi >= ABI_IOCTL)
		r.fs |= fs_ioctl;
	if (c->flags & CONFINE_NO_TCP) {
		if (abi >= ABI_TCP)
			r.net = tcp_both;
		else
			*missing |= MISSING_LANDLOCK_TCP;
	}
	if (abi >= ABI_SCOPE)
		r.scope = scope_both;
	else
		*missing |= MISSING_LANDLOCK_SCOPE;
	return r;
}

static int add_path(int ruleset, const struct ruleset *r, const struct confine_path *p,
		    const char *path, struct err *e)
{
	autoclose int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT && p->is_optional)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "landlock: open '%s': %s", path, strerror(errno));
	struct landlock_path_beneath_attr rule = {
		.allowed_access = rights_of(p->access) & r->fs,
		.parent_fd = fd,
	};
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= file_rights;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_set(e, errno, "landlock: allow '%s': %s", path, strerror(errno));
	return 0;
}

int confine_landlock(const struct confinement *c, const struct confine_as *as,
		     uint32_t *ret_missing, struct err *e)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 1) { /* not built in, or switched off at boot */
		*ret_missing |= MISSING_LANDLOCK;
		return 0;
	}
	struct ruleset r = handled(c, (int)abi, ret_missing);
	size_t size = abi >= ABI_SCOPE ? sizeof(r) : abi >= ABI_TCP ? 16 : 8;
	autoclose int fd = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
	if (fd < 0)
		return err_set(e, errno, "landlock: %s", strerror(errno));
	for (size_t i = 0; i < c->npaths; i++) {
		const struct confine_path *p = &c->paths[i];
		const char *path = p->path		      ? p->path :
				   p->arg < CONFINE_ARGS_MAX ? as->args[p->arg] :
								NULL;
		if (!path && p->is_optional)
			continue;
		if (!path)
			return err_set(e, EINVAL, "landlock: no path for argument %u", p->arg);
		if (add_path(fd, &r, p, path, e) < 0)
			return -e->code;
	}
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_set(e, errno, "landlock: %s", strerror(errno));
	return 0;
}
