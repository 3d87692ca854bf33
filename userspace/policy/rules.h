/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_RULES_H
#define CORDON_POLICY_RULES_H

/*
 * The configuration's lists of addresses as address_rules. The gateway, which
 * dials, and the worker, which arms the second ring, read them through these.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/address.h"

/* A word of a list that is no address or range, or one too many. */
struct rules_fault {
	const char *at;
	size_t len;
};

/* Adds every ADDRESS or ADDRESS/BITS of @text, separated by blanks or commas. */
bool rules_add_ranges(struct address_rules *r, const char *text, struct rules_fault *ret);

/* Adds every ADDRESS of @text as an exception. */
bool rules_add_exceptions(struct address_rules *r, const char *text, struct rules_fault *ret);

/* Adds one address as a range of its own. False: full. */
bool rules_add_own(struct address_rules *r, const struct address *a);

/* Adds one that is never dialled, exceptions or not. False: full. */
bool rules_add_never(struct address_rules *r, const struct address *a);

enum { RULES_DNS_PORT = 53 };

/*
 * The DNS server: @setting as ADDRESS or ADDRESS:PORT ([ADDRESS]:PORT), or where
 * it is empty the first nameserver of @resolv_conf, a text like /etc/resolv.conf.
 */
bool rules_resolver(const char *setting, const char *resolv_conf, struct address *ret,
		    uint16_t *ret_port);

/*
 * The gateway's address inside sandboxes, in host order: IPv4, protected (or a
 * job's name could resolve to it from outside), not 127/8 (uncounted). 0: not one.
 */
uint32_t rules_gateway_address(const char *text);

#endif
