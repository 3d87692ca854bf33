/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_LEDGER_H
#define CORDON_BROKER_LEDGER_H

/*
 * The broker's end of include/proto/ledger.h. Letters wait here until they are
 * answered; those that must not be lost (rows, kept things) are sent again to a
 * ledger that was restarted, the others fail at once when it goes (A6: writing
 * never disturbs a tool loop). Bounded: beyond LEDGER_WAITING_MAX the oldest
 * row nobody waits for is dropped and counted. So is the wait: a ledger from
 * which nothing was heard for LEDGER_PATIENCE_MS while letters wait is as good
 * as none until it is heard again.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "broker/loop.h"
#include "proto/ledger.h"
#include "wire/msg.h"

enum {
	LEDGER_WAITING_MAX = 8192,
	LEDGER_SENT_MAX = 64, /* unanswered at once: what the socket holds */
	LEDGER_COLLECT_MS = 100, /* how long an answer may lie that nobody waits for */
	LEDGER_PATIENCE_MS = 5000,
};

/*
 * Called once per letter: @type is L_OK, L_RESULT or L_ERROR (also: the ledger
 * went away, or is silent; a kept letter goes its way all the same). @result is borrowed: L_RESULT's, what an L_ERROR of the ledger
 * says, else NULL.
 */
typedef void (*ledger_answer)(void *ctx, enum ledger_msg type, const json_t *result);

struct letter;

struct ledger_link {
	struct loop *loop;
	struct watch watch;
	struct msg *buf;
	int fd; /* -1: no ledger */
	bool is_ready, is_broken, is_silent;
	bool is_hurried; /* every answer is read as it comes */
	struct timer collect;
	uint64_t heard_ms; /* or asked the first thing after all was answered */
	struct timer patience;
	char broker_id[33];
	uint64_t last_req;
	struct letter *head, *tail; /* all that is not answered, in order */
	struct letter *unsent;	    /* the first not sent to this ledger */
	size_t nwaiting, nsent;
	size_t nawaited; /* of the waiting: somebody is called */
	uint64_t lost, failures, resent;
	void (*on_ready)(struct ledger_link *l, const json_t *ready);
	void (*on_heard)(struct ledger_link *l); /* it was silent, and is no longer */
};

int ledger_init(struct ledger_link *l, struct loop *loop, struct msg *buf, struct err *e);
/* A ledger, or the next one. Takes @fd. */
int ledger_connect(struct ledger_link *l, int fd, struct err *e);
bool ledger_is_up(const struct ledger_link *l);

enum { LETTER_KEPT = 1u << 0 /* sent again to the next ledger */ };

/*
 * Sends @body (borrowed). Gives the letter's number, or 0: it cannot be sent,
 * @fn is not called. @fn may be NULL.
 */
uint64_t ledger_send(struct ledger_link *l, enum ledger_msg type, const json_t *body,
		     unsigned flags, ledger_answer fn, void *ctx);
/* Sends what waits, as far as the socket takes it; the loop calls it before every wait. */
void ledger_flush(struct ledger_link *l);
/* The answer to letter @req goes nowhere; what it asks for still happens. */
void ledger_forget(struct ledger_link *l, uint64_t req);

/* From now on every answer is read as it comes: the end is near. */
void ledger_hurry(struct ledger_link *l);

/* True when no row waits to be acknowledged. */
bool ledger_is_idle(const struct ledger_link *l);

#endif
