/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_EGRESS_H
#define CORDON_WORKER_EGRESS_H

/*
 * Egress as the worker's slots see it: the room a gateway slot is given when it
 * is built, what is in force while its command runs, what was counted at its
 * end. Keeps the kernel's programs (egress_kernel), the job networks
 * (egress_network, egress_nft) and the channel to the gateway together.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "proto/worker.h"

struct egress;

/*
 * Loads and attaches to @jobs_fd and @gateway_fd (the instance's v2 directories
 * jobs/ and gateway/), pinned below @pin_dir, a bpffs. @c holds the worker's
 * slice. Fails whole: without it no gateway slot may be given.
 */
int egress_open(int jobs_fd, int gateway_fd, const char *pin_dir, const struct config *c,
		struct egress **ret, struct err *e);

/* What is pinned goes on enforcing. */
void egress_free(struct egress *g);

/* The gateway's address, for LAUNCH_BUILD. Network order. */
uint32_t egress_address_be(const struct egress *g);

/* The channel to the (re)started gateway. Takes @fd. Every gateway slot of before is useless now. */
void egress_set_gateway(struct egress *g, int fd);

/* A gateway is there to be told of rooms. */
bool egress_has_gateway(const struct egress *g);

/*
 * Makes the room of a built slot whose pid 1 is @pidfd: asserts that its
 * network is internal, loads the nft line, makes the door and hands it to the
 * gateway. Failure: e->code is a reason.
 */
int egress_room_open(struct egress *g, uint64_t slot, int pidfd, struct err *e);

/* The slot is gone, used or not. */
void egress_room_close(struct egress *g, uint64_t slot);

/*
 * Before the command's first instruction: asserts the network again and puts
 * token, budget and door in force for the cgroup. Failure: e->code is a reason.
 */
int egress_begin(struct egress *g, uint64_t cgroup_id, int pidfd, const struct w_run *run,
		 struct err *e);

/* After its last: shuts the door and fills what @done says of egress. */
void egress_end(struct egress *g, uint64_t cgroup_id, uint64_t token, struct w_done *done);

/* Readable when a token has met its budget. */
int egress_events_fd(const struct egress *g);

/*
 * Ends the open connections of every slot whose token has met its budget.
 * @pidfd_of gives the pid 1 of the slot with that cgroup, or -1.
 */
void egress_on_events(struct egress *g, int (*pidfd_of)(void *ctx, uint64_t cgroup_id),
		      void *ctx);

#endif
