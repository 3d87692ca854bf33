/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_WORKER_H
#define CORDON_BROKER_WORKER_H

/*
 * The broker's end of include/proto/worker.h. A call is embedded in whoever
 * makes it; it stands in the link's list from the first request to the last
 * answer, or until worker_forget(). When the worker dies every call is told so
 * (lost) and is forgotten.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "broker/loop.h"
#include "proto/worker.h"
#include "wire/msg.h"

struct worker_call;

struct worker_events {
	/* Takes the three descriptors: standard input's write end, output's and error's read ends. */
	void (*slot)(struct worker_call *c, const struct w_slot *s, const int fds[3]);
	void (*started)(struct worker_call *c, const struct w_started *s);
	void (*done)(struct worker_call *c, const struct w_done *d);	/* last */
	void (*fail)(struct worker_call *c, const struct w_fail *f);	/* last */
	void (*entry)(struct worker_call *c, const struct w_workspace_entry *w);
	void (*reply)(struct worker_call *c, const struct w_reply *r);	/* last */
	void (*lost)(struct worker_call *c);				/* last */
};

struct worker_call {
	uint64_t req; /* 0: not in the list */
	const struct worker_events *events;
	struct worker_call *next;
};

struct worker_link {
	struct loop *loop;
	struct watch watch;
	struct msg *buf; /* the program's one receive buffer */
	int fd;		 /* -1: no worker */
	bool is_ready, is_broken;
	struct w_ready ready;
	int skills_fd; /* root of the skills as this worker mounted them; -1, or taken by on_ready */
	uint64_t last_req;
	struct worker_call *calls;
	void (*on_ready)(struct worker_link *w);
	void (*on_lost)(struct worker_link *w);
};

void worker_init(struct worker_link *w, struct loop *l, struct msg *buf);

/* A worker, or the next one. Takes @fd. */
int worker_connect(struct worker_link *w, int fd, struct err *e);

/* True when a request can be made now. */
bool worker_is_up(const struct worker_link *w);

/*
 * Requests. 0, or -errno: there is no worker, and @c is in no list. No event is
 * told out of these calls.
 */
int worker_slot_get(struct worker_link *w, struct worker_call *c,
		    const struct worker_events *events, const char *image, enum net_kind net);
/* @r's req is filled in; borrows @fds. */
int worker_run(struct worker_link *w, struct worker_call *c, struct w_run *r, const int *fds,
	       unsigned nfds);
int worker_kill(struct worker_link *w, struct worker_call *c, uint32_t reason,
		uint32_t termination);
int worker_drop(struct worker_link *w, uint64_t req, uint64_t slot);
int worker_workspace_remove(struct worker_link *w, struct worker_call *c,
			    const struct worker_events *events, const uint8_t key[32]);
int worker_workspace_list(struct worker_link *w, struct worker_call *c,
			  const struct worker_events *events);

/* Whatever is still answered to @c goes nowhere; a slot that comes is dropped. */
void worker_forget(struct worker_link *w, struct worker_call *c);

#endif
