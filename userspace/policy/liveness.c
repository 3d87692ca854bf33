/* Pure: whether a run lives, for one session (S5). SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares words byte for byte; trims nothing and believes no default. Asks
 * nobody and ends nothing: that is the broker's.
 */
#include "policy/liveness.h"

#include <stdbool.h>
#include <string.h>

static bool is_said(const char *s)
{
	return s && *s;
}

static bool differs(const char *said, const char *sealed)
{
	return is_said(said) && strcmp(said, sealed) != 0;
}

enum liveness liveness_judge(const struct liveness_record *r, const char *org_id,
			     const char *user_id)
{
	bool is_gone, lives;

	if (!r->state)
		return LIVENESS_UNKNOWN;
	is_gone = strcmp(r->state, "gone") == 0;
	lives = strcmp(r->state, "alive") == 0 || strcmp(r->state, "archived") == 0;
	if (!is_gone && !(lives && is_said(r->org_id) && is_said(r->user_id)))
		return LIVENESS_UNKNOWN;
	if (differs(r->org_id, org_id) || differs(r->user_id, user_id))
		return LIVENESS_FOREIGN;
	return is_gone ? LIVENESS_GONE : LIVENESS_ALIVE;
}
