/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_HEALTH_H
#define CORDON_BROKER_HEALTH_H

/*
 * Readiness (R2, R3), earned by a handshake: a carrier sealed under the
 * reserved identity, opened, a job, a probe command in a real sandbox, its
 * output. Who asks for health joins the handshake that is under way, or gets
 * the verdict of the last one while it is fresh.
 */
#include <stdbool.h>
#include <stdint.h>

#include "broker/loop.h"
#include "policy/reason.h"

enum {
	HEALTH_FRESH_MS = 10000,
	HEALTH_PROBE_MS = 10000,   /* wall clock of the probe command */
	HEALTH_PATIENCE_MS = 5000, /* who asks waits no longer for it */
};

struct broker;
struct exchange;
struct health_waiter;
struct probe_question;

struct health {
	bool is_flying, is_over; /* is_over: a handshake was completed, well or not */
	bool is_good;
	uint64_t at_ms, at_realtime_ms, wall_ms;
	enum reason reason;	 /* why it is not good */
	const char *missing;	 /* the same in words; static */
	struct health_waiter *waiters;
	char expected[64];
	uint64_t probe_ms;
	struct timer patience;
	struct probe_question *question; /* asked beside the command, under the same identity */
	const char *run_probe;		 /* why the last one was not answered; static */
};

/* Answers @x, at once or after a handshake. */
void health_answer(struct broker *b, struct exchange *x);

/* Something changed (a worker came or went): what was known is no longer so. */
void health_changed(struct broker *b);

/* Skills have answered a ping, or do not. */
void health_skills_pinged(struct broker *b);

#endif
