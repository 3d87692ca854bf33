/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_TRANSFER_H
#define CORDON_BROKER_TRANSFER_H

/*
 * Artifacts on the broker's side (W3): scripts of the broker's own in the
 * sandbox, whose input or output is a tar stream that is judged here. Nothing
 * is mounted, and each script is a command like any other: it waits in the
 * queue, and leaves its row and its receipt.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "artifact/scan.h"
#include "artifact/tar.h"
#include "broker/http.h"
#include "broker/job.h"
#include "policy/reason.h"

struct command;

enum { TRANSFER_TEXT_MAX = 300, TRANSFER_BYTES_MAX = 1 << 30 };

struct transfer {
	struct broker *broker;
	struct exchange *exchange; /* NULL: the client has gone */
	struct job *job;	   /* held until the transfer is freed */
	struct command *command;   /* in flight; NULL: none */
	char path[TAR_PATH_MAX];   /* below /workspace, or "." */
	uint64_t max_bytes;
	struct artifact_scan *scan; /* what goes in */
	size_t judged;		    /* bytes of the chunk on offer that were judged */
	bool is_whole;		    /* the request has come to its end */
	enum reason refused;
	char text[TRANSFER_TEXT_MAX];
	/* Of the last command that ended. */
	char job_id[JOB_ID_MAX], command_id[129];
	json_t *receipt;
	uint8_t *out;
	size_t out_len;
	/* All that was asked for has come, or @refused says why not. Frees @t. */
	void (*then)(struct transfer *t);
};

/* Holds @j. NULL: out of memory, and @j is not held. */
struct transfer *transfer_new(struct broker *b, struct exchange *x, struct job *j);
void transfer_free(struct transfer *t);

/*
 * Runs `sh -c @script artifact FIRST SECOND` with @in (taken; NULL: none) as
 * standard input, or with a stream of it. t->then comes when it has ended and
 * the request is whole, maybe before this returns.
 */
void transfer_run(struct transfer *t, const char *script, const char *first, const char *second,
		  bool streams_in, char *in, size_t in_len);

/* Refuses it, once: what runs is stopped. t->then may have come when this returns. */
void transfer_refuse(struct transfer *t, enum reason why, const char *text);

/* The request has come to its end. t->then may have come when this returns. */
void transfer_is_whole(struct transfer *t);

#endif
