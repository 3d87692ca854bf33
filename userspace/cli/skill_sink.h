/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_SKILL_SINK_H
#define CORDON_CLI_SKILL_SINK_H

/*
 * Where a skill's stream goes: to the broker; or, where no plane runs and the
 * caller is root, to the stager itself. The same bytes either way.
 */
#include <jansson.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "cli/http.h"

struct skill_sink {
	const struct places *places;
	struct http http;
	pid_t child; /* 0: the broker */
	int to, from; /* the child's standard input and output */
	bool is_cut; /* it takes no more: its answer says why */
	size_t held;
	uint8_t buffer[64 * 1024];
};

/* Opens one of the two. A failure says why the plane cannot be spoken to, as a reason. */
int skill_sink_open(const struct places *p, struct skill_sink *ret, enum reason *ret_reason,
		    struct err *e);

/* A sink that has already said no takes everything: go on to skill_sink_finish(). */
int skill_sink_write(struct skill_sink *s, const void *buf, size_t len, struct err *e);

/*
 * Ends the stream. 0 with *ret (caller's): what was staged; else -errno, with
 * the reason of a refusal in *ret_reason.
 */
int skill_sink_finish(struct skill_sink *s, json_t **ret, enum reason *ret_reason, struct err *e);

/* Gives up: nothing is staged. Harmless after the other. */
void skill_sink_drop(struct skill_sink *s);

/* The stager itself with @args (ended by NULL), its output as text: for root. */
int skill_stager_call(const struct places *p, const char *const *args, char **ret, struct err *e);

#endif
