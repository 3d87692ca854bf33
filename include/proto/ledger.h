/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROTO_LEDGER_H
#define CORDON_PROTO_LEDGER_H

/*
 * broker <-> ledger, over one SEQPACKET pair. A body is a struct ledger_head
 * and then one compact JSON object (UTF-8, strict: no doubled key, nothing
 * behind it), LEDGER_JSON_MAX bytes at most. The ledger holds the second
 * allowlist (A2, A8): an unknown, doubled, missing or ill-typed key refuses the
 * message (L_ERROR "invalid"), and nothing of it is kept. Every key named below
 * must be there unless it is marked ?, which may be absent or null.
 *
 * Each request is answered by exactly one L_OK, L_RESULT or L_ERROR carrying its
 * @req, when its effect is committed. Answers come in the order of the requests,
 * but for L_VERIFY, which is answered when it is done. L_ROW with @req 0 is not
 * answered at all (best effort, A6). Everything that arrived together is
 * committed together, so pipeline freely.
 *
 *   ROW = {"organizationId": S, "actorPrincipalId": S,   "-" while nothing is verified (A1)
 *          "resourceId": ID,                             the job; "-" where there is none
 *          "decision": "allowed" | "denied",
 *          "runId": S | null,
 *          "metadata": {                                 exactly these ten, null where absent
 *            "surface": one of S1's four | null,
 *            "cwd": S | null,
 *            "reason": a code of policy/reason.h | null,
 *            "exitCode": 0..255 | null,
 *            "termination": one of Q2's five | null,
 *            "imageDigest": "sha256:" 64 hex | null,
 *            "egressMode": "none" | "allowlist" | "default_internet" | null,
 *            "egressTotalBytes": N | null, "wallMs": N | null, "workspaceKb": N | null}}
 *   The constant columns of A2 are the ledger's own to write; so are sequence,
 *   time and chain.
 *
 *   RECEIPT = T1's object, compact: {"tool", "inputHash", "outputHash", "failureHash",
 *          "timestamp", "egressDigest", "keyVersion", "signature"}, nulls as T1 says.
 *
 *   S: at most 256 bytes (cwd: 1024). ID: [A-Za-z0-9._-]{1,64}, so also a command's id:
 *   [A-Za-z0-9._-]{1,128}. N: an integer, 0..2^53.
 */
#include <stdint.h>

enum {
	LEDGER_JSON_MAX = 60 * 1024 - 8,
	LEDGER_ENVELOPE_MAX = 40 * 1024,
	LEDGER_KEEP_MAX = 8 * 1024,
};

enum ledger_msg {
	/*
	 * One command's row (A2), its receipt, and the end of its intent, all or nothing:
	 *   {"row": ROW, "commandId"?: ID, "receipt"?: RECEIPT, "envelope"?: T3's DSSE JSON text as
	 *    receipt/ renders it, "intent"?: N of L_INTENT}
	 * -> L_OK. The receipt is kept under (resourceId, commandId) and needs a commandId, and a
	 * claimed command id (below) learns decision, termination and exit code. A row that was
	 * kept before (same intent, or same resourceId, commandId and receipt) is L_OK
	 * again and written once: resend freely after a ledger restart. A refused repetition
	 * (command_replayed) is no such row: send it without a commandId.
	 * L_ERROR "unavailable": not in the database (the disk is full, ...). It was spooled and
	 * will be written when the database works again; in `required` mode treat it as not there.
	 */
	L_ROW = 1,

	/*
	 * `required` mode: durable before dispatch (A6).
	 *   {"row": ROW, "commandId"?: ID}: the row as it would be if nothing more were known; its
	 *   decision, termination and reason are ignored.
	 * -> L_RESULT {"intent": N}. L_ERROR "unavailable": do not dispatch (audit_unavailable).
	 */
	L_INTENT,

	/*
	 *   {"orgId": S, "limit": 1..1000, "after": N} or {"all": true, "limit", "after"}; rows
	 *   with a sequence above `after`, oldest first. Add "newest": true for the newest
	 *   @limit rows (still oldest first; `after` must then be 0).
	 * -> L_RESULT {"rows": [OUT...], "next": N | null}: next is the `after` to go on with (an
	 *   answer also ends when it is full), null at the end. Empty when the store fails (A8).
	 *   OUT = {"sequence": N, "time": "2026-01-31T12:00:00.000000Z", the nine columns, "metadata"}
	 */
	L_QUERY,

	/* {"jobId": ID, "commandId": ID} -> L_RESULT {"receipt": RECEIPT | null, "envelope": S | null,
	 *  "orgId": S | null, "userId": S | null}: whose it is, for the door to judge */
	L_RECEIPT,

