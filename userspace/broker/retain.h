/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_RETAIN_H
#define CORDON_BROKER_RETAIN_H

/*
 * The seam for keeping what commands print; off unless the configuration names
 * two sockets of the operator's:
 *
 *   redact  is given the output of a command and gives back what may be kept;
 *	     `none` where the operator says that it may be kept as it is
 *   retain  the sink: is given that, and nothing else
 *
 * One connection per command and socket, one stream of wire/frames.h on it:
 *
 *   ACCEPTED {"jobId", "commandId", "orgId"}
 *   STDOUT, STDERR as the command produced them, within its cap
 *   RESULT   {"stdoutBytes", "stderrBytes", "stdoutSha256", "stderrSha256"} of
 *	      what is in this stream, {"stdoutTruncated", "stderrTruncated"}
 *
 * The redactor answers with such a stream, whose result is {"redacted":true};
 * the sink with one line, {"retained":true}. Whatever else they say or fail to
 * say, nothing of that command is kept: that is counted (health) and changes
 * nothing else, as the command has been answered by then.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/loop.h"
#include "json/json.h"

enum {
	RETAIN_WAITING_MAX = 256,    /* commands that have ended */
	RETAIN_AT_ONCE = 8,	     /* connections */
	RETAIN_LIMIT_MS = 10000,     /* from a command's end until both have answered */
	RETAIN_ANSWER_MORE = 64 * 1024, /* a redactor's answer: twice what it got, and this */
};

struct broker;
struct command;
struct retain_copy;

struct retain {
	struct retain_copy *first; /* of commands that have ended, oldest first */
	unsigned nwaiting, nactive;
	size_t bytes; /* of all copies: at most PARCELS_MAX */
	struct timer retry;
	uint64_t kept, failed; /* commands, since the start */
	bool is_failing;
};

/* @c is about to run: its output is copied from now on, where anything is kept at all. */
void retain_begin(struct command *c);
/* @c is answered: its copy goes its way. Harmless without one. */
void retain_end(struct command *c);
/* Forgets the copy of a command that did not get that far. */
void retain_drop(struct command *c);

/* {"kept", "failed", "waiting"}, or null where nothing is kept. */
json_t *retain_health(const struct broker *b);

#endif
