/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_SPOOL_H
#define CORDON_LEDGER_SPOOL_H

/*
 * Where rows wait while the database cannot take them (A6): a file beside it,
 * each line under the chain key, and, when not even that can be written, a
 * bounded queue in memory. What the queue cannot hold is lost and counted.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct secret_set;
struct store;

enum {
	SPOOL_FILE_MAX = 64 * 1024 * 1024,
	SPOOL_QUEUE_MAX = 1024,
	SPOOL_QUEUE_BYTES = 2 * 1024 * 1024,
	SPOOL_CHUNK = 256, /* lines drained in one transaction */
};

struct spool_entry {
	int64_t time_us;
	size_t len;
	char *body;
};

struct spool {
	int fd;
	char nonce[33];	 /* names this filling of the file */
	int64_t end;	 /* bytes; 0: no header yet */
	uint64_t lines;	 /* in the file, not drained */
	uint64_t line;	 /* number of the next one written */
	struct spool_entry queue[SPOOL_QUEUE_MAX];
	size_t queued, queued_bytes;
	uint64_t lost; /* beyond the bounds, or damaged in the file */
};

/* Opens or makes @dirfd's `spool`; counts what a former life left. */
int spool_open(struct spool *s, int dirfd, struct err *e);

/* A row's message body (compact JSON) and when it came. Never fails: it counts. */
void spool_put(struct spool *s, const struct secret_set *keys, int64_t time_us, const char *body,
	       size_t len);

uint64_t spool_pending(const struct spool *s);

/* Writes one body into the store; negative: the store is broken, stop. */
typedef int spool_write(void *ctx, int64_t time_us, const char *body, size_t len, struct err *e);

/*
 * Moves up to SPOOL_CHUNK bodies into @st in one transaction of its own, each
 * exactly once whenever the process dies. 0, or -errno with nothing moved.
 */
int spool_drain(struct spool *s, const struct secret_set *keys, struct store *st,
		spool_write *write_one, void *ctx, struct err *e);

void spool_close(struct spool *s);

#endif
