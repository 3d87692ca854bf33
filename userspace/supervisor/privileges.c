/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cordond keeps, and why. It starts the others, and nobody can be handed
 * more than it holds itself: so this is the worker's table, what the daemons
 * need to give theirs up, and what sweeping takes. It has no syscall list and
 * no Landlock domain, because both would be inherited by the worker.
 */
#include "supervisor/privileges.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include "base/scope.h"

static const struct confine_cap caps[] = {
	{ CAP_SYS_ADMIN, "the skills' mount, loop devices and mounts left behind; the worker" },
	{ CAP_CHOWN, "directories and secrets belong to their daemons" },
	{ CAP_FOWNER, "their modes" },
	{ CAP_FSETID, "the skills' store keeps its group" },
	{ CAP_DAC_OVERRIDE, "files of daemons, whoever owns them; the worker" },
	{ CAP_KILL, "daemons run under other ids" },
	{ CAP_SETUID, "daemons become their users; the worker's id maps" },
	{ CAP_SETGID, "the same" },
	{ CAP_SETPCAP, "daemons empty their bounding sets" },
	{ CAP_NET_ADMIN, "the worker: job networks" },
	{ CAP_BPF, "the worker: egress programs" },
	{ CAP_PERFMON, "the worker: egress programs" },
	{ CAP_MKNOD, "the worker: the prepared /dev" },
	{ CAP_SYS_PTRACE, "the worker: a slot's namespaces through /proc" },
};

static const struct confine_limit limits[] = {
	{ RLIMIT_NOFILE, 131072, "daemons take their share of it; only this one may raise it" },
	{ RLIMIT_CORE, 1, "inherited: 1, not 0, also refuses piped core handlers (B11)" },
};

const struct confinement supervisor_confinement = {
	.program = "cordond",
	.flags = CONFINE_ROOT | CONFINE_NO_LANDLOCK | CONFINE_NO_SECCOMP,
	.caps = caps,
	.ncaps = ARRAY_SIZE(caps),
	.limits = limits,
	.nlimits = ARRAY_SIZE(limits),
};
