/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_PARCEL_H
#define CORDON_BROKER_PARCEL_H

/*
 * The output of one command as a whole stream (wire/frames.h) in memory, with
 * what its last frame says of it: bytes and SHA-256 of either side. What all
 * parcels hold together is counted and bounded.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest/digest.h"
#include "wire/frames.h"

enum { PARCELS_MAX = 64 << 20, PARCEL_SIDES = 2 };

struct parcel {
	size_t *used; /* by all parcels */
	uint8_t *buf;
	size_t len, cap;
	size_t first;  /* of the first frame's payload */
	size_t head;   /* where the output frame is that may still grow */
	uint32_t open; /* its payload */
	unsigned kind; /* 0: there is none */
	uint64_t bytes[PARCEL_SIDES];
	struct digest *hash[PARCEL_SIDES];
};

/* All that give false: out of memory, or over PARCELS_MAX. */
bool parcel_begin(struct parcel *p, size_t *used, const char *accepted, size_t len);
/* @kind: FRAME_STDOUT or FRAME_STDERR. */
bool parcel_put(struct parcel *p, enum frame_kind kind, const uint8_t *buf, size_t len);
/* Adds the last frame. */
bool parcel_end(struct parcel *p, const bool is_truncated[PARCEL_SIDES]);
/* Harmless when it never began. */
void parcel_done(struct parcel *p);

#endif
