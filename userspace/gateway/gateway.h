/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_GATEWAY_H
#define CORDON_GATEWAY_GATEWAY_H

/* The program's shelf: what main() makes and its modules are handed. */
#include "gateway/lane.h"
#include "gateway/loop.h"
#include "gateway/resolver.h"
#include "gateway/room.h"
#include "policy/address.h"

struct msg;

struct gateway {
	struct loop loop;
	struct rooms rooms;
	struct lane_ground ground;
	struct resolver *resolver;
	struct address_rules rules;
	uint16_t own_first; /* of rules.ranges: the host's own addresses start here */
	uint32_t conns_per_room;
	struct watch supervisor, broker, worker, netlink;
	struct msg *worker_msg, *broker_msg; /* in hand at the same time */
};

#endif
