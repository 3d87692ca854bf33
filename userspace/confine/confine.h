/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CONFINE_CONFINE_H
#define CORDON_CONFINE_CONFINE_H

/*
 * How every program of the plane gives up what it does not need. What it keeps
 * is data: one const struct confinement in its privileges.c, a reason on every
 * line. Two stages, in the same place of every main():
 *
 *   confine_early  right after S_START: no_new_privs, limits, umask, not
 *		    dumpable, bounding set; the process is still root and opens
 *		    what only root can open.
 *   confine_final  ids, capabilities, Landlock, seccomp. *After this we cannot
 *		    gain privilege.*
 *
 * A path, capability or system call not in the table is refused by the kernel
 * from then on. A system call that is not listed answers EPERM, so that a
 * library's optional call meets an error it can live with and the program stays
 * alive to report it; those that no honest program of the plane ever makes
 * (confine_forbidden) kill the process, because they mean that somebody else is
 * running inside it. A few answer ENOSYS, where libc only then falls back.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { CONFINE_ARGS_MAX = 16 };

/* A capability that is kept, permitted and effective. */
struct confine_cap {
	int cap; /* CAP_x */
	const char *reason;
};

/* What may be done beneath a path (Landlock). */
enum confine_access {
	MAY_READ = 1u << 0,   /* read files, list directories */
	MAY_WRITE = 1u << 1,  /* write and truncate what exists */
	MAY_CREATE = 1u << 2, /* make and remove regular files and directories, rename within */
	MAY_EXEC = 1u << 3,
	MAY_SOCKET = 1u << 4, /* make and remove socket files */
	MAY_IOCTL = 1u << 5,  /* ioctl on a device file */
};

struct confine_path {
	const char *path; /* absolute; or NULL: args[arg] of confine_final */
	unsigned arg;
	unsigned access;  /* enum confine_access */
	bool is_optional; /* absent is fine: then nothing is granted */
	const char *reason;
};

/*
 * A system call, by libseccomp's name. With @mask set the call is only allowed
 * where (argument @arg & @mask) == @value. A call named twice is allowed where
 * either line allows it.
 */
struct confine_call {
	const char *name;
	const char *reason;
	unsigned arg;
	uint64_t mask;
	uint64_t value;
};
/* Lines of such a table. */
#define CALL(name_, why) { .name = (name_), .reason = (why) }
#define CALL_IF(name_, why, arg_, mask_, value_) \
	{ .name = (name_), .reason = (why), .arg = (arg_), .mask = (mask_), .value = (value_) }

struct confine_limit {
	int resource; /* RLIMIT_x: soft and hard */
	uint64_t value;
	const char *reason;
};

enum confine_flag {
	CONFINE_ROOT = 1u << 0,	  /* stays uid 0: the worker alone */
	CONFINE_NO_TCP = 1u << 1, /* Landlock also refuses TCP bind and connect */
	CONFINE_NO_LANDLOCK = 1u << 2, /* mounts: a Landlock domain forbids every mount */
	CONFINE_NO_SECCOMP = 1u << 3,  /* the filter would be inherited by every sandbox */
};

struct confinement {
	const char *program;
	unsigned flags;
	const struct confine_cap *caps;
	size_t ncaps;
	const struct confine_path *paths;
	size_t npaths;
	const struct confine_call *calls; /* beyond confine_base_calls */
	size_t ncalls;
	const struct confine_limit *limits;
	size_t nlimits;
};

/* Who the program becomes, out of S_START, and what its table's paths stand for. */
struct confine_as {
	uid_t uid;
	gid_t gid;
	const char *args[CONFINE_ARGS_MAX]; /* absolute paths, or NULL */
};

/* Guards that could not be given here; named by confine_missing_name(). */
enum confine_missing {
	MISSING_LANDLOCK = 1u << 0,
	MISSING_LANDLOCK_TRUNCATE = 1u << 1, /* ABI < 3 */
	MISSING_LANDLOCK_TCP = 1u << 2,	     /* ABI < 4, where the table asks for it */
	MISSING_LANDLOCK_SCOPE = 1u << 3,    /* ABI < 6: signals and abstract sockets */
	MISSING_LIMIT = 1u << 4, /* a limit stays lower than asked: root without CAP_SYS_RESOURCE */
	MISSING_COUNT = 5,
};

/* First stage. 0, or -errno: the program must not go on. */
int confine_early(const struct confinement *c, struct err *e);

/*
 * Second stage. Gives the set of missing guards in *ret_missing. A guard the
 * kernel does not have is reported there; one it has and refuses is an error,
 * and the program must not go on. Call it with one thread only.
 */
int confine_final(const struct confinement *c, const struct confine_as *as, uint32_t *ret_missing,
		  struct err *e);

/*
 * For a program that a person runs, in one stage, when all it needs is open: no
 * way to more privilege, the table's limits, Landlock, seccomp. Root becomes
 * CONFINE_NOBODY without a capability; anybody else stays who they are.
 */
enum { CONFINE_NOBODY = 65534 };
int confine_person(const struct confinement *c, uint32_t *ret_missing, struct err *e);

/* A name for bit number @bit (0..MISSING_COUNT-1). */
const char *confine_missing_name(unsigned bit);

/* The two lists of confine/calls.c. */
extern const struct confine_call confine_base_calls[];
extern const size_t confine_base_ncalls;
extern const struct confine_call confine_forbidden[];
extern const size_t confine_nforbidden;
extern const struct confine_call confine_absent[]; /* answered with ENOSYS */
extern const size_t confine_nabsent;

/* The two parts of the final stage that have files of their own; used by confine_final. */
int confine_landlock(const struct confinement *c, const struct confine_as *as,
		     uint32_t *ret_missing, struct err *e);
int confine_seccomp(const struct confinement *c, struct err *e);

#endif
