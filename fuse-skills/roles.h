/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_ROLES_H
#define CORDON_SKILLS_ROLES_H

/*
 * The three processes of this program and what they say to each other. The
 * keeper starts the other two from its own binary, each with a socket pair as
 * descriptor 3; the end of any of the three is the end of all, and cordond
 * starts them anew over the same mount.
 *
 *   keeper  speaks with broker and cordond, opens and closes views, watches
 *   server  answers the kernel, reads the store, hears nobody else
 *   stager  writes the store, one staging at a time
 *
 * Between keeper and stager: K_STAGE, K_REMOVE and their answers, as the broker
 * sends and gets them.
 */
#include <stdint.h>

#include "config/config.h"

enum role_msg {
	R_START = 64, /* keeper -> both: struct r_start; [0] life line; server: [1] state, [2] FUSE */
	R_READY,      /* both -> keeper, once */
	R_PING,	      /* keeper -> server */
	R_PONG,	      /* server -> keeper: struct r_pong */
	R_FORGET,     /* keeper -> server: struct r_forget; no answer */
};

/*
 * The life line is a pipe whose other end the keeper holds and never writes.
 * When it closes, the kernel kills: a process that is stopped reads no socket,
 * and PR_SET_PDEATHSIG is lost with a change of ids and refused by Landlock
 * between two domains.
 */
struct err;
int role_tie(int life_line_fd, struct err *e);

struct r_start {
	char root[256];
	char fault[CONFIG_FAULT_MAX]; /* base/fault.h */
	uint32_t uid, gid;
};

struct r_pong {
	uint64_t busy_ms; /* age of the oldest request in hand */
};

struct r_forget {
	uint64_t view;
};

/* The mains of the roles; give the exit status. */
int keeper_main(void);
int server_main(void);
int stager_main(void);

/* For root without a daemon: stages standard input into @store, or removes; writes JSON. */
int once_stage(const char *store);
int once_remove(const char *store, const char *slug, const char *digest_or_null);

#endif
