/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_JOB_H
#define CORDON_BROKER_JOB_H

/*
 * The job table: jobs, their organisations and workspaces. A job is an opened
 * session with a workspace (W1); it holds no process. Organisations and
 * workspaces live as long as a job refers to them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/loop.h"
#include "digest/digest.h"
#include "policy/admission.h"
#include "policy/reason.h"
#include "session/session.h"

enum {
	JOB_ID_MAX = 37, /* job- and 32 hex digits, with its NUL */
	JOB_BUCKETS = 1024,
	JOB_ENDED_MAX = 1024, /* ended ones that are still remembered */
	JOB_FIELD_MAX = 256,  /* bytes of org, user and run: what a ledger row holds */
};

struct command;
struct exchange;
struct skills_view;

struct org {
	struct admission_org admission;
	char *name;
	unsigned refs;
	unsigned nasked; /* of its runs, at the liveness probe now */
	struct org *next;
};

struct workspace {
	struct admission_workspace admission;
	uint8_t key[DIGEST_LEN];
	bool is_used;	/* a command ran on it: it must be there from now on */
	bool is_run;	/* keyed by a run: outlives the job */
	bool is_doomed; /* removed as soon as no command runs on it */
	unsigned refs;
	struct workspace *next;
};

/* A job's egress identity and what it has used of its ceiling, over all its commands (E6). */
struct egress_account {
	char token[33];	       /* 32 hex digits */
	uint64_t number;       /* the token's name in the kernel; 0: none yet */
	uint64_t used_bytes;   /* by the gateway: payload */
	uint64_t kernel_used;  /* by the kernel: packets */
};

struct job {
	char id[JOB_ID_MAX];
	uid_t uid; /* of the peer that opened it */
	char *org_id, *user_id, *run_id; /* run_id NULL: none */
	enum surface surface;
	struct org *org;
	struct workspace *workspace;
	struct skills_view *view; /* NULL: no skills */
	struct egress_account egress;
	enum reason ended; /* not REASON_NONE: takes no command any more, and why */
	bool is_closing;   /* goes once its last command has ended */
	bool is_oneshot;   /* of POST /v1/run: closed with its command */
	bool is_kept;	   /* the ledger remembers it across restarts */
	bool has_place;	   /* counted by admission */
	uint64_t opened_ms, touched_ms; /* realtime; monotonic */
	struct command *commands;	/* in flight */
	unsigned ncommands;
	struct exchange *waiter; /* a close or kill to be answered when the last one ended */
	struct job *next;	 /* in its bucket */
	struct job *older, *newer; /* of all jobs */
};

struct jobs {
	struct job *buckets[JOB_BUCKETS];
	struct org *orgs[JOB_BUCKETS];
	struct workspace *workspaces[JOB_BUCKETS];
	struct job *oldest, *newest;
	size_t njobs, nended;
	struct admission *admission;
};

/*
 * Opens a job for @s. REASON_NONE with *ret set, or open_jobs_exhausted,
 * invalid_request (a field too long for a ledger row), worker_error (out of
 * memory). @id NULL: a fresh random one.
 */
enum reason jobs_open(struct jobs *t, const struct session *s, uid_t uid, const char *id,
		      struct job **ret);

/* The job @id of @uid; NULL for anybody else's. */
struct job *jobs_find(struct jobs *t, const char *id, uid_t uid);

/* It takes no command any more; its place is free again. */
void job_end(struct jobs *t, struct job *j, enum reason why);

/* Out of the table, freed. No command may be in flight. */
void job_free(struct jobs *t, struct job *j);

/* The key of a run's workspace, or of a job's own (W1). */
void workspace_key_of(const char *org_id, const char *run_id, const char *job_id,
		      uint8_t ret[DIGEST_LEN]);
/* NULL: no job here refers to it. */
struct workspace *jobs_find_workspace(struct jobs *t, const uint8_t key[DIGEST_LEN]);

#endif
