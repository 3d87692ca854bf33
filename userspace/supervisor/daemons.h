/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SUPERVISOR_DAEMONS_H
#define CORDON_SUPERVISOR_DAEMONS_H

/*
 * The daemons as processes: what each is started with, how they are joined,
 * starting one. When to start or stop one is life.c's.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proto/supervisor.h"
#include "supervisor/fuse.h"
#include "supervisor/plane.h"

/* In the order of starting; stopping goes backwards by group. */
enum daemon_id { D_LEDGER, D_WORKER, D_GATEWAY, D_SKILLS, D_BROKER, D_COUNT };

enum daemon_state {
	DAEMON_ABSENT = 0, /* this build or host has no such program */
	DAEMON_DOWN,
	DAEMON_STARTING = 1 << 1, /* S_START sent, S_READY not seen: bits for the permit table */
	DAEMON_READY = 1 << 2,
	DAEMON_STOPPING = 1 << 3,
};

struct daemon {
	enum daemon_state state;
	pid_t pid;
	int pidfd;
	int fd;		     /* our end of its descriptor 3 */
	uint32_t restarts;   /* in this life of cordond */
	uint32_t failures;   /* in a row */
	uint64_t started_ms; /* monotonic */
	uint64_t retry_ms;   /* when to start it again; 0: not planned */
	uint32_t answers_due; /* S_RELOADs sent whose S_RELOADED has not come */
	struct err last;     /* what it said in S_FATAL, code 0: nothing */
};

struct daemons {
	struct daemon of[D_COUNT];
	int pending[D_COUNT][D_COUNT]; /* [a][b]: a's end of the pair with b, not yet handed over */
	int listen_fd;
	int log_fd;
	struct fuse fuse;
};

/* What a daemon is handed beside its configuration and its peers. */
enum daemon_want {
	WANTS_LISTEN = 1u << 0,
	WANTS_LAUNCHER = 1u << 1,
	WANTS_FUSE = 1u << 2,	      /* the device and the state of the skills' mount */
	WANTS_SKILLS_MOUNT = 1u << 3, /* a clone of it */
};

struct daemon_row {
	const char *name;
	enum config_reader reader;
	enum supervisor_fd as_peer; /* what the others call the descriptor to it */
	bool is_optional;
	unsigned wants; /* enum daemon_want */
	unsigned stop_step; /* smaller ones stop first */
};

extern const struct daemon_row daemon_rows[D_COUNT];

/* Everything down, nothing open; finds out which daemons this instance has. */
int daemons_init(struct daemons *d, const struct plane *p, int listen_fd, int log_fd,
		 struct err *e);

/* Starts @id: spawns it, sends S_START, tells its running peers. It is STARTING afterwards. */
int daemons_start(struct daemons *d, const struct plane *p, enum daemon_id id, uint64_t now_ms,
		  struct err *e);

/* Sends S_RELOAD with the slice of @text. */
int daemons_send_config(struct daemons *d, const struct plane *p, enum daemon_id id,
			const char *text, size_t len, struct err *e);

/* Forgets a process that has been reaped. */
void daemons_forget(struct daemons *d, enum daemon_id id);

#endif
