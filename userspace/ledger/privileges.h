/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_PRIVILEGES_H
#define CORDON_LEDGER_PRIVILEGES_H

/* What the ledger keeps: no capability, no network, its files and its key. */
#include "confine/confine.h"

enum ledger_path {
	PATH_DB = 0, /* relative to the working directory, ROOT/var/lib/cordon */
	PATH_WAL,
	PATH_SHM,
	PATH_DIR,
	PATH_KEYS,
};

extern const struct confinement ledger_confinement;

#endif
