/* SPDX-License-Identifier: Apache-2.0 */
/* The broker's confinement, as a table. */
#include "broker/privileges.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include "base/scope.h"
#include "broker/http.h"

static const struct confine_path paths[] = {
	{ .arg = PATH_SECRETS,
	  .access = MAY_READ,
	  .reason = "carrier and attestation secrets, again after a rotation" },
	{ .arg = PATH_VOUCHERS,
	  .access = MAY_READ,
	  .is_optional = true,
	  .reason = "public keys of vouchers, again after a change" },
	{ .path = "/etc/passwd", .access = MAY_READ, .is_optional = true, .reason = "a peer's name" },
	{ .path = "/etc/group", .access = MAY_READ, .is_optional = true, .reason = "rules of groups" },
	{ .path = "/etc/nsswitch.conf",
	  .access = MAY_READ,
	  .is_optional = true,
	  .reason = "where names of accounts are" },
};

static const struct confine_call calls[] = {
	CALL("accept4", "the API's connections"),
	CALL("mlock", "keys stay off swap"),
	CALL("epoll_create", "libmicrohttpd on old kernels"),
	/* Only where such a socket is configured, and last. Landlock does not judge the connection. */
	CALL_IF("socket", "the operator's redactor, sink and liveness probe", 0, 0xffffffff, AF_UNIX),
	CALL("connect", "the same"),
};
enum { CALLS_OF_DIALS = 2 };

static const struct confine_limit limits[] = {
	{ RLIMIT_NOFILE, HTTP_CONNECTIONS_MAX + 2 * 256, "connections and pipes" },
	{ RLIMIT_NPROC, 0, "no process, no thread" },
};

#define BROKER_CONFINEMENT(ncalls_) \
	{ \
		.program = "cordon-broker", .flags = CONFINE_NO_TCP, .paths = paths, \
		.npaths = ARRAY_SIZE(paths), .calls = calls, .ncalls = (ncalls_), \
		.limits = limits, .nlimits = ARRAY_SIZE(limits), \
	}

const struct confinement broker_confinement =
	BROKER_CONFINEMENT(ARRAY_SIZE(calls) - CALLS_OF_DIALS);
const struct confinement broker_dials_confinement = BROKER_CONFINEMENT(ARRAY_SIZE(calls));
