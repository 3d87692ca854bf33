/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of a command: its receipt (T1) and its ledger row (A1 to A4).
 * Neither holds command text, output, tokens or destinations. In the default
 * mode the answer does not wait for the row (A6); in `required` mode it does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"
#include "json/json.h"
#include "receipt/receipt.h"

enum { CWD_MAX = 1024 };

static json_t *text_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

static json_t *number_or_null(bool is_there, uint64_t v)
{
	return is_there ? json_integer((json_int_t)v) : json_null();
}

static json_t *cwd_of(const struct command *c)
{
	char path[CWD_MAX + 16];
	const char *cwd = c->request.cwd;

	snprintf(path, sizeof(path), "/workspace%s%s", *cwd ? "/" : "", cwd);
	return json_string(strlen(path) <= CWD_MAX ? path : "/workspace");
}

static json_t *image_of(const struct command *c)
{
	char text[7 + DIGEST_HEX_MAX] = "sha256:";

	if (!c->has_image)
		return json_null();
	digest_hex(c->image, DIGEST_LEN, text + 7);
	return json_string(text);
}

/* Exactly ten keys (A2). */
static json_t *metadata_of(const struct command *c)
{
	const struct job *j = c->job;
	bool ran = !c->is_denied && c->has_done;
	bool has_code = ran && c->done.exit_code >= 0;

	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "surface",
		text_or_null(j ? surface_name(j->surface) : NULL), "cwd", cwd_of(c), "reason",
		text_or_null(reason_code(c->reason)), "exitCode",
		number_or_null(has_code, has_code ? (uint64_t)c->done.exit_code : 0),
		"termination", text_or_null(termination_code(c->termination)), "imageDigest",
		image_of(c), "egressMode",
		text_or_null(c->egress.is_resolved ? egress_tier_name(c->egress.tier) : NULL),
		"egressTotalBytes",
		number_or_null(ran, c->egress.kernel_bytes > c->egress.gateway_bytes ?
					    c->egress.kernel_bytes :
					    c->egress.gateway_bytes),
		"wallMs", number_or_null(ran, c->done.wall_ns / 1000000), "workspaceKb",
		number_or_null(ran, (c->done.workspace_bytes + 1023) / 1024));
}

json_t *record_row(const struct command *c)
{
	const struct job *j = c->job;

	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "organizationId", j ? j->org_id : "-",
			 "actorPrincipalId", j ? j->user_id : "-", "resourceId",
			 c->job_id[0] ? c->job_id : "-", "decision",
			 c->is_denied ? "denied" : "allowed", "runId",
			 text_or_null(j ? j->run_id : NULL), "metadata", metadata_of(c));
}

/* --- The receipt */

static void make_receipt(struct command *c)
{
	struct receipt *r;
	struct err e = { 0 };

	/* A request that was not understood has no input to speak of. */
	if (!c->input || !c->broker->keys.attestation || fault_hit("record.receipt") ||
	    !(r = malloc(sizeof(*r))))
		return;
	if (!c->has_input_digest)
		digest_end(c->input, c->input_digest);
	uint64_t start_ns = c->started_ns ? c->started_ns : c->asked_ns;
	if (c->termination == TERMINATION_EXITED && !c->is_denied)
		receipt_success(r, RECEIPT_TOOL, start_ns, c->input_digest,
				c->out[OUT_STDOUT].digest, c->egress.digest);
	else
		receipt_failure(r, RECEIPT_TOOL, start_ns, c->input_digest,
				c->reason != REASON_NONE ? reason_code(c->reason) :
							   termination_code(c->termination));
	if (receipt_sign(r, c->broker->keys.attestation, &e) < 0) {
		log_error("receipt", "job=%s error=\"%s\"", c->job_id, e.msg);
		free(r);
		return;
	}
	c->receipt = receipt_to_json(r);
	c->signed_receipt = r;
}

/* --- The row */

static void on_row(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct command *c = ctx;

	(void)result;
	c->letter = 0;
	if (type != L_OK)
		log_error("row", "job=%s error=\"not in the database, spooled\"", c->job_id);
	command_end(c);
}

static json_t *row_letter(const struct command *c)
{
	json_t *row = record_row(c);
	json_t *body = row ? json_pack("{s:o}", "row", row) : NULL;
	/* A refused repetition is another command than the one that bears the name. */
	bool has_id = c->id[0] && c->job_id[0] && c->reason != REASON_COMMAND_REPLAYED;

	if (body && has_id)
		json_object_set_new(body, "commandId", json_string(c->id));
	if (body && has_id && c->receipt)
		json_object_set(body, "receipt", c->receipt);
	if (body && c->intent)
		json_object_set_new(body, "intent", json_integer((json_int_t)c->intent));
	return body;
}

/* The statement, where something was measured; then the row. */
static void write_row(struct command *c, ledger_answer fn)
{
	auto_json json_t *body = fault_hit("record.row") ? NULL : row_letter(c);
	autofree char *envelope = NULL;

	if (c->signed_receipt && c->has_started && !c->is_denied)
		envelope = attest(c, c->signed_receipt);
	if (body && envelope)
		json_object_set_new(body, "envelope", json_string_nocheck(envelope)); /* ASCII */
	if (body)
		c->letter = ledger_send(&c->broker->ledger, L_ROW, body, LETTER_KEPT, fn, c);
	else
		c->broker->ledger.lost++; /* no memory for it: a loss is counted all the same */
	if (!c->letter)
		log_error("row", "job=%s error=\"lost\"", c->job_id[0] ? c->job_id : "-");
}

void record_begin(struct command *c)
{
	struct broker *b = c->broker;

	fault_hit("command.record");
	c->phase = COMMAND_RECORDING;
	make_receipt(c);
	/* Nothing ran of what a dead ledger refused: its row is kept, its caller is told now. */
	if (b->config.audit == AUDIT_REQUIRED && !(c->is_denied && !ledger_is_up(&b->ledger))) {
		write_row(c, on_row);
		if (!c->letter)
			command_end(c);
		return;
	}
	/* Writing never disturbs a tool loop (A6): the answer leaves first. */
	command_answer(c);
	c->next_unrecorded = NULL;
	*(b->unrecorded ? &b->last_unrecorded->next_unrecorded : &b->unrecorded) = c;
	b->last_unrecorded = c;
}

void record_flush(struct broker *b)
{
	while (b->unrecorded) {
		struct command *c = b->unrecorded;
		b->unrecorded = c->next_unrecorded;
		write_row(c, NULL);
		command_end(c);
	}
}
