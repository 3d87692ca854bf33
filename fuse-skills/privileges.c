/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each role keeps, and why. None keeps a capability or can reach a
 * network. Keeper and server see the store read-only, by ids as well as by
 * Landlock; the stager, which can write it, sees nothing else, and stays uid 0
 * only to own what the other two must not be able to change.
 */
#include "privileges.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/scope.h"

static const struct confine_path reading[] = {
	{ NULL, ARG_STORE, MAY_READ, false, "catalog, manifests, contents" },
};

static const struct confine_path writing[] = {
	{ NULL, ARG_STORE, MAY_READ | MAY_WRITE | MAY_CREATE, false, "the store it keeps" },
};

#define THREAD (CLONE_VM | CLONE_THREAD)

static const struct confine_call keeper_calls[] = {
	CALL("flock", "a version in use is locked"),
	CALL_IF("clone", "the thread that opens views", 0, THREAD, THREAD),
	CALL_IF("unshare", "its descriptors are its own", 0, 0xffffffff, CLONE_FILES),
};

static const struct confine_call server_calls[] = {
	CALL("fadvise64", "contents are read as the kernel asks, no further"),
	CALL_IF("clone", "threads", 0, THREAD, THREAD),
};

static const struct confine_call stager_calls[] = {
	CALL("flock", "the store's lock"),
	CALL("mkdirat", "the store's directories"),
	CALL("renameat", "contents get their names"),
	CALL("renameat2", "contents get their names"),
	CALL("unlinkat", "what is refused or collected"),
	CALL("utimensat", "when a version was removed"),
	CALL("syncfs", "many contents at once"),
};

static const struct confine_limit limits[] = {
	{ RLIMIT_NOFILE, 16384, "a lock per version in use, a handle per view on its way" },
};

const struct confinement keeper_privileges = {
	.program = "cordon-skills",
	.flags = CONFINE_NO_TCP,
	.paths = reading,
	.npaths = ARRAY_SIZE(reading),
	.calls = keeper_calls,
	.ncalls = ARRAY_SIZE(keeper_calls),
	.limits = limits,
	.nlimits = ARRAY_SIZE(limits),
};

const struct confinement server_privileges = {
	.program = "cordon-skills server",
	.flags = CONFINE_NO_TCP,
	.paths = reading,
	.npaths = ARRAY_SIZE(reading),
	.calls = server_calls,
	.ncalls = ARRAY_SIZE(server_calls),
};

const struct confinement stager_privileges = {
	.program = "cordon-skills stager",
	.flags = CONFINE_NO_TCP | CONFINE_ROOT,
	.paths = writing,
	.npaths = ARRAY_SIZE(writing),
	.calls = stager_calls,
	.ncalls = ARRAY_SIZE(stager_calls),
};
