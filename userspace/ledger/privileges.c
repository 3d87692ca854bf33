/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's confinement, as a table. */
#include "ledger/privileges.h"

#include <sys/resource.h>

#include "base/scope.h"

static const struct confine_path paths[] = {
	{ .arg = PATH_DB, .access = MAY_READ | MAY_WRITE, .reason = "the database" },
	{ .arg = PATH_WAL, .access = MAY_READ | MAY_WRITE, .reason = "its write-ahead log" },
	{ .arg = PATH_SHM, .access = MAY_READ | MAY_WRITE, .reason = "the log's index" },
	{ .arg = PATH_DIR,
	  .access = MAY_READ | MAY_WRITE | MAY_CREATE,
	  .reason = "checkpoint and spool" },
	{ .arg = PATH_KEYS, .access = MAY_READ, .reason = "the chain key, again after a rotation" },
	{ .path = "/proc/sys/kernel/random/boot_id",
	  .access = MAY_READ,
	  .reason = "which of the checkpoint's values holds" },
	{ .path = "/dev/urandom",
	  .access = MAY_READ,
	  .is_optional = true,
	  .reason = "sqlite salts its log" },
};

static const struct confine_call calls[] = {
	CALL("fallocate", "sqlite extends the log's index"),
	CALL("mlock", "keys stay off swap"),
};

static const struct confine_limit limits[] = {
	{ RLIMIT_NOFILE, 64, "nothing here opens many files" },
	{ RLIMIT_NPROC, 0, "no process, no thread" },
};

const struct confinement ledger_confinement = {
	.program = "cordon-ledger",
	.flags = CONFINE_NO_TCP,
	.paths = paths,
	.npaths = ARRAY_SIZE(paths),
	.calls = calls,
	.ncalls = ARRAY_SIZE(calls),
	.limits = limits,
	.nlimits = ARRAY_SIZE(limits),
};
