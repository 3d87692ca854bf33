/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the worker keeps, and why. It is the one program that starts sandboxes
 * (B1), so it stays root; it parses no byte a caller sent. It has no syscall
 * list: a seccomp program is inherited by every sandbox, and Landlock forbids
 * the mounts it exists for.
 */
#include "worker/privileges.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include "base/scope.h"

static const struct confine_cap caps[] = {
	{ CAP_SYS_ADMIN, "namespaces, mounts, idmapped mounts, loop devices" },
	{ CAP_NET_ADMIN, "job networks, socket destruction" },
	{ CAP_BPF, "egress and guard programs, their maps" },
	{ CAP_PERFMON, "egress programs read packet pointers" },
	{ CAP_SETUID, "id maps of user namespaces" },
	{ CAP_SETGID, "id maps of user namespaces" },
	{ CAP_CHOWN, "a command's pipe ends belong to its id" },
	{ CAP_DAC_OVERRIDE, "slots' own files, whoever owns them" },
	{ CAP_FOWNER, "the empty workspace's root" },
	{ CAP_MKNOD, "the prepared /dev" },
	{ CAP_KILL, "launchers run under other ids" },
	{ CAP_SYS_PTRACE, "a slot's namespaces are opened through /proc" },
};

static const struct confine_limit limits[] = {
	{ RLIMIT_CORE, 1, "inherited by sandboxes: 1, not 0, also refuses piped core handlers (B11)" },
};

const struct confinement worker_privileges = {
	.program = "cordon-worker",
	.flags = CONFINE_ROOT | CONFINE_NO_LANDLOCK | CONFINE_NO_SECCOMP,
	.caps = caps,
	.ncaps = ARRAY_SIZE(caps),
	.limits = limits,
	.nlimits = ARRAY_SIZE(limits),
};
