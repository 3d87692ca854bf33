/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_ARTIFACT_SCAN_H
#define CORDON_ARTIFACT_SCAN_H

/*
 * A tar stream judged as it comes, in pieces of any size, in bounded memory
 * (W3): what tar_read() would refuse is refused at the byte that shows it, so
 * that it never reaches who unpacks. Gives the files with their digests.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	ARTIFACT_ENTRIES_MAX = 65536,
	ARTIFACT_SUMS_MAX = 8 << 20, /* bytes of names and digests */
};

struct artifact_scan;

/* NULL: out of memory. */
struct artifact_scan *artifact_scan_new(uint64_t max_bytes);
void artifact_scan_free(struct artifact_scan *s); /* NULL is harmless */

/* 0, or -EINVAL, -EFBIG, -E2BIG, -ENOMEM: nothing more may be added. */
int artifact_scan_add(struct artifact_scan *s, const void *buf, size_t len, struct err *e);

/* The stream has ended: 0 when that is where it may. */
int artifact_scan_end(struct artifact_scan *s, struct err *e);

/* {"path", "size", "sha256"} of each file, borrowed. */
json_t *artifact_scan_files(const struct artifact_scan *s);
/* The same as lines for sha256sum -c (caller frees); NULL: out of memory. */
char *artifact_scan_sums(const struct artifact_scan *s, size_t *ret_len);

#endif
