/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROTO_LEDGER_H
#define CORDON_PROTO_LEDGER_H

/*
 * broker <-> ledger, over one SEQPACKET pair. Bodies are compact JSON objects
 * (UTF-8, strict, at most 60 KiB) after a 64-bit request number; the ledger
 * holds the second allowlist (A2, A8): unknown or excess keys are refused.
 * Requests are answered in order by L_OK or L_ERROR; L_ROW may be asked for
 * without an answer (best effort, A6).
 */
#include <stdint.h>

enum ledger_msg {
	L_ROW = 1,    /* one command's row (A2) + its receipt; req 0: no answer wanted */
	L_INTENT,     /* `required` mode: durable before dispatch */
	L_QUERY,      /* {"orgId": .. | "all": true, "limit", "after"} -> L_RESULT */
	L_RECEIPT,    /* {"jobId", "commandId"} -> L_RESULT */
	L_VERIFY,     /* {} -> L_RESULT: chain verdict */
	L_COMMAND_ID, /* {"jobId","commandId"} remember a caller-given name (Q7): L_RESULT {"new":bool,...} */
	L_RESULT,
	L_OK,
	L_ERROR,
	L_READY, /* ledger -> broker, once */
};

struct ledger_head {
	uint64_t req;
};

#endif
