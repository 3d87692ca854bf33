/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BROKER_API_H
#define CORDON_BROKER_API_H

/*
 * The handlers behind the routes of routes.c (F1), one file per subject.
 * openapi.json describes them; a test compares the two.
 */
#include "broker/broker.h"
#include "broker/request.h"
#include "policy/reason.h"

/* api_session.c */
void api_seal(struct broker *b, struct exchange *x);
void api_open(struct broker *b, struct exchange *x);

/* api_job.c */
void api_job_open(struct broker *b, struct exchange *x);
void api_job_list(struct broker *b, struct exchange *x);
void api_job_show(struct broker *b, struct exchange *x);
void api_job_close(struct broker *b, struct exchange *x);
void api_job_kill(struct broker *b, struct exchange *x);

/* api_exec.c */
void api_run(struct broker *b, struct exchange *x);
void api_exec(struct broker *b, struct exchange *x);
void api_stdin_begin(struct broker *b, struct exchange *x);
size_t api_stdin_chunk(struct exchange *x, const void *buf, size_t len);
void api_stdin_end(struct broker *b, struct exchange *x);

/* A job for the session that @r names, gone with its last command. */
enum reason api_open_session(struct broker *b, struct exchange *x, const struct exec_request *r,
			     struct job **ret, const char **text);

/* api_artifact.c */
void api_artifact_begin(struct broker *b, struct exchange *x);
size_t api_artifact_chunk(struct exchange *x, const void *buf, size_t len);
void api_artifact_end(struct broker *b, struct exchange *x);
void api_artifact_list(struct broker *b, struct exchange *x);
void api_artifact_get(struct broker *b, struct exchange *x);

/* api_audit.c */
void api_audit(struct broker *b, struct exchange *x);
void api_audit_verify(struct broker *b, struct exchange *x);
void api_audit_export(struct broker *b, struct exchange *x);
void api_audit_ack(struct broker *b, struct exchange *x);
void api_audit_drop(struct broker *b, struct exchange *x);
void api_audit_retain(struct broker *b, struct exchange *x);
void api_receipt(struct broker *b, struct exchange *x);
void api_receipt_keys(struct broker *b, struct exchange *x);
void api_receipt_verify(struct broker *b, struct exchange *x);

/* api_egress.c */
void api_egress_live(struct broker *b, struct exchange *x);
void api_egress_check(struct broker *b, struct exchange *x);

/* api_runs.c */
void api_runs(struct broker *b, struct exchange *x);
void api_run_get(struct broker *b, struct exchange *x);
void api_run_put(struct broker *b, struct exchange *x);
void api_run_drop(struct broker *b, struct exchange *x);

/* api_skills.c */
void api_skill_begin(struct broker *b, struct exchange *x);
size_t api_skill_chunk(struct exchange *x, const void *buf, size_t len);
void api_skill_end(struct broker *b, struct exchange *x);
void api_skill_remove(struct broker *b, struct exchange *x);
void api_skill_list(struct broker *b, struct exchange *x);
void api_skill_show(struct broker *b, struct exchange *x);
void api_skill_read(struct broker *b, struct exchange *x);

/* api_plane.c */
void api_health(struct broker *b, struct exchange *x);
void api_reasons(struct broker *b, struct exchange *x);
void api_openapi(struct broker *b, struct exchange *x);
void api_metrics(struct broker *b, struct exchange *x);
void api_workspaces(struct broker *b, struct exchange *x);
void api_workspace_remove(struct broker *b, struct exchange *x);

#endif
