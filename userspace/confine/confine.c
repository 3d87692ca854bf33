/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two stages: process attributes, limits, ids and capabilities. Landlock
 * and seccomp have files of their own (landlock.c, seccomp.c). Does not know
 * any program; the tables are theirs.
 */
#include "confine/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include "base/scope.h"

static const char *const missing_names[MISSING_COUNT] = {
	"landlock", "landlock_truncate", "landlock_tcp", "landlock_scope", "rlimit",
};

const char *confine_missing_name(unsigned bit)
{
	return bit < MISSING_COUNT ? missing_names[bit] : "unknown";
}

static bool is_kept(const struct confinement *c, int cap)
{
	for (size_t i = 0; i < c->ncaps; i++)
		if (c->caps[i].cap == cap)
			return true;
	return false;
}

/* Only exec reads the bounding set, so what the second stage itself needs may go already. */
static int drop_bounding(const struct confinement *c, struct err *e)
{
	for (int cap = 0; cap <= CAP_LAST_CAP || prctl(PR_CAPBSET_READ, cap) >= 0; cap++) {
		int there = prctl(PR_CAPBSET_READ, cap);
		if (there <= 0 || is_kept(c, cap))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return err_set(e, errno, "drop capability %d from the bounding set: %s",
				       cap, strerror(errno));
	}
	return 0;
}

/*
 * Hard limits only go down without CAP_SYS_RESOURCE: where the host's is below
 * what the table asks, the program lives with it (the caller learns by *missing).
 */
static int set_limit(const struct confine_limit *l, uint32_t *missing, struct err *e)
{
	struct rlimit now, want = { .rlim_cur = l->value, .rlim_max = l->value };

	if (getrlimit((unsigned)l->resource, &now) < 0)
		return err_set(e, errno, "read limit %d: %s", l->resource, strerror(errno));
	if (setrlimit((unsigned)l->resource, &want) == 0)
		return 0;
	if (errno != EPERM || now.rlim_max >= l->value)
		return err_set(e, errno, "set limit %d: %s", l->resource, strerror(errno));
	now.rlim_cur = now.rlim_max;
	if (setrlimit((unsigned)l->resource, &now) < 0)
		return err_set(e, errno, "set limit %d: %s", l->resource, strerror(errno));
	*missing |= MISSING_LIMIT;
	return 0;
}

static int set_limits(const struct confinement *c, uint32_t *missing, struct err *e)
{
	static const struct confine_limit none_core = { RLIMIT_CORE, 0, "keys never reach a core file" };

	bool names_core = false;

	for (size_t i = 0; i < c->nlimits; i++)
		names_core |= c->limits[i].resource == RLIMIT_CORE;
	if (!names_core && set_limit(&none_core, missing, e) < 0)
		return -e->code;
	for (size_t i = 0; i < c->nlimits; i++)
		if (set_limit(&c->limits[i], missing, e) < 0)
			return -e->code;
	return 0;
}

#ifdef __SANITIZE_ADDRESS__
/*
 * LeakSanitizer stops its process with ptrace, which no confined program is let do. What is freed
 * is overwritten, as wipe/free.c does where it can, and not kept in any amount.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0:max_free_fill_size=2147483647:quarantine_size_mb=8:"
	       "thread_local_quarantine_size_kb=256:allocator_release_to_os_interval_ms=100";
}
#endif

int confine_early(const struct confinement *c, struct err *e)
{
	uint32_t missing = 0;

#ifdef __SANITIZE_ADDRESS__
	__sanitizer_set_report_path("stderr"); /* whatever file the environment named */
#endif
	umask(077);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(e, errno, "no_new_privs: %s", strerror(errno));
	/* Nobody of the same id may trace us or read our memory and descriptors. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(e, errno, "not dumpable: %s", strerror(errno));
	if (drop_bounding(c, e) < 0)
		return -e->code;
	return set_limits(c, &missing, e);
}

/* KEEPCAPS carries the permitted set over the id change; set_caps then cuts it to the table. */
static int set_ids(const struct confinement *c, const struct confine_as *as, struct err *e)
{
	if (!(c->flags & CONFINE_ROOT) && (as->uid == 0 || as->gid == 0))
		return err_set(e, EINVAL, "%s must not stay root", c->program);
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return err_set(e, errno, "keep capabilities: %s", strerror(errno));
	if (setgroups(0, NULL) < 0)
		return err_set(e, errno, "drop groups: %s", strerror(errno));
	if (setresgid(as->gid, as->gid, as->gid) < 0)
		return err_set(e, errno, "become gid %u: %s", as->gid, strerror(errno));
	if (setresuid(as->uid, as->uid, as->uid) < 0)
		return err_set(e, errno, "become uid %u: %s", as->uid, strerror(errno));
	if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
		return err_set(e, errno, "keep no capabilities: %s", strerror(errno));
	return 0;
}

