/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_VOUCHER_H
#define CORDON_BROKER_VOUCHER_H

/*
 * Per-command vouchers (S7) where the configuration requires them: the public
 * keys, and the two steps of a command that check its voucher and use its
 * nonce up. The check itself is pure (session/voucher.h); nonces are kept by
 * the ledger, so that they are used once across restarts.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "config/config.h"
#include "digest/ed25519.h"
#include "policy/reason.h"
#include "session/voucher.h"

struct command;

/* Where the public keys are, below ROOT/etc/cordon: PEM, up to VOUCHER_KEYS_MAX. */
#define VOUCHER_KEYS_FILE "voucher.pem"

struct voucher_rules {
	bool is_required;
	struct ed25519_public keys[VOUCHER_KEYS_MAX];
	size_t nkeys;
};

/* As @c says; reads @keys_path where vouchers are required. -errno names the file. */
int voucher_rules_load(const struct config *c, const char *keys_path, struct voucher_rules *ret,
		       struct err *e);

/* REASON_NONE: it may go on. */
enum reason voucher_check_command(struct command *c, const char **ret_text);
/* The same; *ret_wait set: command_go_on() or command_refuse() follows. */
enum reason voucher_use_nonce(struct command *c, bool *ret_wait, const char **ret_text);

#endif
