/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_DNS_H
#define CORDON_GATEWAY_DNS_H

/*
 * The addresses in a DNS answer (RFC 1035). c-ares asks and checks id, question
 * and server; what the answer means is read here, because a library that takes
 * every address record in the packet takes those of other names too.
 */
#include <stddef.h>
#include <stdint.h>

#include "policy/address.h"

enum dns_type {
	DNS_A = 1,
	DNS_CNAME = 5,
	DNS_AAAA = 28,
};

enum { DNS_ADDRESSES_MAX = 16, DNS_CHAIN_MAX = 8, DNS_RECORDS_MAX = 256 };

/*
 * The addresses of type @type that @name has in the @len bytes of @msg, by way
 * of at most DNS_CHAIN_MAX aliases, in the order of the answer. @name is as
 * policy/host.h keeps it. Gives how many, 0 for none (also: no such name, other
 * errors of the server), -1 for an answer that is malformed, truncated, longer
 * than any honest one, or to another question.
 */
int dns_read_answer(const uint8_t *msg, size_t len, enum dns_type type, const char *name,
		    struct address out[static DNS_ADDRESSES_MAX]);

#endif