static int set_caps(const struct confinement *c, struct err *e)
{
	cap_t set = cap_init();

	if (!set)
		return err_set(e, ENOMEM, "capabilities: out of memory");
	for (size_t i = 0; i < c->ncaps; i++) {
		cap_value_t v = c->caps[i].cap;
		if (cap_set_flag(set, CAP_PERMITTED, 1, &v, CAP_SET) < 0 ||
		    cap_set_flag(set, CAP_EFFECTIVE, 1, &v, CAP_SET) < 0) {
			cap_free(set);
			return err_set(e, EINVAL, "capability %d", v);
		}
	}
	int rc = cap_set_proc(set);
	int saved = errno;
	cap_free(set);
	if (rc < 0)
		return err_set(e, saved, "keep %zu capabilities: %s", c->ncaps, strerror(saved));
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_set(e, errno, "clear ambient capabilities: %s", strerror(errno));
	return 0;
}

/* The kernel's word, not ours: no way back to root, no capability that is not in the table. */
static int check(const struct confinement *c, const struct confine_as *as, struct err *e)
{
	uid_t r, f, s;

	if (getresuid(&r, &f, &s) < 0 || r != as->uid || f != as->uid || s != as->uid)
		return err_set(e, EPERM, "%s is not uid %u", c->program, as->uid);
	if (as->uid != 0 && setresuid((uid_t)-1, 0, (uid_t)-1) == 0)
		return err_set(e, EPERM, "%s could become root again", c->program);
	cap_t set = cap_get_proc();
	if (!set)
		return err_set(e, errno, "read capabilities: %s", strerror(errno));
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
		cap_flag_value_t on = CAP_CLEAR;
		if (cap_get_flag(set, cap, CAP_PERMITTED, &on) == 0 && on == CAP_SET &&
		    !is_kept(c, cap)) {
			cap_free(set);
			return err_set(e, EPERM, "%s still holds capability %d", c->program, cap);
		}
	}
	cap_free(set);
	return 0;
}

int confine_final(const struct confinement *c, const struct confine_as *as, uint32_t *ret_missing,
		  struct err *e)
{
	uint32_t missing = 0;

	if (set_limits(c, &missing, e) < 0)
		return err_wrap(e, "confine");
	/* Before the ids: the paths are opened by root, whoever may walk to them later. */
	if (!(c->flags & CONFINE_NO_LANDLOCK) && confine_landlock(c, as, &missing, e) < 0)
		return err_wrap(e, "confine");
	if (set_ids(c, as, e) < 0 || set_caps(c, e) < 0 || check(c, as, e) < 0)
		return err_wrap(e, "confine");
	/* The change of ids has reset it. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(e, errno, "confine: not dumpable: %s", strerror(errno));
	if (!(c->flags & CONFINE_NO_SECCOMP) && confine_seccomp(c, e) < 0)
		return err_wrap(e, "confine");
	*ret_missing = missing;
	return 0;
}

int confine_person(const struct confinement *c, uint32_t *ret_missing, struct err *e)
{
	const struct confine_as nobody = { .uid = CONFINE_NOBODY, .gid = CONFINE_NOBODY };
	uint32_t missing = 0;

	if (geteuid() == 0)
		return confine_early(c, e) < 0 ? -e->code :
						 confine_final(c, &nobody, ret_missing, e);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(e, errno, "confine: no_new_privs: %s", strerror(errno));
	if (set_limits(c, &missing, e) < 0 || confine_landlock(c, &nobody, &missing, e) < 0 ||
	    confine_seccomp(c, e) < 0)
		return err_wrap(e, "confine");
	*ret_missing = missing;
	return 0;
}
