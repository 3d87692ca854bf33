/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BASE_FAULT_H
#define CORDON_BASE_FAULT_H

/*
 * Fault points: labelled steps at which a test can make a daemon die, wait or
 * fail. Armed by the configuration's `fault` key alone (never by a caller, an
 * environment or a message), one at a time, at a start and again with every
 * reload; the first time it strikes is said in the log:
 *
 *   fault = STEP:kill          SIGKILL to itself
 *   fault = STEP:delay=MS      sleeps
 *   fault = STEP:error=ERRNO   the step fails with that errno
 *   fault = STEP:short         a write of the step is cut to half, at least one byte
 *   fault = PROGRAM/STEP:...   in that program alone (cordon-ledger/fd.pwrite)
 *   ...:after=N                only from the N-th time on (default 1)
 *   ...:times=N                only so many times (default: for ever)
 *
 * Unarmed, a point costs one comparison.
 */
#include <stddef.h>

#include "base/err.h"

/* 0, or -EINVAL with *e naming what is wrong in @spec; "" disarms. Borrows nothing. */
int fault_arm(const char *spec, struct err *e);

/* 0, or the errno the step is to fail with. */
int fault_hit(const char *step);

/* The same as an error to hand on: 0, or -errno with *e set. */
int fault_step(const char *step, struct err *e);

/* A write of *len bytes is next: 0, perhaps with fewer in *len, or the errno it is to fail with. */
int fault_write(const char *step, size_t *len);

#endif
