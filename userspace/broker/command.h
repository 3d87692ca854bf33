/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_COMMAND_H
#define CORDON_BROKER_COMMAND_H

/*
 * One command, from its request to its answer:
 *
 *   command.c  its birth, refusal, answer and end
 *   steps.c	the steps before it runs; each goes on, waits or refuses
 *   liveness.c whether its run still lives
 *   view.c	its job's skills
 *   run.c	worker's events, pipes, the end
 *   stream.c	its answer as it is produced
 *   record.c	receipt and ledger row
 *   result.c	its answer as one object
 *
 * It leaves its job (command_end) when its record is made; what is left then is
 * an answer some client still reads.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/egress.h"
#include "broker/feed.h"
#include "broker/http.h"
#include "broker/job.h"
#include "broker/output.h"
#include "broker/request.h"
#include "broker/skills.h"
#include "broker/worker.h"
#include "policy/admission.h"
#include "policy/reason.h"

enum { STREAM_HIGH = 128 * 1024, DRAIN_LIMIT_MS = 3000 };

enum { OUT_STDOUT, OUT_STDERR, OUT_STREAMS };

struct pipe_watch {
	struct watch watch;
	struct command *command;
	int fd;
};

/* A streamed answer's place: bytes of frame heads and small frames, then a payload. */
struct stream {
	bool is_on;
	char *head; /* what goes out next, malloced */
	size_t head_at, head_len;
	unsigned payload_of;	/* the stream whose bytes follow the head */
	size_t payload_left;
	bool has_result;
};

enum command_phase {
	COMMAND_BEFORE = 0, /* steps */
	COMMAND_RUNNING,    /* W_RUN is out */
	COMMAND_DRAINING,   /* it has ended, its pipes have not */
	COMMAND_RECORDING,
	COMMAND_ENDED,
};

struct command {
	struct broker *broker;
	struct job *job; /* NULL once ended */
	struct command *next; /* in its job */
	struct exchange *exchange; /* NULL: nobody waits */
	struct exchange *stdin_exchange;
	void (*on_end)(struct command *c, void *ctx); /* of one without exchange; result is readable */
	void *on_end_ctx;
	char id[REQUEST_ID_MAX + 1];
	char job_id[JOB_ID_MAX];
	struct exec_request request;
	struct limits limits;
	bool has_limits;
	struct egress_grant egress;
	enum command_phase phase;
	unsigned step;
	struct admission_item item;
	uint64_t letter; /* of the ledger, waited for */
	struct probe_question *question; /* of its run, waited for */
	uint64_t intent;
	struct worker_call call;
	struct skills_call skills_call;
	uint64_t skills_files, skills_bytes; /* what the skills' server counted for this command */
	bool has_skills_counts;
	uint64_t slot, cgroup_id;
	uint32_t host_uid; /* the sandbox's id outside; 0: none yet */
	int slot_fds[OUT_STREAMS + 1];
	uint8_t image[DIGEST_LEN];
	bool has_slot, has_image, has_started, has_done;
	enum reason kill_reason; /* what it was ended with from outside */
	enum termination kill_termination;
	struct output out[OUT_STREAMS];
	struct retain_copy *copy; /* NULL: nothing is kept */
	struct pipe_watch pipes[OUT_STREAMS];
	struct feed feed;
	struct timer timer; /* to accept, later to drain */
	struct digest *input;
	uint8_t input_digest[DIGEST_LEN];
	bool has_input_digest;
	struct w_done done;
	uint64_t asked_ns, started_ns;
	enum reason reason;
	enum termination termination;
	bool is_denied, is_to_stop, is_answered;
	struct command *next_unrecorded;
	char *text; /* says more than the reason */
	json_t *receipt;
	struct receipt *signed_receipt; /* the same, for its statement */
	struct voucher_nonce *nonce;	/* of its voucher, to be used up */
	struct stream stream;
};

/*
 * A command for @j out of a parsed @r (taken), answered through @x. It may have
 * been refused and answered when this returns.
 */
void command_begin(struct broker *b, struct job *j, struct exec_request *r, struct exchange *x);

/*
 * One of the broker's own, with a script that no caller wrote: told to @on_end,
 * maybe before this returns. *@ret (may be NULL) is set before anything can end
 * it. False: out of memory, and nothing is told.
 */
bool command_begin_own(struct broker *b, struct job *j, struct exec_request *r,
		       void (*on_end)(struct command *, void *), void *ctx, struct command **ret);

/*
 * A command that gets no further than its request: answered with @why, and
 * recorded. @j NULL: nothing is verified, the row says "-". @r (taken, may be
 * NULL) is what was understood of it.
 */
void command_refuse_request(struct broker *b, struct job *j, struct exec_request *r,
			    struct exchange *x, enum reason why, const char *text);

/* After a step that waited. */
void command_go_on(struct command *c);
/* Refuses one that does not run yet. @text may be NULL. */
void command_refuse(struct command *c, enum reason why, const char *text);
/* Ends it from outside: cancelled, job_closed, shutdown, run_removed. */
void command_stop(struct command *c, enum reason why);
/* True for what command_begin_own() began. */
bool command_is_own(const struct command *c);
/* In flight with this id on @j, or NULL. */
struct command *command_find(struct job *j, const char *id);
/* Starts whoever may start now. */
void admit_more(struct broker *b);
/* What it came to is settled: answers, once. */
void command_answer(struct command *c);
/* Its record is made: answers if it was not, and leaves the job. */
void command_end(struct command *c);
void command_free(struct command *c);

/* run.c */
extern const struct worker_events run_events;
enum reason run_begin(struct command *c, const char **ret_text);
void run_kill(struct command *c, enum reason why, enum termination termination);
void run_pipes_close(struct command *c);
void run_pipes_resume(struct command *c); /* the client has read on */

/* liveness.c: whether its run lives; *ret_wait: command_go_on() comes, or its end. */
enum reason liveness_begin(struct command *c, bool *ret_wait, const char **ret_text);

/* view.c: opens the job's view where it has one; *ret_wait: command_go_on() comes. */
enum reason view_begin(struct command *c, bool *ret_wait, const char **ret_text);
/* True: the counts are asked for, and record_begin() comes after them. */
bool view_end(struct command *c);

/* stream.c */
void stream_begin(struct command *c); /* accepted: the answer starts; once */
void stream_more(struct command *c);
bool stream_is_full(const struct command *c);
void stream_done(struct stream *s);

/*
 * record.c: the receipt, the answer, the row, command_end(); in `required`
 * mode the row before the answer.
 */
void record_begin(struct command *c);
/* The rows of those that were answered; before every wait, when the answers have left. */
void record_flush(struct broker *b);
json_t *record_row(const struct command *c);

/* attest.c: the envelope of T3 over @receipt, malloced; NULL: none could be made. */
struct receipt;
char *attest(const struct command *c, const struct receipt *receipt);

/* The names of the worker's guards. */
struct result_guard {
	uint32_t bit; /* enum guard */
	const char *name;
};
extern const struct result_guard result_guards[];
extern const size_t result_nguards;

/* result.c: SPEC 16's object; NULL: out of memory. */
json_t *result_to_json(const struct command *c, bool with_output);
/* Compact text, malloced. */
char *result_text(const struct command *c, bool with_output, size_t *ret_len);

#endif
