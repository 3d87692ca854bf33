/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_GATEWAY_PRIVILEGES_H
#define CORDON_GATEWAY_PRIVILEGES_H

#include "confine/confine.h"

extern const struct confinement gateway_confinement;

#endif