	/*
	 *   {"anchor"?: {"sequence": N, "head": 64 hex}} -> L_RESULT of audit/verify.h:
	 *   {"ok": bool, "verdict": S, "row": N | null, "text": S, "rows": N, "first": N, "last": N,
	 *    "head": 64 hex, "cut": {"upto": N, "time": S} | null, "checkpoint": N | null,
	 *    "anchor": "matched" | "before_cut" | "failed" | null}
	 *   (last, head) is the anchor to export.
	 */
	L_VERIFY,

	/*
	 * Claims a name (Q7), durably: {"jobId": ID, "commandId": ID} -> L_RESULT
	 *   {"new": bool, "decision": S | null, "termination": S | null, "exitCode": N | null}
	 * new false: refuse command_replayed. Nulls: claimed, and no row of it yet.
	 */
	L_COMMAND_ID,

	L_RESULT, /* ledger -> broker: head + JSON */
	L_OK,	  /* ledger -> broker: head alone */
	/* ledger -> broker: head + {"error": "invalid" | "unavailable" | "conflict", "text": S} */
	L_ERROR,

	/* ledger -> broker, once per connection: head (req 0) + {"mode": "required" | "default",
	 * "lastSequence": N} */
	L_READY,

	/*
	 * The broker's first message: {"broker": 32 hex, random per broker process} -> L_OK. Intents
	 * of any other broker become rows (outcome_unknown, A6); those of this one stay open, as
	 * when only the ledger was restarted, when the database works. Before it only L_HELLO
	 * itself is allowed.
	 */
	L_HELLO,

	/*
	 * A9: {"consumer": ID, "limit": 1..1000} -> L_RESULT {"rows": [OUT + "keyVersion", "chain":
	 * 64 hex], "acknowledged": N}: the rows behind the consumer's cursor, the same until
	 * acknowledged. The first use makes the cursor (at 0); from then on retention keeps what
	 * the consumer has not acknowledged.
	 */
	L_EXPORT,
	/* {"consumer": ID, "sequence": N} -> L_OK; never moves back; beyond the last row, or a
	 * consumer that never exported: "conflict" */
	L_ACK,
	L_EXPORT_DROP, /* {"consumer": ID} -> L_OK: the consumer is gone for good */

	/*
	 * {} -> L_RESULT {"mode", "lastSequence", "written", "suppressed", "spooled", "spoolPending",
	 *  "lost", "failures", "refused", "intentsOpen", "outcomeUnknown", "exportPending", "dbBytes",
	 *  "cut": N, "storeOk": bool, "checkpointOk": bool, "guardsMissing": [S]}
	 * checkpointOk false: the store does not continue the checkpoint; run L_VERIFY.
	 */
	L_HEALTH,

	/*
	 * Single-use voucher nonces (S7), kept as digests until @expMs + 5 s:
	 * {"nonce": S, "expMs": N} -> L_RESULT {"state": "new" | "replayed" | "capacity"}
	 */
	L_NONCE,

	/*
	 * The run registry (S5):
	 * L_RUN_SET {"runId": S, "orgId": S, "userId": S, "state": "alive" | "archived" | "gone"} -> L_OK
	 * L_RUN_GET {"runId": S} -> L_RESULT {"known": bool, "orgId", "userId", "state": S | null}
	 * L_RUN_LIST {"after": S, "limit": 1..1000} -> L_RESULT {"runs": [{"runId", ...}], "next": S | null}
	 * L_RUN_DROP {"runId": S} -> L_OK: unknown from now on
	 */
	L_RUN_SET,
	L_RUN_GET,
	L_RUN_LIST,
	L_RUN_DROP,

	/*
	 * Small durable things of the broker (open jobs): by kind ([a-z]{1,16}) and key (ID).
	 * L_KEEP {"kind": S, "key": ID, "value": JSON object | null} -> L_OK; null forgets it;
	 *   a value is at most LEDGER_KEEP_MAX bytes compact. Never a carrier, token or command (S6).
	 * L_KEPT {"kind": S, "after": S, "limit": 1..1000} -> L_RESULT {"items": [{"key", "value"}],
	 *   "next": S | null}
	 */
	L_KEEP,
	L_KEPT,

	/*
	 * Retention (A5): {"beforeMs": N since the epoch} -> L_RESULT {"removed": N, "upto": N,
	 * "more": bool}: rows older than that go, from the beginning, under a signed cut; never one
	 * that a consumer has not acknowledged. Some thousand at a time: ask again while more.
	 * "conflict": a row that would go is not intact; nothing was removed.
	 */
	L_RETAIN,

	L_MSG_COUNT
};

struct ledger_head {
	uint64_t req;
};

#endif
