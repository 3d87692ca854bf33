/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_AUDIT_ROW_H
#define CORDON_AUDIT_ROW_H

/*
 * One row of the ledger: its columns (A2), its metadata's ten keys, the bytes
 * its place in the chain is computed over (A5). The ledger writes rows and the
 * verifier re-computes them by the same functions.
 */
#include <stddef.h>
#include <stdint.h>

#include "digest/digest.h"

struct secret;

enum audit_column {
	COL_ORGANIZATION = 0,
	COL_ACTOR,
	COL_ACTOR_TYPE,
	COL_AUTH_SOURCE,
	COL_RESOURCE_TYPE,
	COL_RESOURCE,
	COL_OPERATION,
	COL_DECISION,
	COL_RUN, /* the one that may be NULL */
	COL_METADATA,
	AUDIT_COLUMNS
};

enum {
	AUDIT_TEXT_MAX = 256,
	AUDIT_CWD_MAX = 1024,
	AUDIT_METADATA_MAX = 8 * 1024, /* rendered, every byte of cwd escaped */
	AUDIT_ROW_MAX = 16 * 1024,     /* canonical bytes; nothing honest is longer */
	AUDIT_TIME_MAX = 32,
};

/* The columns' names in the database and in every answer, by enum audit_column. */
extern const char *const audit_column_names[AUDIT_COLUMNS];

/* What A2 fixes for every row; NULL for the others. */
extern const char *const audit_column_fixed[AUDIT_COLUMNS];

struct audit_text {
	const char *s; /* NULL: absent */
	size_t len;
};

struct audit_row {
	uint64_t sequence; /* 1, 2, ... without a gap */
	int64_t time_us;   /* since the epoch */
	uint32_t key_version;
	struct audit_text col[AUDIT_COLUMNS];
};

/* Metadata as values; NULL or -1 where absent. */
struct audit_metadata {
	const char *surface, *cwd, *reason, *termination, *image_digest, *egress_mode;
	int64_t exit_code, egress_total_bytes, wall_ms, workspace_kb;
};

enum { AUDIT_METADATA_KEYS = 10 };
extern const char *const audit_metadata_names[AUDIT_METADATA_KEYS];

/* Compact JSON of exactly the ten keys in A2's order. Its length, or -ENOSPC. */
int audit_metadata_render(const struct audit_metadata *m, char *buf, size_t size);

/* What the first row's predecessor is. */
void audit_genesis(uint8_t ret[DIGEST_LEN]);

/*
 * The row's link: HMAC over the link before it and every column, each with its
 * length, so that no two rows give the same bytes. -E2BIG above AUDIT_ROW_MAX.
 */
int audit_row_link(const struct secret *key, const uint8_t before[DIGEST_LEN],
		   const struct audit_row *row, uint8_t ret[DIGEST_LEN]);

/* 2026-01-31T12:00:00.000000Z */
void audit_time_text(int64_t time_us, char ret[AUDIT_TIME_MAX]);

#endif
