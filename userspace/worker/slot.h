/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_SLOT_H
#define CORDON_WORKER_SLOT_H

/*
 * A slot: one single-use sandbox (DESIGN 2). Built ahead or on the spot by the
 * same code, used for exactly one command, destroyed.
 *
 *   BUILDING -> WARM -> TAKEN -> STARTING -> RUNNING -> ENDING -> (gone)
 *        \________\________\_________\__________\______/
 *
 * Whatever goes wrong in any state leads to ENDING; from there only to gone.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proto/worker.h"
#include "worker/cgroup.h"
#include "worker/egress.h"
#include "worker/guard.h"
#include "worker/image.h"
#include "worker/workspace.h"

enum slot_state {
	SLOT_FREE = 0,
	SLOT_BUILDING, /* waiting for the launcher's BUILT */
	SLOT_WARM,
	SLOT_TAKEN,    /* the broker has it */
	SLOT_STARTING, /* RUN sent, not yet exec'ed */
	SLOT_RUNNING,
	SLOT_ENDING, /* pid 1 is dead or dying; being cleaned up */
};

/* What a slot was built as: a slot of another shape is never adapted. */
struct slot_shape {
	struct image *image;
	uint32_t net; /* enum net_kind */
};

struct slot {
	enum slot_state state;
	uint64_t id;
	struct slot_shape shape;
	uint32_t host_uid;
	struct cgroup cg;
	pid_t pid;
	int pidfd, sock, userns_fd;
	int command_fds[3]; /* stdin read, stdout write, stderr write: the command's */
	int broker_fds[3];  /* stdin write, stdout read, stderr read */
	uint64_t req;	    /* the request it serves, 0: none */
	bool owes_done;	    /* W_RUN was taken: a W_DONE or W_FAIL is owed */
	bool is_reaped;
	struct workspace ws;
	struct limits limits;
	uint64_t deadline_ns; /* monotonic; 0: none */
	uint64_t exec_ns;
	struct w_done done;	/* filled as it becomes known */
	struct w_fail fail;	/* reason 0: not failed */
	struct egress *egress;	/* NULL: tier none */
	uint64_t egress_token;	/* in force for the command; 0: none */
	struct guard_programs *guard;	/* NULL: the host has none */
	bool has_ended; /* the command's own end is in done */
	uint32_t kill_termination, kill_reason;
};

/* Everything a slot is made from. Borrowed for the life of the slots. */
struct slot_maker {
	const struct cgroup_base *cgroups;
	int launcher_fd;      /* sealed program */
	const char *dev_path; /* the prepared /dev, mounted in the worker's namespace */
	uint32_t image_ids;   /* first of 65,536 ids that own image files outside */
	uint64_t tmp_bytes, shm_bytes;
	struct egress *egress; /* NULL: no gateway slots can be made */
	struct guard_programs *guard;   /* NULL: the host has none */
};

/*
 * Builds a slot of @shape for @host_uid, up to and including the BUILD message;
 * the launcher's answer comes through slot->sock. On failure nothing is left.
 */
int slot_build(const struct slot_maker *m, uint64_t id, const struct slot_shape *shape,
	       uint32_t host_uid, struct slot *ret, struct err *e);

/*
 * Starts the command in a TAKEN slot: limits, workspace, descriptors, RUN.
 * @argv_fd and @view_fd stay the caller's. Failure: e->code is a reason and
 * the slot is to be ended.
 */
int slot_run(struct slot *s, struct workspaces *w, const struct w_run *run, int argv_fd,
	     uint32_t argv_bytes, int view_fd, struct err *e);

/* Closes the command's pipe ends and whatever else must not outlive its use. */
void slot_close_pipes(struct slot *s);

/* Whether pid 1 of it lives; its death may not have been looked at yet. */
bool slot_is_alive(const struct slot *s);

/* Kills everything in it at once; ENDING from here on. */
void slot_kill(struct slot *s);

/*
 * One step of ENDING: 1 when the slot is gone (counters, workspace measured,
 * directories removed, done filled); 0: again in a moment.
 */
int slot_finish(struct slot *s);

#endif
