/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_PRIVILEGES_H
#define CORDON_WORKER_PRIVILEGES_H

#include "confine/confine.h"

extern const struct confinement worker_privileges;

#endif
