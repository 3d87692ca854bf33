/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_REPLY_H
#define CORDON_BROKER_REPLY_H

/*
 * Answers and bodies of the API's plain routes, and the way to ask the ledger
 * on a client's behalf.
 */
#include <jansson.h>

#include "broker/http.h"
#include "broker/ledger.h"
#include "json/json.h"
#include "policy/reason.h"

/* Answers with @v (taken; NULL: out of memory). */
void reply_json(struct exchange *x, unsigned status, json_t *v);
/* {"reason": CODE, "text": @text or its meaning, "decision": "denied"} with the reason's status. */
void reply_reason(struct exchange *x, enum reason why, const char *text);

/* The body as an object read by @fields into *into; NULL: answered. The caller owns it. */
json_t *reply_body(struct exchange *x, const struct json_field *fields, size_t n, void *into);

/* An unsigned decimal of the query. False: malformed. @ret untouched where it is absent. */
bool reply_query_number(struct exchange *x, const char *key, uint64_t *ret);

/*
 * Asks the ledger with @body (taken) and answers @x with what @shape makes of
 * the result (taken from it; NULL: as it is). @fallback (taken, may be NULL) is
 * the answer where the ledger does not answer; without one it is audit_unavailable.
 */
void reply_from_ledger(struct broker *b, struct exchange *x, enum ledger_msg type, json_t *body,
		       json_t *(*shape)(struct exchange *x, const json_t *result),
		       json_t *fallback);

#endif
