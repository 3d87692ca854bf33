/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receipt for third parties (T3): what was measured of a command that ran,
 * stated and signed. Made after the answer has left, because a signature costs
 * more than all the rest; a command whose statement cannot be made keeps its
 * receipt, and the log says so.
 */
#include <string.h>

#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"
#include "receipt/statement.h"

enum { GUARDS_MAX = 32 };

struct guard_lists {
	const char *on[GUARDS_MAX + 1], *off[GUARDS_MAX + 1], *missing[GUARDS_MAX + 1];
};

static void sort_guards(const struct w_done *d, struct guard_lists *l)
{
	size_t on = 0, off = 0, missing = 0;

	memset(l, 0, sizeof(*l));
	for (size_t i = 0; i < result_nguards && i < GUARDS_MAX; i++) {
		const struct result_guard *g = &result_guards[i];
		if (d->guards_missing & g->bit)
			l->missing[missing++] = g->name;
		else if (d->guards & g->bit)
			l->on[on++] = g->name;
		else
			l->off[off++] = g->name;
	}
}

static size_t list_skills(const struct command *c, struct statement_skill *ret)
{
	const struct skills_view *v = c->job ? c->job->view : NULL;
	size_t n = 0;

	for (uint32_t i = 0; v && i < v->count && n < STATEMENT_SKILLS_MAX; i++, n++) {
		ret[n] = (struct statement_skill){ .slug = v->skills[i].slug };
		memcpy(ret[n].manifest, v->skills[i].digest, sizeof(ret[n].manifest));
	}
	return n;
}

/*
 * What a whole shell command may do (C1): everything but the network goes
 * without asking, and the network is what its tier says.
 */
static const char *const shell_capabilities[] = { "EnvRead", "FileRead", "FileWrite", "Subprocess",
						  NULL };
static const char *const network_capabilities[] = { "EnvRead",	     "FileRead",   "FileWrite",
						    "NetworkAccess", "Subprocess", NULL };

char *attest(const struct command *c, const struct receipt *receipt)
{
	struct statement_skill skills[STATEMENT_SKILLS_MAX];
	struct guard_lists guards;
	struct err e = { 0 };
	char *envelope = NULL;
	struct statement s = {
		.receipt = receipt,
		.job_id = c->job_id,
		.command_id = c->id,
		.termination = termination_code(c->termination),
		.reason = reason_code(c->reason),
		.exit_code = c->done.exit_code,
		.signal = c->done.signal,
		.oom_killed = c->done.oom_killed,
		.memory_bytes = c->limits.memory_bytes,
		.workspace_bytes = c->limits.workspace_bytes,
		.output_bytes = c->limits.output_bytes,
		.timeout_ms = c->limits.timeout_ms,
		.cpu_milli = c->limits.cpu_milli,
		.pids = c->limits.pids,
		.wall_ms = c->done.wall_ns / 1000000,
		.memory_peak_bytes = c->done.memory_peak_bytes,
		.kernel_bytes = c->egress.kernel_bytes,
		.gateway_bytes = c->egress.gateway_bytes,
		.skills = skills,
		.skills_lookups = c->skills_files,
		.skills_served_bytes = c->skills_bytes,
		.capabilities = c->egress.tier == EGRESS_TIER_NONE ? shell_capabilities :
								     network_capabilities,
		.lost_events = c->done.egress_lost + c->egress.lost,
		.isolation = "container",
		.guards_on = guards.on,
		.guards_off = guards.off,
		.guards_missing = guards.missing,
	};

	sort_guards(&c->done, &guards);
	s.nskills = list_skills(c, skills);
	memcpy(s.image, c->image, sizeof(s.image));
	memcpy(s.standard_error, c->out[OUT_STDERR].digest, sizeof(s.standard_error));
	if (statement_sign_as(&s, c->broker->keys.statement, &envelope, &e) < 0) {
		log_error("statement", "job=%s error=\"%s\"", c->job_id, e.msg);
		return NULL;
	}
	return envelope;
}
