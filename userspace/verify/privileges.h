/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_VERIFY_PRIVILEGES_H
#define CORDON_VERIFY_PRIVILEGES_H

/* What the verifier keeps: the descriptors it holds. */
#include "confine/confine.h"

extern const struct confinement verify_confinement;

#endif
