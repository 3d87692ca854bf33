/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_PRIVILEGES_H
#define CORDON_SKILLS_PRIVILEGES_H

#include "confine/confine.h"

/* What the path arguments of the tables stand for. */
enum { ARG_STORE = 0 };

extern const struct confinement keeper_privileges, server_privileges, stager_privileges;

#endif
