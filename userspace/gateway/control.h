/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_CONTROL_H
#define CORDON_GATEWAY_CONTROL_H

/*
 * The gateway's control channels (include/proto/gateway.h): rooms from the
 * worker, registrations and questions from the broker, orders from cordond.
 */
#include "config/start.h"
#include "gateway/gateway.h"

/* Watches cordond, and of @s the worker and the broker where they are there already. */
int control_open(struct gateway *g, struct start *s, struct err *e);

/* Tells the broker that registrations are welcome. */
int control_ready(struct gateway *g, struct err *e);

/* Shuts every door. */
void control_close(struct gateway *g);

#endif
