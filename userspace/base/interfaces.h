/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BASE_INTERFACES_H
#define CORDON_BASE_INTERFACES_H

/* The addresses this host has right now, whatever interface they are on. */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct interface_address {
	uint8_t family; /* 4 or 6 */
	uint8_t bytes[16]; /* network order; IPv4 fills four */
};

/* Gives how many were written; -E2BIG when there are more than @max. */
int interfaces_addresses(struct interface_address *ret, size_t max, struct err *e);

/* A netlink descriptor, non-blocking, that becomes readable when an address comes or goes. */
int interfaces_watch(struct err *e);

#endif
