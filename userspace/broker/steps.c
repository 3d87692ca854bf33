/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a command before it runs. They stand in one table; a step that
 * has to wait is continued by command_go_on(). Whoever refuses a command ends
 * it: after command_refuse() it must not be touched.
 */
#include "broker/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "json/json.h"
#include "policy/command.h"

enum step_result { STEP_OVER = 0 /* waiting, or refused and gone */, STEP_NEXT };

static enum step_result refuse(struct command *c, enum reason why, const char *text)
{
	command_refuse(c, why, text);
	return STEP_OVER;
}

static enum step_result step_alive(struct command *c)
{
	const char *text = NULL;
	bool wait;
	enum reason why = liveness_begin(c, &wait, &text);

	if (why != REASON_NONE)
		return refuse(c, why, text);
	return wait ? STEP_OVER : STEP_NEXT;
}

/* --- The queue (Q6) */

static enum step_result step_admit(struct command *c)
{
	struct broker *b = c->broker;

	if (!worker_is_up(&b->worker))
		return refuse(c, REASON_WORKER_UNAVAILABLE, NULL);
	if (http_is_full(&b->http))
		return refuse(c, REASON_QUEUE_SATURATED, "too many answers wait to be read");
	switch (admission_enter(&b->admission, &c->item, &c->job->org->admission,
				&c->job->workspace->admission)) {
	case ADMISSION_RUN:
		return STEP_NEXT;
	case ADMISSION_WAIT:
		return STEP_OVER;
	case ADMISSION_REFUSED:
		break;
	}
	return refuse(c, REASON_QUEUE_SATURATED, NULL);
}

void admit_more(struct broker *b)
{
	struct admission_item *it;

	if (b->is_admitting)
		return; /* the one on the stack goes on */
	b->is_admitting = true;
	while ((it = admission_next(&b->admission)))
		command_go_on(CONTAINER_OF(it, struct command, item));
	b->is_admitting = false;
}

/* --- Claiming a name (Q7) */

static void on_claimed(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct command *c = ctx;

	c->letter = 0;
	if (type != L_RESULT)
		command_refuse(c, REASON_AUDIT_UNAVAILABLE, "the command's name cannot be kept");
	else if (!json_is_true(json_object_get(result, "new")))
		command_refuse(c, REASON_COMMAND_REPLAYED, NULL);
	else
		command_go_on(c);
}

static enum step_result step_claim(struct command *c)
{
	if (!c->request.command_id)
		return STEP_NEXT;
	auto_json json_t *body = json_pack("{s:s, s:s}", "jobId", c->job_id, "commandId", c->id);
	c->letter = body ? ledger_send(&c->broker->ledger, L_COMMAND_ID, body, 0, on_claimed, c) :
			   0;
	if (!c->letter)
		return refuse(c, REASON_AUDIT_UNAVAILABLE, "the command's name cannot be kept");
	return STEP_OVER;
}

/* --- The intent of `required` mode (A6) */

static void on_intent(void *ctx, enum ledger_msg type, const json_t *result)
{
	struct command *c = ctx;
	json_int_t intent = json_integer_value(json_object_get(result, "intent"));

	c->letter = 0;
	if (type != L_RESULT || intent <= 0) {
		command_refuse(c, REASON_AUDIT_UNAVAILABLE, NULL);
		return;
	}
	c->intent = (uint64_t)intent;
	command_go_on(c);
}

static enum step_result step_intent(struct command *c)
{
	if (c->broker->config.audit != AUDIT_REQUIRED)
		return STEP_NEXT;
	json_t *row = record_row(c);
	auto_json json_t *body =
		row ? json_pack("{s:o, s:s}", "row", row, "commandId", c->id) : NULL;
	c->letter = body ? ledger_send(&c->broker->ledger, L_INTENT, body, 0, on_intent, c) : 0;
	if (!c->letter)
		return refuse(c, REASON_AUDIT_UNAVAILABLE, NULL);
	return STEP_OVER;
}

/* --- Slot, egress, dispatch */

static enum step_result step_skills(struct command *c)
{
	const char *text = NULL;
	bool wait;
	enum reason why = view_begin(c, &wait, &text);

	if (why != REASON_NONE)
		return refuse(c, why, text);
	return wait ? STEP_OVER : STEP_NEXT;
}

/* --- Lists (Q8, hygiene) and vouchers (S7) */

static enum step_result step_lists(struct command *c)
{
	const struct config *k = &c->broker->config;

	if (!command_is_own(c) &&
	    !command_is_allowed(k->command_allow, k->command_block, c->request.args,
				c->request.args_len, c->request.argc))
		return refuse(c, REASON_COMMAND_BLOCKED, NULL);
	return STEP_NEXT;
}

static enum step_result step_voucher(struct command *c)
{
	const char *text = NULL;
	enum reason why = voucher_check_command(c, &text);

	return why == REASON_NONE ? STEP_NEXT : refuse(c, why, text);
}

static enum step_result step_nonce(struct command *c)
{
	const char *text = NULL;
	bool wait;
	enum reason why = voucher_use_nonce(c, &wait, &text);

	if (why != REASON_NONE)
		return refuse(c, why, text);
	return wait ? STEP_OVER : STEP_NEXT;
}

static enum step_result step_slot(struct command *c)
{
	/* While it waited, others' answers may have piled up. */
	if (http_is_full(&c->broker->http))
		return refuse(c, REASON_QUEUE_SATURATED, "too many answers wait to be read");
	if (worker_slot_get(&c->broker->worker, &c->call, &run_events, c->request.image,
			    egress_net_kind(&c->egress)) < 0)
		return refuse(c, REASON_WORKER_UNAVAILABLE, NULL);
	return STEP_OVER;
}

static enum step_result step_egress(struct command *c)
{
	struct err e = { 0 };
	bool wait;
	enum reason why = egress_register(c, &wait, &e);

	if (why != REASON_NONE)
		return refuse(c, why, e.msg);
	return wait ? STEP_OVER : STEP_NEXT;
}

static enum step_result step_run(struct command *c)
{
	const char *text = NULL;
	enum reason why = run_begin(c, &text);

	return why == REASON_NONE ? STEP_OVER : refuse(c, why, text);
}

/* Each with its fault point, hit before the step. */
static const struct {
	const char *fault;
	enum step_result (*run)(struct command *);
} steps[] = {
	{ "command.alive", step_alive },     { "command.lists", step_lists },
	{ "command.voucher", step_voucher }, { "command.admit", step_admit },
	{ "command.alive", step_alive },     { "command.nonce", step_nonce },
	{ "command.claim", step_claim },     { "command.intent", step_intent },
	{ "command.skills", step_skills },   { "command.slot", step_slot },
	{ "command.egress", step_egress },   { "command.run", step_run },
};

void command_go_on(struct command *c)
{
	while (c->step < ARRAY_SIZE(steps)) {
		int code = fault_hit(steps[c->step].fault);
		if (code) {
			refuse(c, REASON_WORKER_ERROR, strerror(code));
			return;
		}
		if (steps[c->step++].run(c) == STEP_OVER)
			return;
	}
}
