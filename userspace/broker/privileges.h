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
/* The same where output is kept: it may also reach for a unix socket. */
extern const struct confinement broker_retain_confinement;

#endif
