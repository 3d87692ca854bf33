/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every route of the API: what it takes, who may use it, who handles it.
 * Handlers that look at more than the role (whose organisation, whose job)
 * say so in their own files. Roles 0: judged by the handler, or open to all.
 */
#include "base/scope.h"
#include "broker/api.h"
#include "broker/request.h"

enum { SMALL = 64 * 1024, RECEIPT = 24 << 20 };

#define GET(path_, roles_, fn) { .method = "GET", .path = path_, .roles = roles_, .handle = fn }
#define DELETE(path_, roles_, fn) \
	{ .method = "DELETE", .path = path_, .roles = roles_, .handle = fn }
#define WITH_BODY(method_, path_, roles_, max, fn) \
	{ .method = method_, .path = path_, .roles = roles_, .body_max = max, .handle = fn }

const struct route api_routes[] = {
	/* who may not run is told by a refusal of the command, with its row */
	WITH_BODY("POST", "/v1/run", 0, REQUEST_BODY_MAX, api_run),
	WITH_BODY("POST", "/v1/jobs/{job}/commands", 0, REQUEST_BODY_MAX, api_exec),
	{ .method = "POST",
	  .path = "/v1/jobs/{job}/commands/{command}/stdin",
	  .roles = ROLE_RUNNER,
	  .handle = api_stdin_end,
	  .begin = api_stdin_begin,
	  .chunk = api_stdin_chunk },
	WITH_BODY("POST", "/v1/sessions/seal", ROLE_ISSUER, SMALL, api_seal),
	WITH_BODY("POST", "/v1/sessions/open", ROLE_ISSUER | ROLE_RUNNER, SMALL, api_open),
	WITH_BODY("POST", "/v1/jobs", ROLE_RUNNER, SMALL, api_job_open),
	GET("/v1/jobs", ROLE_RUNNER | ROLE_ADMIN, api_job_list),
	GET("/v1/jobs/{job}", ROLE_RUNNER, api_job_show),
	DELETE("/v1/jobs/{job}", ROLE_RUNNER, api_job_close),
	WITH_BODY("POST", "/v1/jobs/{job}/kill", ROLE_RUNNER, SMALL, api_job_kill),
	{ .method = "POST",
	  .path = "/v1/artifacts",
	  .roles = ROLE_RUNNER,
	  .handle = api_artifact_end,
	  .begin = api_artifact_begin,
	  .chunk = api_artifact_chunk },
	GET("/v1/artifacts", ROLE_RUNNER, api_artifact_list),
	GET("/v1/artifacts/content", ROLE_RUNNER, api_artifact_get),
	GET("/v1/audit", ROLE_AUDITOR | ROLE_ADMIN, api_audit),
	GET("/v1/audit/verify", ROLE_AUDITOR | ROLE_ADMIN, api_audit_verify),
	GET("/v1/audit/export/{consumer}", ROLE_ADMIN, api_audit_export),
	WITH_BODY("POST", "/v1/audit/export/{consumer}", ROLE_ADMIN, SMALL, api_audit_ack),
	DELETE("/v1/audit/export/{consumer}", ROLE_ADMIN, api_audit_drop),
	WITH_BODY("POST", "/v1/audit/retain", ROLE_ADMIN, SMALL, api_audit_retain),
	GET("/v1/receipts/{job}/{command}", ROLE_RUNNER | ROLE_AUDITOR, api_receipt),
	GET("/v1/receipts/keys", 0, api_receipt_keys),
	WITH_BODY("POST", "/v1/receipts/verify", 0, RECEIPT, api_receipt_verify),
	GET("/v1/egress", ROLE_ADMIN, api_egress_live),
	WITH_BODY("POST", "/v1/egress/check", ROLE_RUNNER | ROLE_ADMIN, SMALL, api_egress_check),
	GET("/v1/runs", ROLE_ADMIN, api_runs),
	GET("/v1/runs/{run}", ROLE_ADMIN, api_run_get),
	WITH_BODY("PUT", "/v1/runs/{run}", ROLE_ADMIN, SMALL, api_run_put),
	DELETE("/v1/runs/{run}", ROLE_ADMIN, api_run_drop),
	{ .method = "POST",
	  .path = "/v1/skills",
	  .roles = ROLE_ADMIN,
	  .handle = api_skill_end,
	  .begin = api_skill_begin,
	  .chunk = api_skill_chunk },
	DELETE("/v1/skills/{slug}", ROLE_ADMIN, api_skill_remove),
	GET("/v1/skills", ROLE_RUNNER | ROLE_ISSUER | ROLE_ADMIN, api_skill_list),
	GET("/v1/skills/{slug}", ROLE_RUNNER | ROLE_ISSUER | ROLE_ADMIN, api_skill_show),
	GET("/v1/skills/{slug}/content", ROLE_RUNNER | ROLE_ISSUER | ROLE_ADMIN, api_skill_read),
	GET("/v1/workspaces", ROLE_ADMIN, api_workspaces),
	DELETE("/v1/workspaces/{key}", ROLE_ADMIN, api_workspace_remove),
	GET("/v1/health", 0, api_health),
	GET("/v1/reasons", 0, api_reasons),
	GET("/v1/openapi.json", 0, api_openapi),
	GET("/metrics", 0, api_metrics),
};

const size_t api_nroutes = ARRAY_SIZE(api_routes);
