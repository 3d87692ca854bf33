/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_BROKER_H
#define CORDON_BROKER_BROKER_H

/*
 * The broker's shelf: the handles that its files share. Made in main(), never
 * a global. Each part is documented where it is declared.
 */
#include "broker/gateway.h"
#include "broker/health.h"
#include "broker/http.h"
#include "broker/job.h"
#include "broker/ledger.h"
#include "broker/loop.h"
#include "broker/peer.h"
#include "broker/probe.h"
#include "broker/retain.h"
#include "broker/skills.h"
#include "broker/voucher.h"
#include "broker/worker.h"
#include "config/config.h"
#include "config/places.h"
#include "config/start.h"
#include "digest/secrets.h"
#include "policy/admission.h"

enum { BROKER_SCRATCH = 64 * 1024 };

struct broker_keys {
	struct secret_set *carrier, *attestation, *provenance; /* NULL: not installed */
	struct statement_signer *statement; /* of the attestation secret */
};

struct removal;
struct statement_signer;

struct broker {
	struct loop loop;
	struct start start;
	struct config config;
	struct broker_keys keys;
	int secrets_fd; /* the directory, to load them again */
	struct peer_rules peers;
	struct voucher_rules vouchers;
	char voucher_path[PLACES_PATH_MAX + 16];
	struct http http;
	struct worker_link worker;
	struct ledger_link ledger;
	struct skills_link skills;
	struct gateway_link gateway;
	struct egress_policy egress_maximum;
	uint64_t last_token;
	struct jobs jobs;
	struct admission admission;
	struct health health;
	struct retain retain;
	struct probe probe;
	struct watch supervisor_watch;
	struct timer reaper, drain, ready_limit;
	struct removal *removals; /* workspaces a dead worker did not remove */
	struct command *unrecorded, *last_unrecorded; /* answered, their rows not written yet */
	struct msg *buf;	  /* one receive buffer for all three links */
	uint8_t *scratch;	  /* BROKER_SCRATCH bytes to read pipes into */
	bool is_admitting;	  /* admit_more() is on the stack */
	bool is_stopping, is_ready, is_restored;
	unsigned ninflight;	      /* commands whose record is not made */
	uint64_t over_at_ms;	      /* stopping: when patience ends */
	uint32_t guards_missing;      /* enum confine_missing */
	uint64_t ncommands, nrefused; /* since the start */
};

/* keys.c */
int keys_load(int secrets_fd, uid_t owner, struct broker_keys *ret, struct err *e);
void keys_done(struct broker_keys *k);

/* reap.c: what becomes of jobs and workspaces. */
/* A command of @j has ended: a closing or one-shot job may go now, waiters are answered. */
void job_after_command(struct broker *b, struct job *j);
/* Ends what is in flight with @why; the job goes when the last one has ended. */
void job_close(struct broker *b, struct job *j, enum reason why);
/* Has the worker remove a workspace, without waiting. */
void reap_workspace(struct broker *b, const uint8_t key[DIGEST_LEN]);
/* Arms the reaper where there are jobs; harmless when it is. */
void reap_begin(struct broker *b);
/* A worker is there again: what the last one did not remove. */
void reap_on_worker(struct broker *b);
/* Stops what is in flight on @j now. Gives how many; the job may be gone then. */
unsigned job_stop_commands(struct broker *b, struct job *j, enum reason why);
/* The ledger's memory of open jobs: kept at open, forgotten at close, read at start. */
void job_keep(struct broker *b, struct job *j);
void jobs_restore(struct broker *b);

/* life.c: start, supervisor's messages, the end. */
int life_open(struct broker *b, struct err *e);
struct admission_ceilings broker_ceilings(const struct config *c);
void life_check_ready(struct broker *b);

/* api.c */
extern const struct route api_routes[];
extern const size_t api_nroutes;

#endif
