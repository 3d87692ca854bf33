/* Pure: the table of reasons and terminations (SPEC 16, Q2). SPDX-License-Identifier: Apache-2.0 */
#include "policy/reason.h"

#include <string.h>

#define DENIED(code, http, meaning) { code, meaning, DECIDES_DENIED, 125, http }
#define ENDED(code, status, meaning) { code, meaning, DECIDES_ALLOWED, status, 200 }

static const struct reason_row rows[REASON_COUNT] = {
	[REASON_NO_SESSION] = DENIED("no_session", 401, "the caller cannot be identified"),
	[REASON_CAPABILITY_UNAVAILABLE] =
		DENIED("capability_unavailable", 503, "the plane cannot seal a session, or say whether its run lives"),
	[REASON_PLANE_DISABLED] = DENIED("plane_disabled", 503, "the rollout is not on"),
	[REASON_INVALID_REQUEST] = DENIED("invalid_request", 400, "the request is malformed"),
	[REASON_NOT_AVAILABLE] =
		DENIED("not_available", 501, "an option whose room is not built yet"),
	[REASON_LIMIT_ABOVE_MAXIMUM] =
		DENIED("limit_above_maximum", 400, "a limit above the configured maximum"),
	[REASON_CARRIER_NO_SECRET] =
		DENIED("carrier_no_secret", 503, "no carrier secret is installed"),
	[REASON_CARRIER_MALFORMED] =
		DENIED("carrier_malformed", 401, "the carrier's shape, JSON or identity is wrong"),
	[REASON_CARRIER_BAD_SIGNATURE] =
		DENIED("carrier_bad_signature", 401, "the carrier's MAC does not verify"),
	[REASON_CARRIER_EXPIRED] = DENIED("carrier_expired", 401, "the carrier has expired"),
	[REASON_VOUCHER_MISSING] =
		DENIED("voucher_missing", 403, "a voucher is required and none was given"),
	[REASON_VOUCHER_MALFORMED] =
		DENIED("voucher_malformed", 403, "the voucher's shape is wrong"),
	[REASON_VOUCHER_BAD_SIGNATURE] =
		DENIED("voucher_bad_signature", 403, "the voucher's signature does not verify"),
	[REASON_VOUCHER_WRONG_AUDIENCE] =
		DENIED("voucher_wrong_audience", 403, "the voucher is for another plane"),
	[REASON_VOUCHER_COMMAND_MISMATCH] =
		DENIED("voucher_command_mismatch", 403, "the voucher is for another command"),
	[REASON_VOUCHER_JOB_MISMATCH] =
		DENIED("voucher_job_mismatch", 403, "the voucher is for another job"),
	[REASON_VOUCHER_SESSION_MISMATCH] =
		DENIED("voucher_session_mismatch", 403, "the voucher is for another session"),
	[REASON_VOUCHER_EXPIRED] = DENIED("voucher_expired", 403, "the voucher has expired"),
	[REASON_VOUCHER_NOT_YET_VALID] =
		DENIED("voucher_not_yet_valid", 403, "the voucher is from the future"),
	[REASON_VOUCHER_REPLAYED] =
		DENIED("voucher_replayed", 403, "the voucher was used before"),
	[REASON_VOUCHER_NONCE_CAPACITY] =
		DENIED("voucher_nonce_capacity", 503, "no room to remember another nonce"),
	[REASON_UNKNOWN_JOB] = DENIED("unknown_job", 404, "no such job of this peer"),
	[REASON_JOB_TERMINATED] = DENIED("job_terminated", 409, "the job has ended"),
	[REASON_RUN_REMOVED] = { "run_removed", "the run no longer exists", DECIDES_DENIED, 125,
				 410 },
	[REASON_OPEN_JOBS_EXHAUSTED] =
		DENIED("open_jobs_exhausted", 429, "the organisation's open jobs are used up"),
	[REASON_QUEUE_SATURATED] = DENIED("queue_saturated", 429, "the queue is full"),
	[REASON_COMMAND_BLOCKED] =
		DENIED("command_blocked", 403, "refused by the command lists (hygiene)"),
	[REASON_COMMAND_REPLAYED] =
		DENIED("command_replayed", 409, "the command's name was used on this job"),
	[REASON_STAGING_FAILED] = DENIED("staging_failed", 422, "content was refused whole"),
	[REASON_WORKSPACE_LOST] =
		DENIED("workspace_lost", 410, "the run's workspace is no longer there"),
	[REASON_IMAGE_DIGEST_MISMATCH] =
		DENIED("image_digest_mismatch", 503, "the image's bytes do not match its digest"),
	[REASON_EGRESS_UNAVAILABLE] =
		DENIED("egress_unavailable", 503, "the tier needs a gateway and none works"),
	[REASON_EGRESS_REGISTRATION_FAILED] =
		DENIED("egress_registration_failed", 503, "the token could not be registered"),
	[REASON_NETWORK_NOT_INTERNAL] =
		DENIED("network_not_internal", 503, "the job's network is not internal"),
	[REASON_ENVIRONMENT_INVALID] =
		DENIED("environment_invalid", 422, "the declared environment does not parse"),
	[REASON_ENVIRONMENT_UNAVAILABLE] =
		DENIED("environment_unavailable", 503, "the declared environment is not built"),
	[REASON_ENVIRONMENT_UNTRUSTED] =
		DENIED("environment_untrusted", 503, "the layer's provenance does not verify"),
	[REASON_ENVIRONMENT_AGENT_DISABLED] = DENIED(
		"environment_agent_disabled", 409, "an environment declared, execution off"),
	[REASON_CAPABILITY_DENIED] =
		DENIED("capability_denied", 403, "a required capability is not granted"),
	[REASON_ISOLATION_UNAVAILABLE] =
		DENIED("isolation_unavailable", 503, "a guard or grade cannot be given now"),
	[REASON_AUDIT_UNAVAILABLE] =
		DENIED("audit_unavailable", 503, "the audit record cannot be written"),
	[REASON_OUTCOME_UNKNOWN] =
		ENDED("outcome_unknown", 125, "it was let run; what became of it is not known"),
	[REASON_WORKER_ERROR] = DENIED("worker_error", 500, "the sandbox could not be made"),
	[REASON_WORKER_UNAVAILABLE] =
		DENIED("worker_unavailable", 503, "no worker is there to make a sandbox"),
	[REASON_CANCELLED] = ENDED("cancelled", 130, "ended by the caller"),
	[REASON_JOB_CLOSED] = ENDED("job_closed", 125, "its job was closed"),
	[REASON_SHUTDOWN] = ENDED("shutdown", 125, "the plane went down"),
	[REASON_BROKER_LOST] = ENDED("broker_lost", 125, "the broker was lost"),
};

static const char *const terminations[TERMINATION_COUNT] = {
	[TERMINATION_EXITED] = "exited",
	[TERMINATION_TIMEOUT] = "timeout",
	[TERMINATION_OUTPUT_CAP_EXCEEDED] = "output_cap_exceeded",
	[TERMINATION_DISK_QUOTA_EXCEEDED] = "disk_quota_exceeded",
	[TERMINATION_WORKER_ERROR] = "worker_error",
};

const struct reason_row *reason_row(enum reason r)
{
	if (r <= REASON_NONE || r >= REASON_COUNT)
		r = REASON_WORKER_ERROR;
	return &rows[r];
}

const char *reason_code(enum reason r)
{
	return r == REASON_NONE ? NULL : reason_row(r)->code;
}

enum reason reason_from_code(const char *code)
{
	for (int r = REASON_NONE + 1; r < REASON_COUNT; r++)
		if (strcmp(rows[r].code, code) == 0)
			return (enum reason)r;
	return REASON_NONE;
}

const char *termination_code(enum termination t)
{
	return t > TERMINATION_NONE && t < TERMINATION_COUNT ? terminations[t] : NULL;
}
