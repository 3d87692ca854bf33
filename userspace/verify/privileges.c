/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier's confinement, as a table. */
#include "verify/privileges.h"

#include <sys/resource.h>

#include "base/scope.h"

static const struct confine_limit limits[] = {
#ifndef __SANITIZE_ADDRESS__ /* whose shadow is larger than any limit */
	{ RLIMIT_AS, 1u << 30, "a database chooses the sizes of its values" },
#endif
	{ RLIMIT_NOFILE, 16, "all files are open" },
	{ RLIMIT_NPROC, 0, "no process, no thread" },
};

const struct confinement verify_confinement = {
	.program = "cordon-verify",
	.flags = CONFINE_NO_TCP,
	.limits = limits,
	.nlimits = ARRAY_SIZE(limits),
};
