/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_GATEWAY_H
#define CORDON_BROKER_GATEWAY_H

/*
 * The broker's end of include/proto/gateway.h, in the manner of worker.h: a
 * call is embedded in whoever makes it and stands in the link's list from the
 * request to its last answer, or until gateway_forget(). A gateway that is
 * lost, or does not answer in time, tells every call so.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "broker/loop.h"
#include "policy/egress.h"
#include "proto/gateway.h"
#include "wire/msg.h"

struct gateway_call;

struct gateway_events {
	void (*registered)(struct gateway_call *c, const struct g_registered *r); /* last */
	void (*counts)(struct gateway_call *c, const struct g_counts *n,
		       const struct g_denied *denied);				  /* last */
	void (*destination)(struct gateway_call *c, const struct g_destination *d);
	void (*end)(struct gateway_call *c);					  /* last */
	void (*checked)(struct gateway_call *c, const struct g_checked *k);	  /* last */
	void (*lost)(struct gateway_call *c);					  /* last */
};

struct gateway_call {
	uint64_t req; /* 0: not in the list */
	uint64_t due_ms;
	const struct gateway_events *events;
	struct gateway_call *next;
};

struct gateway_link {
	struct loop *loop;
	struct watch watch;
	struct timer patience;
	struct msg *buf;
	int fd; /* -1: no gateway */
	bool is_ready, is_broken;
	uint64_t last_req;
	struct gateway_call *calls;
	void (*on_ready)(struct gateway_link *g);
	void (*on_lost)(struct gateway_link *g);
};

void gateway_init(struct gateway_link *g, struct loop *l, struct msg *buf);

/* A gateway, or the next one. Takes @fd. */
int gateway_connect(struct gateway_link *g, int fd, struct err *e);

bool gateway_is_up(const struct gateway_link *g);

/* Requests: 0, or -errno and @c is in no list. No event is told out of these calls. */
int gateway_register(struct gateway_link *g, struct gateway_call *c,
		     const struct gateway_events *events, uint64_t slot, const char *token,
		     const struct egress_policy *p, uint64_t used_bytes);
int gateway_unregister(struct gateway_link *g, struct gateway_call *c,
		       const struct gateway_events *events, uint64_t slot);
int gateway_live(struct gateway_link *g, struct gateway_call *c,
		 const struct gateway_events *events);
int gateway_check(struct gateway_link *g, struct gateway_call *c,
		  const struct gateway_events *events, const struct egress_policy *p,
		  const struct target *target);

/* Ends a registration whose counts nobody wants. */
void gateway_drop(struct gateway_link *g, uint64_t slot);

void gateway_forget(struct gateway_link *g, struct gateway_call *c);

#endif
