/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_EGRESS_NETWORK_H
#define CORDON_WORKER_EGRESS_NETWORK_H

/*
 * A job's network seen from outside (E3, DESIGN 5): entering it for a moment,
 * the assertion that it is internal, the door, and the end of open sockets.
 * Every function that says "here" works on the calling thread's namespace.
 */
#include <stdint.h>

#include "abi/egress_types.h"
#include "base/err.h"

/*
 * Enters the network namespace of the process @pidfd. Gives a descriptor of the
 * namespace that was left, for egress_network_leave.
 */
int egress_network_enter(int pidfd, struct err *e);

/*
 * Back to @home, which is closed. A thread that cannot go home must not go on:
 * the caller ends the process on failure.
 */
int egress_network_leave(int home, struct err *e);

/*
 * Asserts by netlink dumps that here are exactly: loopback, up; no other link
 * that is up; the addresses 127.0.0.1/8, ::1/128 and, unless it is 0, @gateway/32;
 * no route but to these. -EXDEV names what is more.
 */
int egress_network_assert_internal(uint32_t gateway, struct err *e);

/*
 * Sockets made here from now on use a congestion control that does not pace:
 * the host's default may (BBR), which on a loopback only costs. Best effort.
 */
void egress_network_calm(void);

/* A listening TCP socket here on exactly @gateway:@port. Gives it, non-blocking. */
int egress_network_listen(uint32_t gateway, uint16_t port, struct err *e);

/*
 * Destroys every TCP socket here, of either end, that is connected through
 * @gateway and one of @ports; listeners stay. Their owners see ECONNABORTED.
 * Gives how many.
 */
int egress_network_destroy(uint32_t gateway, const uint16_t ports[EGRESS_PORTS], struct err *e);

#endif
