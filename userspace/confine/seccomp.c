/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp half of a confinement: renders the tables into one filter and
 * loads it. The lists are calls.c and the program's own; no judgement here.
 */
#include <errno.h>
#include <seccomp.h>
#include <string.h>

#include "base/scope.h"
#include "confine/confine.h"

struct seccomp_filter {
	scmp_filter_ctx ctx;
};

static void filter_free(struct seccomp_filter *f)
{
	if (f->ctx)
		seccomp_release(f->ctx);
}

/* A name this libseccomp does not know cannot be called by what was built with it either. */
static int add(scmp_filter_ctx ctx, uint32_t action, const struct confine_call *c, struct err *e)
{
	int nr = seccomp_syscall_resolve_name(c->name), rc;

	if (nr == __NR_SCMP_ERROR)
		return 0;
	if (c->mask) {
		const struct scmp_arg_cmp cmp[1] = {
			SCMP_CMP64(c->arg, SCMP_CMP_MASKED_EQ, c->mask, c->value),
		};
		rc = seccomp_rule_add_array(ctx, action, nr, 1, cmp);
	} else {
		rc = seccomp_rule_add_array(ctx, action, nr, 0, NULL);
	}
	/* -EEXIST: two tables name it; -EDOM: not on this architecture */
	if (rc < 0 && rc != -EEXIST && rc != -EDOM)
		return err_set(e, -rc, "seccomp: %s: %s", c->name, strerror(-rc));
	return 0;
}

static int add_all(scmp_filter_ctx ctx, uint32_t action, const struct confine_call *calls, size_t n,
		   struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (add(ctx, action, &calls[i], e) < 0)
			return -e->code;
	return 0;
}

static bool is_listed(const struct confinement *c, const char *name)
{
	for (size_t i = 0; i < c->ncalls; i++)
		if (!strcmp(c->calls[i].name, name))
			return true;
	return false;
}

/* A program whose table names a forbidden or absent call has given its reason there. */
static int add_unless_listed(scmp_filter_ctx ctx, uint32_t action, const struct confinement *c,
			     const struct confine_call *calls, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (!is_listed(c, calls[i].name) && add(ctx, action, &calls[i], e) < 0)
			return -e->code;
	return 0;
}

int confine_seccomp(const struct confinement *c, struct err *e)
{
	__attribute__((cleanup(filter_free)))
	struct seccomp_filter f = { .ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM)) };
	int rc;

	if (!f.ctx)
		return err_set(e, ENOMEM, "seccomp: out of memory");
	/* Another architecture's numbers mean other calls: never, and x32's bit is one of those. */
	seccomp_attr_set(f.ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	seccomp_attr_set(f.ctx, SCMP_FLTATR_CTL_NNP, 1);
	seccomp_attr_set(f.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (add_all(f.ctx, SCMP_ACT_ALLOW, confine_base_calls, confine_base_ncalls, e) < 0 ||
	    add_all(f.ctx, SCMP_ACT_ALLOW, c->calls, c->ncalls, e) < 0 ||
	    add_unless_listed(f.ctx, SCMP_ACT_KILL_PROCESS, c, confine_forbidden,
			      confine_nforbidden, e) < 0 ||
	    add_unless_listed(f.ctx, SCMP_ACT_ERRNO(ENOSYS), c, confine_absent, confine_nabsent,
			      e) < 0)
		return -e->code;
	rc = seccomp_load(f.ctx);
	if (rc < 0)
		return err_set(e, -rc, "seccomp: load: %s", strerror(-rc));
	return 0;
}
