/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_LIVENESS_H
#define CORDON_POLICY_LIVENESS_H

/*
 * What a registry of runs says of one, judged for a session that names it (S5).
 * Whoever asked has the words; nothing here knows where they came from.
 */

/* A run as its registry has it. NULL: not said. */
struct liveness_record {
	const char *state; /* alive, archived or gone */
	const char *org_id, *user_id;
};

enum liveness {
	LIVENESS_UNKNOWN = 0, /* nothing follows from it: no command runs */
	LIVENESS_GONE,	      /* the run no longer exists */
	LIVENESS_FOREIGN,     /* gone for this session alone: it is somebody else's */
	LIVENESS_ALIVE,	      /* archived goes on */
};

/*
 * For a session of @org_id and @user_id. A run that lives has both its owners
 * said, or nothing follows; one that is gone may have lost them.
 */
enum liveness liveness_judge(const struct liveness_record *r, const char *org_id,
			     const char *user_id);

#endif
