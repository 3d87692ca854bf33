/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_PRIVILEGES_H
#define CORDON_BROKER_PRIVILEGES_H

/* What the broker keeps: no capability, no network, its secrets, names of accounts. */
#include "confine/confine.h"

enum broker_path {
	PATH_SECRETS = 0, /* ROOT/etc/cordon/secrets */
	PATH_VOUCHERS,	  /* ROOT/etc/cordon/voucher.pem */
};

extern const struct confinement broker_confinement;
/* The same where the configuration names a socket of the operator's: it may reach for one. */
extern const struct confinement broker_dials_confinement;

#endif
