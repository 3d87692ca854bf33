/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_RESOLVER_H
#define CORDON_GATEWAY_RESOLVER_H

/*
 * Names to addresses by c-ares, asking the configured resolver and nothing
 * else: no hosts file, no search list, no aliases of the environment. Nothing
 * is kept: what one job asked is not visible to another.
 */
#include <stdint.h>

#include "gateway/dns.h"
#include "gateway/loop.h"

struct resolver;
struct lookup;

/*
 * @count answers are in @list (not yet judged), 0 for none, -1 for a resolver
 * that does not answer or answers nonsense. The lookup is over and freed.
 */
typedef void (*lookup_done)(void *ctx, int count, struct address *list);

/* @server: "ADDRESS" or "ADDRESS:PORT" ("[ADDRESS]:PORT"), "" for the host's first nameserver. */
int resolver_open(struct loop *l, const char *server, struct resolver **ret, struct err *e);
void resolver_free(struct resolver *r);

/* Who is asked; family 0: nobody, and no name resolves. */
void resolver_server(const struct resolver *r, struct address *ret_address, uint16_t *ret_port);

/*
 * Asks once for @type of @name. Gives a handle for lookup_cancel, or NULL when
 * @done was called before this returned.
 */
struct lookup *resolver_ask(struct resolver *r, const char *name, enum dns_type type,
			    lookup_done done, void *ctx);

/* @done will not be called. */
void lookup_cancel(struct lookup *k);

#endif
