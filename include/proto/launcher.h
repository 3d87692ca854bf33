/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROTO_LAUNCHER_H
#define CORDON_PROTO_LAUNCHER_H

/*
 * worker <-> launcher, over descriptor 3 (SEQPACKET), one packet each. The
 * launcher is pid 1 of a slot and never speaks first.
 *
 *   worker                                launcher
 *   LAUNCH_BUILD  [image, dev]  ------->  makes the mount tree, pivots, waits
 *                               <-------  LAUNCH_BUILT
 *   LAUNCH_RUN [argv, ws, 0,1,2, view] -> attaches, checks, drops, forks
 *                               <-------  LAUNCH_EXECED (errno 0, or why exec failed)
 *                               <-------  LAUNCH_EXITED, then it exits: so does all else
 *
 * LAUNCH_FAILED may take the place of any answer; then it exits.
 */
#include <stdint.h>

enum { LAUNCHER_FD = 3, SANDBOX_ID = 10001 };

enum launcher_msg {
	LAUNCH_BUILD = 1,
	LAUNCH_BUILT,
	LAUNCH_RUN,
	LAUNCH_EXECED,
	LAUNCH_EXITED,
	LAUNCH_FAILED,
};

/* Descriptors of LAUNCH_RUN, in this order; the view comes last and only with LAUNCH_HAS_VIEW. */
enum { RUN_FD_ARGV, RUN_FD_WORKSPACE, RUN_FD_STDIN, RUN_FD_STDOUT, RUN_FD_STDERR, RUN_FD_VIEW };
enum { LAUNCH_HAS_VIEW = 1u << 0, LAUNCH_HAS_GATEWAY = 1u << 1 };

struct launch_build {
	uint32_t type;
	uint32_t gateway_addr_be; /* 0: none; else added to lo as a /32 (E3) */
	uint64_t tmp_bytes;
	uint64_t shm_bytes;
};

struct launch_run {
	uint32_t type;
	uint32_t flags;
	uint32_t argc;
	uint32_t argv_bytes;
	uint64_t fsize_bytes; /* RLIMIT_FSIZE */
	char cwd[1024];	      /* below /workspace, relative, or "" */
	char proxy[256];
};

struct launch_reply {
	uint32_t type;
	int32_t code;	 /* EXECED, FAILED: errno. EXITED: exit code or signal number */
	uint32_t signaled; /* EXITED: code is a signal */
	uint32_t bad_request; /* FAILED: the request was wrong (cwd), not the plane */
	char step[64];	 /* FAILED: which step */
};

#endif
