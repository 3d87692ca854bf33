/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_ADMIT_H
#define CORDON_LEDGER_ADMIT_H

/*
 * The door of the ledger (A2, A4): what of a message may become a row, a
 * receipt or a name. Exactly the listed keys with the listed kinds of value;
 * anything more, less or other is -EINVAL, with *e naming the key and never
 * the value.
 */
#include <jansson.h>
#include <stdbool.h>

#include "audit/row.h"
#include "base/err.h"

enum {
	ID_JOB_MAX = 64,
	ID_COMMAND_MAX = 128,
};

/* A row that may be written. Texts are borrowed from the message's JSON. */
struct admitted {
	const char *organization, *actor, *job, *decision, *run; /* run: NULL where absent */
	struct audit_metadata meta;
};

int admit_row(const json_t *row, struct admitted *ret, struct err *e);

/* T1's object, or NULL / JSON null for none. */
int admit_receipt(const json_t *receipt, struct err *e);

/* T3's DSSE envelope as text. */
int admit_envelope(const char *text, size_t len, struct err *e);

/* [A-Za-z0-9._-]{1,max} */
bool admit_is_id(const char *s, size_t max);

/* 1..AUDIT_TEXT_MAX bytes. */
bool admit_is_text(const char *s);

#endif
