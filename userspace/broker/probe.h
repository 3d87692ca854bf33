/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_PROBE_H
#define CORDON_BROKER_PROBE_H

/*
 * The operator's liveness probe (S5), where the configuration names its socket
 * (run_probe): one connection per question, on it one line of JSON each way.
 *
 *   question  {"id", "runId", "orgId", "userId", "surface"}
 *   answer    {"id", "state", "orgId", "userId"}
 *
 * @id is random and comes back; orgId and userId of the answer are the run's as
 * the registry has it. A run that is gone may have lost them (null or absent);
 * whatever else is missing, doubled, unknown or too much makes the answer none.
 * A question that is not answered in time, well, or at all, is one that
 * nothing follows from; it never delays another's but by PROBE_AT_ONCE.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/loop.h"
#include "json/json.h"
#include "policy/liveness.h"

enum {
	PROBE_ANSWER_MAX = 4096, /* bytes of the line, its newline included */
	PROBE_ID_LEN = 16,	 /* hexadecimal digits */
	PROBE_AT_ONCE = 64,	 /* connections; more questions wait, and their time runs */
	PROBE_AT_ONCE_PER_ORG = 16,
};

struct broker;
struct org;
struct probe_question;

struct probe {
	struct probe_question *first, *last; /* oldest first */
	unsigned nquestions, nactive;
	struct timer retry;
	uint64_t answered, failed; /* since the start */
	const char *trouble;	   /* of the last question; NULL: it was answered. Static */
};

/* Whose run; borrowed for the call. */
struct probe_subject {
	const char *run_id, *org_id, *user_id, *surface;
};

/* @r NULL: it could not be found out, @trouble says why (static). Else borrowed. */
typedef void (*probe_fn)(void *ctx, const struct liveness_record *r, const char *trouble);

/*
 * Asks; @fn comes once and never before this returns. @org (may be NULL) must
 * outlive the question. NULL: out of memory, @fn does not come.
 */
struct probe_question *probe_ask(struct broker *b, const struct probe_subject *s, struct org *org,
				 probe_fn fn, void *ctx);
/* @fn does not come any more. NULL is fine. */
void probe_forget(struct probe_question *q);

/* {"answered", "failed", "waiting"}, or null where none is configured. */
json_t *probe_health(const struct broker *b);

/* --- The lines (probe_line.c) */

/* The question with its newline, malloced; NULL: out of memory. */
char *probe_line_ask(const char *id, const struct probe_subject *s, size_t *ret_len);

/*
 * @buf as far as it has come. 1: it is an answer to @id, and *ret points into
 * *ret_json, which the caller frees. 0: the line is not over. < 0: it is none.
 */
int probe_line_read(const char *buf, size_t len, const char *id, json_t **ret_json,
		    struct liveness_record *ret, struct err *e);

#endif
