/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vouchers in front of commands. Refuses private key material in the file of
 * keys: who only verifies must not be able to sign.
 */
#include "broker/voucher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"
#include "json/json.h"

enum { KEYS_FILE_MAX = 64 * 1024 };

int voucher_rules_load(const struct config *c, const char *keys_path, struct voucher_rules *ret,
		       struct err *e)
{
	struct voucher_rules r = { .is_required = c->vouchers };
	autofree char *text = NULL;
	size_t len;

	if (r.is_required) {
		if (fd_read_file(AT_FDCWD, keys_path, KEYS_FILE_MAX, &text, &len, e) < 0)
			return err_wrap(e, "vouchers = required");
		int n = ed25519_public_read(text, len, r.keys, VOUCHER_KEYS_MAX, e);
		if (n < 0)
			return err_wrap(e, keys_path);
		r.nkeys = (size_t)n;
	}
	*ret = r;
	return 0;
}

static void session_of(const struct job *j, struct session *s)
{
	memset(s, 0, sizeof(*s));
	strncpy(s->org_id, j->org_id, sizeof(s->org_id) - 1);
	strncpy(s->user_id, j->user_id, sizeof(s->user_id) - 1);
	strncpy(s->run_id, j->run_id ? j->run_id : "", sizeof(s->run_id) - 1);
	s->surface = j->surface;
}

static bool is_handshake(const struct command *c)
{
	return command_is_own(c) && strcmp(c->job->org_id, SESSION_HANDSHAKE) == 0;
}

enum reason voucher_check_command(struct command *c, const char **ret_text)
{
	const struct broker *b = c->broker;
	const char *text = c->request.voucher;
	struct session session;

	if (!b->vouchers.is_required || is_handshake(c)) {
		if (!text)
			return REASON_NONE;
		*ret_text = "this plane takes no vouchers";
		return REASON_NOT_AVAILABLE; /* never ignored */
	}
	if (text && !c->has_input_digest) {
		*ret_text = "standard input that streams cannot be vouched for";
		return REASON_VOUCHER_COMMAND_MISMATCH;
	}
	session_of(c->job, &session);
	struct voucher_use use = {
		.audience = b->config.voucher_audience,
		.job = c->job_id,
		.session = &session,
		.now_ms = clock_realtime_ns() / 1000000,
	};
	memcpy(use.command, c->input_digest, sizeof(use.command));
	memcpy(use.egress, c->egress.digest, sizeof(use.egress));
	c->nonce = malloc(sizeof(*c->nonce));
	if (!c->nonce) {
		*ret_text = "out of memory";
		return REASON_WORKER_ERROR;
	}
	return voucher_check(b->vouchers.keys, b->vouchers.nkeys, text, text ? strlen(text) : 0,
			     &use, c->nonce);
}

static void on_nonce(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct command *c = ctx;
	const char *state = json_string_value(json_object_get(result, "state"));

	c->letter = 0;
	if (type != L_RESULT || !state)
		command_refuse(c, REASON_AUDIT_UNAVAILABLE, "the voucher's nonce cannot be kept");
	else if (strcmp(state, "new") == 0)
		command_go_on(c);
	else
		command_refuse(c, strcmp(state, "capacity") == 0 ? REASON_VOUCHER_NONCE_CAPACITY :
								   REASON_VOUCHER_REPLAYED,
			       NULL);
}

enum reason voucher_use_nonce(struct command *c, bool *ret_wait, const char **ret_text)
{
	*ret_wait = false;
	if (!c->nonce)
		return REASON_NONE;
	auto_json json_t *body =
		json_pack("{s:s, s:I}", "nonce", c->nonce->nonce, "expMs",
			  (json_int_t)(c->nonce->keep_until_ms - VOUCHER_SKEW_MS));
	c->letter = body ? ledger_send(&c->broker->ledger, L_NONCE, body, 0, on_nonce, c) : 0;
	*ret_wait = c->letter != 0;
	if (c->letter)
		return REASON_NONE;
	*ret_text = "the voucher's nonce cannot be kept";
	return REASON_AUDIT_UNAVAILABLE;
}
