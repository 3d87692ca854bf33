/* SPDX-License-Identifier: Apache-2.0 */
/* The closed list of reasons, held against the contract's own words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "policy/reason.h"

/* Chapter 16's list, in its order, with S7's rejections written out. */
static const char *const contract[] = {
	"no_session", "capability_unavailable", "plane_disabled", "invalid_request", "not_available",
	"limit_above_maximum", "carrier_no_secret", "carrier_malformed", "carrier_bad_signature",
	"carrier_expired", "voucher_missing", "voucher_malformed", "voucher_bad_signature",
	"voucher_wrong_audience", "voucher_command_mismatch", "voucher_job_mismatch", "voucher_session_mismatch",
	"voucher_expired", "voucher_not_yet_valid", "voucher_replayed", "voucher_nonce_capacity", "unknown_job",
	"job_terminated", "run_removed", "open_jobs_exhausted", "queue_saturated", "command_blocked",
	"command_replayed", "staging_failed", "workspace_lost", "image_digest_mismatch", "egress_unavailable",
	"egress_registration_failed", "network_not_internal", "environment_invalid", "environment_unavailable",
	"environment_untrusted", "environment_agent_disabled", "capability_denied", "isolation_unavailable",
	"audit_unavailable", "outcome_unknown", "worker_error", "worker_unavailable", "cancelled", "job_closed",
	"shutdown", "broker_lost",
};

static void the_list_is_the_contracts(void **s)
{
	(void)s;
	assert_int_equal(ARRAY_SIZE(contract), REASON_COUNT - 1);
	for (size_t i = 0; i < ARRAY_SIZE(contract); i++) {
		enum reason r = reason_from_code(contract[i]);
		assert_int_not_equal(r, REASON_NONE);
		assert_string_equal(reason_code(r), contract[i]);
	}
}

static void every_row_is_whole(void **s)
{
	(void)s;
	for (int i = REASON_NONE + 1; i < REASON_COUNT; i++) {
		const struct reason_row *r = reason_row((enum reason)i);
		assert_true(r->code[0] && r->meaning[0]);
		assert_true(r->http_status == 200 || (r->http_status >= 400 && r->http_status < 600));
		assert_int_equal(r->exit_status, i == REASON_CANCELLED ? 130 : 125);
		assert_int_equal(reason_from_code(r->code), i);
		assert_int_equal(r->decision == DECIDES_ALLOWED, r->http_status == 200);
	}
}

static void what_is_out_of_range_denies(void **s)
{
	(void)s;
	assert_null(reason_code(REASON_NONE));
	assert_string_equal(reason_row(REASON_NONE)->code, "worker_error");
	assert_string_equal(reason_row(REASON_COUNT)->code, "worker_error");
	assert_string_equal(reason_row((enum reason)9999)->code, "worker_error");
	assert_int_equal(reason_row((enum reason)9999)->decision, DECIDES_DENIED);
	assert_int_equal(reason_from_code(""), REASON_NONE);
	assert_int_equal(reason_from_code("NO_SESSION"), REASON_NONE);
	assert_int_equal(reason_from_code("allowed"), REASON_NONE);
}

static void terminations_are_the_five(void **s)
{
	static const char *const five[] = { "exited", "timeout", "output_cap_exceeded", "disk_quota_exceeded",
					    "worker_error" };

	(void)s;
	assert_int_equal(TERMINATION_COUNT - 1, ARRAY_SIZE(five));
	for (size_t i = 0; i < ARRAY_SIZE(five); i++)
		assert_string_equal(termination_code((enum termination)(i + 1)), five[i]);
	assert_null(termination_code(TERMINATION_NONE));
	assert_null(termination_code(TERMINATION_COUNT));
	assert_null(termination_code((enum termination)9999));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_list_is_the_contracts),
		cmocka_unit_test(every_row_is_whole),
		cmocka_unit_test(what_is_out_of_range_denies),
		cmocka_unit_test(terminations_are_the_five),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
