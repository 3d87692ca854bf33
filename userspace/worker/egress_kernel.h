/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_EGRESS_KERNEL_H
#define CORDON_WORKER_EGRESS_KERNEL_H

/*
 * The userspace twin of bpf/egress.bpf.c, bpf/gateway.bpf.c and
 * bpf/level.bpf.c: loads, attaches, pins, and is alone in touching their maps.
 * Knows slots by their cgroup's kernel id and tokens by an index that the
 * caller hands out (worker/egress.c).
 */
#include <stdint.h>

#include "abi/egress_types.h"
#include "base/err.h"
#include "policy/address.h"

struct egress_kernel;

/*
 * Loads the job programs and attaches them to the directory @jobs_fd, beside
 * whatever else is attached there; pins every link as PIN_DIR/egress_NAME, in
 * place of what an earlier worker left. @pin_dir is a directory of a bpffs.
 * Any step that fails undoes the rest: a partial guard is none.
 */
int egress_kernel_open(int jobs_fd, const char *pin_dir, struct egress_kernel **ret, struct err *e);

/*
 * The same for the second ring on the gateway's directory. @resolvers (with
 * @resolver_port) and @rules->exempt may be dialled although protected;
 * @rules->ranges are protected further.
 */
int egress_kernel_open_ring(struct egress_kernel *b, int gateway_fd, const char *pin_dir,
			 const struct address *resolvers, unsigned nresolvers,
			 uint16_t resolver_port, const struct address_rules *rules, struct err *e);

/* Frees memory and descriptors. What is pinned goes on enforcing. */
void egress_kernel_free(struct egress_kernel *b);

/* Unpins everything below @pin_dir that egress_kernel_open pinned: the guard ends. */
int egress_kernel_unpin(const char *pin_dir, struct err *e);

/* Budget and what was used before, of a token no live slot refers to. */
void egress_kernel_token_set(struct egress_kernel *b, uint32_t index, uint64_t budget, uint64_t used);
/* Changes the budget alone, while packets pass. */
void egress_kernel_token_budget(struct egress_kernel *b, uint32_t index, uint64_t budget);
/* Books what a slot has moved on a token without a ceiling: its packets did not. */
void egress_kernel_token_charge(struct egress_kernel *b, uint32_t index, uint64_t bytes);
uint64_t egress_kernel_token_used(const struct egress_kernel *b, uint32_t index);

/* Opens the door for a slot. -EEXIST when it has an entry: a slot is used once. */
int egress_kernel_slot_add(struct egress_kernel *b, uint64_t cgroup_id, uint32_t token,
			uint32_t gateway, const uint16_t ports[EGRESS_PORTS], struct err *e);

/* What was counted so far. -ENOENT: no entry. */
int egress_kernel_slot_read(const struct egress_kernel *b, uint64_t cgroup_id, struct egress_slot *ret);

/* Shuts the door and gives the last counts. */
int egress_kernel_slot_take(struct egress_kernel *b, uint64_t cgroup_id, struct egress_slot *ret,
			 struct err *e);

/* Readable when a token has met its budget. */
int egress_kernel_events_fd(const struct egress_kernel *b);

/* Hands every waiting event's slot to @over. */
void egress_kernel_events_read(struct egress_kernel *b, void (*over)(void *ctx, uint64_t cgroup_id),
			    void *ctx);

/* Dials that the second ring refused since it was loaded. */
uint64_t egress_kernel_ring_denied(const struct egress_kernel *b);

#endif
