/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_LOOP_H
#define CORDON_WORKER_LOOP_H

/*
 * The worker's event loop: requests of the broker, answers of launchers, ends
 * of processes, deadlines, and the pool of warm slots.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "worker/skills.h"
#include "worker/slot.h"

enum { SLOTS_MAX = 160 }; /* running, queued to end and warm ones together */

struct loop {
	int epoll_fd, broker_fd, supervisor_fd;
	struct slot_maker maker;
	struct images images;
	struct workspaces workspaces;
	struct skills skills;
	struct id_range host_ids;
	uint32_t next_id; /* offset into host_ids */
	uint32_t pool;	  /* warm slots to keep */
	uint32_t guards, guards_missing;
	uint64_t next_slot;
	uint64_t pool_retry_ns; /* after a failed build: not before */
	uint64_t event_ns;	/* the last time anything happened */
	bool is_stopping;
	unsigned used; /* slots[] beyond it are all free */
	struct slot slots[SLOTS_MAX];
	uint64_t wanted_req[SLOTS_MAX]; /* a cold W_SLOT_GET waiting for this slot */
};

/* Runs until the broker or cordond is gone, or S_STOP. Everything is dead when it returns. */
int loop_run(struct loop *l, struct err *e);

#endif
