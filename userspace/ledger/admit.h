/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_LEDGER_ADMIT_H
#define CORDON_LEDGER_ADMIT_H

/*
 * The door of the ledger (A2, A4): what of a message may become a row, a
 * receipt or a name. Exactly the listed keys with the listed kinds of value;
 * anything more, less or other is -EINVAL, with *e naming the key and never
 * the value.
 */
#include <stdbool.h>

#include "audit/row.h"
#include "base/err.h"

enum {
	ID_JOB_MAX = 64,
	ID_COMMAND_MAX = 128,
};

/* A row that may be written. Texts are borrowed from the message. */
struct admitted {
	const char *organization, *actor, *job, *decision, *run; /* run: NULL where absent */
	struct audit_metadata meta;
};

/* A row message: L_ROW's, L_INTENT's, and what was spooled of them. */
struct row_message {
	struct admitted row;
	const char *command_id, *envelope; /* NULL: none */
	uint32_t receipt_from, receipt_to; /* where it stands in the message; 0, 0: none */
	uint64_t intent;		   /* 0: none */
};

/*
 * Reads @text (@len bytes and a NUL; changed; borrowed for as long as *ret is
 * used). -EINVAL: not admitted.
 */
int admit_row_message(char *text, size_t len, struct row_message *ret, struct err *e);

/* T1's object as text (changed), as it may be handed on. */
bool admit_is_receipt(char *text, size_t len);

/*
 * T3's DSSE envelope exactly as receipt/ writes it: compact, payload before
 * payloadType before one to four signatures of keyid and sig.
 */
bool admit_is_envelope(const char *text);

/* [A-Za-z0-9._-]{1,max} */
bool admit_is_id(const char *s, size_t max);

/* 1..AUDIT_TEXT_MAX bytes. */
bool admit_is_text(const char *s);

#endif
