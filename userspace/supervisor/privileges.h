/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SUPERVISOR_PRIVILEGES_H
#define CORDON_SUPERVISOR_PRIVILEGES_H

#include "confine/confine.h"

extern const struct confinement supervisor_confinement;

#endif
