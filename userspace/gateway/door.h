/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_DOOR_H
#define CORDON_GATEWAY_DOOR_H

/*
 * The listening sockets of a room: accepting fairly, at most so many
 * connections at once (the rest wait in the kernel's queue, where they cost
 * nobody else anything), and shutting for good.
 */
#include "gateway/gateway.h"

/* Takes @fds, also on failure. */
int door_open(struct gateway *g, struct room *room, const int *fds, unsigned n, struct err *e);

/* A connection has gone: accepts again if it had stopped. */
void door_resume(struct gateway *g, struct room *room);

/*
 * Shuts the door and every connection; what waited unaccepted is counted and
 * shut too. The room's counts are final after it.
 */
void door_shut(struct gateway *g, struct room *room);

#endif
