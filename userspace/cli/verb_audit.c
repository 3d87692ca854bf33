/* SPDX-License-Identifier: Apache-2.0 */
/* cordon audit: the ledger's rows, its chain, its export, its retention. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "audit/anchor.h"
#include "audit/checkpoint.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/table.h"
#include "json/json.h"

enum { EXPORT_PAGE = 1000 };

struct list_options {
	const char *org;
	bool is_all;
	struct option_number after, limit;
};

static const struct option list_rows[] = {
	OPTION(struct list_options, org, "org", 0, OPTION_TEXT, "O", "of one organisation"),
	OPTION(struct list_options, is_all, "all", 'a', OPTION_FLAG, NULL,
	       "of the whole instance (admin)"),
	OPTION(struct list_options, after, "after", 0, OPTION_COUNT, "SEQ", "rows behind this one"),
	OPTION(struct list_options, limit, "limit", 0, OPTION_COUNT, "N", "at most so many"),
};

/* The query of one page. */
static int rows_path(const struct list_options *o, char ret[HTTP_PATH_MAX], int *ret_status)
{
	struct err e;

	if (!o->org == !o->is_all) {
		err_set(&e, EINVAL, "exactly one of --org O and --all is due");
		*ret_status = cli_refuse_options(&e);
		return 1;
	}
	strcpy(ret, o->is_all ? "/v1/audit?all=1" : "/v1/audit?org=");
	if (o->org && http_add_part(ret, o->org, &e) < 0) {
		*ret_status = cli_refuse_options(&e);
		return 1;
	}
	size_t at = strlen(ret);
	if (o->after.is_given)
		at += (size_t)snprintf(ret + at, HTTP_PATH_MAX - at, "&after=%llu",
				       (unsigned long long)o->after.value);
	if (o->limit.is_given && at < HTTP_PATH_MAX)
		snprintf(ret + at, HTTP_PATH_MAX - at, "&limit=%llu",
			 (unsigned long long)o->limit.value);
	return 0;
}

static int audit_list(struct invocation *in)
{
	static const struct column columns[] = {
		{ "SEQ", "sequence" },
		{ "TIME", "time" },
		{ "ORG", "organizationId" },
		{ "ACTOR", "actorPrincipalId" },
		{ "JOB", "resourceId" },
		{ "DECISION", "decision" },
		{ "TERMINATION", "metadata.termination" },
		{ "EXIT", "metadata.exitCode" },
		{ "REASON", "metadata.reason" },
		{ "MS", "metadata.wallMs" },
		{ "EGRESS", "metadata.egressMode" },
		{ "RUN", "runId" },
	};
	struct list_options o = { 0 };
	char path[HTTP_PATH_MAX];
	int status;

	if (cli_options(in, list_rows, ARRAY_SIZE(list_rows), &o, &status) ||
	    input_no_more(in, &status) || rows_path(&o, path, &status))
		return status;
	return table_call(in, path, columns, ARRAY_SIZE(columns));
}

struct verify_chain_options {
	const char *anchor, *db, *key, *checkpoint;
};

static const struct option verify_chain_rows[] = {
	OPTION(struct verify_chain_options, anchor, "anchor", 0, OPTION_TEXT, "SEQ:HEAD|FILE",
	       "what an earlier verify said (its last and head), kept elsewhere"),
	OPTION(struct verify_chain_options, db, "db", 0, OPTION_TEXT, "FILE",
	       "a database, or a copy of one, without a plane"),
	OPTION(struct verify_chain_options, key, "key", 0, OPTION_TEXT, "FILE|DIR",
	       "with --db: its chain key, or the directory of all versions"),
	OPTION(struct verify_chain_options, checkpoint, "checkpoint", 0, OPTION_TEXT, "FILE",
	       "with --db: the checkpoint that lay beside it"),
};

/* Another program reads what somebody else may have written, in a confinement of its own. */
static int verify_files(const struct invocation *in, const struct verify_chain_options *o)
{
	const char *argv[12];
	int n = 0;

	argv[n++] = "cordon-verify";
	argv[n++] = "--db", argv[n++] = o->db;
	argv[n++] = "--key", argv[n++] = o->key;
	if (o->checkpoint)
		argv[n++] = "--checkpoint", argv[n++] = o->checkpoint;
	if (o->anchor)
		argv[n++] = "--anchor", argv[n++] = o->anchor;
	if (in->common.is_json)
		argv[n++] = "--json";
	argv[n] = NULL;
	return cli_exec((char *const *)(uintptr_t)argv);
}

/* /v1/audit/verify, with the anchor in its query. */
static int verify_path(const char *anchor, char ret[HTTP_PATH_MAX], struct err *e)
{
	struct audit_point p;
	char head[DIGEST_HEX_MAX];

	strcpy(ret, "/v1/audit/verify");
	if (!anchor)
		return 0;
	if (audit_anchor_read(anchor, &p, e) < 0)
		return -e->code;
	digest_hex(p.link, DIGEST_LEN, head);
	snprintf(ret, HTTP_PATH_MAX, "/v1/audit/verify?sequence=%llu&head=%s",
		 (unsigned long long)p.sequence, head);
	return 0;
}

/* What @v says, and the exit status for it. */
static int print_verdict(const struct invocation *in, const json_t *v)
{
	if (in->common.is_json)
		cli_print_json(v);
	else
		table_print_object(v);
	return json_is_true(json_object_get(v, "ok")) ? 0 : STATUS_FAILED;
}

static int verify_plane(const struct invocation *in, const char *anchor)
{
	auto_json json_t *answer = NULL;
	char path[HTTP_PATH_MAX];
	struct err e;

	if (verify_path(anchor, path, &e) < 0)
		return cli_refuse_options(&e);
	int status = cli_call(in, "GET", path, NULL, &answer);
	return status ? status : print_verdict(in, answer);
}

static int audit_verify(struct invocation *in)
{
	struct verify_chain_options o = { 0 };
	struct err e;
	int status;

	if (cli_options(in, verify_chain_rows, ARRAY_SIZE(verify_chain_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	if (!o.db != !o.key || (o.checkpoint && !o.db)) {
		err_set(&e, EINVAL, "--db and --key go together, --checkpoint with them");
		return cli_refuse_options(&e);
	}
	return o.db ? verify_files(in, &o) : verify_plane(in, o.anchor);
}

/* --- Export: every row as one line of JSON (A9) */

struct export_options {
	struct list_options page;
	const char *consumer;
	struct option_number ack;
	bool is_drop;
};

static const struct option export_rows[] = {
	OPTION(struct export_options, page.org, "org", 0, OPTION_TEXT, "O", "of one organisation"),
	OPTION(struct export_options, consumer, "consumer", 0, OPTION_TEXT, "NAME",
	       "the rows this consumer has not acknowledged"),
	OPTION(struct export_options, ack, "ack", 0, OPTION_COUNT, "SEQ",
	       "acknowledge the consumer's rows up to here"),
	OPTION(struct export_options, is_drop, "drop", 0, OPTION_FLAG, NULL,
	       "forget the consumer; nothing waits for it any more"),
	OPTION(struct export_options, page.limit, "limit", 0, OPTION_COUNT, "N",
	       "at most so many rows of the consumer"),
};

/* Prints the rows; gives the last sequence, 0 for none, -1 where they do not go up. */
static json_int_t print_rows(const json_t *rows, json_int_t after)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		json_int_t sequence = json_integer_value(json_object_get(row, "sequence"));
		if (sequence <= after || cli_print_json(row))
			return -1;
		after = sequence;
	}
	return i ? after : 0;
}

static int export_all(struct invocation *in, struct list_options *page)
{
	json_int_t last = 0, now;
	int status;

	page->is_all = !page->org;
	page->limit = (struct option_number){ true, EXPORT_PAGE };
	do {
		auto_json json_t *answer = NULL;
		char path[HTTP_PATH_MAX];
		page->after = (struct option_number){ true, (uint64_t)last };
		if (rows_path(page, path, &status))
			return status;
		status = cli_call(in, "GET", path, NULL, &answer);
		if (status)
			return status;
		now = print_rows(table_rows(answer), last);
		last = now;
	} while (now > 0);
	return now < 0 ? STATUS_FAILED : 0;
}

static int export_consumer(struct invocation *in, const struct export_options *o)
{
	auto_json json_t *answer = NULL, *body = NULL;
	char path[HTTP_PATH_MAX] = "/v1/audit/export/";
	struct err e;

	if (http_add_part(path, o->consumer, &e) < 0)
		return cli_refuse_options(&e);
	if (o->ack.is_given) {
		body = json_object();
		json_add_u64(body, "sequence", o->ack.value);
	}
	if (!o->ack.is_given && !o->is_drop) {
		size_t at = strlen(path);
		snprintf(path + at, sizeof(path) - at, "?limit=%llu",
			 (unsigned long long)(o->page.limit.is_given ? o->page.limit.value :
								       EXPORT_PAGE));
	}
	int status = cli_call(in, o->is_drop ? "DELETE" : body ? "POST" : "GET", path, body,
			      &answer);
	if (status || body || o->is_drop)
		return status;
	return print_rows(table_rows(answer), 0) < 0 ? STATUS_FAILED : 0;
}

static int audit_export(struct invocation *in)
{
	struct export_options o = { 0 };
	struct err e;
	int status;

	if (cli_options(in, export_rows, ARRAY_SIZE(export_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	if (!o.consumer && (o.ack.is_given || o.is_drop || o.page.limit.is_given)) {
		err_set(&e, EINVAL, "--ack, --drop and --limit are a --consumer's");
		return cli_refuse_options(&e);
	}
	if (o.consumer && (o.page.org || (o.ack.is_given && o.is_drop))) {
		err_set(&e, EINVAL, "--consumer takes one of --ack and --drop, and no --org");
		return cli_refuse_options(&e);
	}
	return o.consumer ? export_consumer(in, &o) : export_all(in, &o.page);
}

/* --- Retention: a chain that is not whole is left as it is, every row of it evidence */

struct retain_options {
	struct option_number older_than;
};

static const struct option retain_rows[] = {
	OPTION(struct retain_options, older_than, "older-than", 0, OPTION_COUNT, "SECONDS",
	       "remove rows older than that"),
};

/* Asks until nothing more is removed. */
static int retain_all(const struct invocation *in, uint64_t before_ms, json_int_t *ret_removed)
{
	bool more = true;

	for (*ret_removed = 0; more;) {
		auto_json json_t *body = json_pack("{s:I}", "beforeMs", (json_int_t)before_ms);
		auto_json json_t *answer = NULL;
		int status = cli_call(in, "POST", "/v1/audit/retain", body, &answer);
		if (status)
			return status;
		*ret_removed += json_integer_value(json_object_get(answer, "removed"));
		more = json_is_true(json_object_get(answer, "more"));
	}
	return 0;
}

static int audit_retain(struct invocation *in)
{
	struct retain_options o = { 0 };
	auto_json json_t *before = NULL, *after = NULL;
	json_int_t removed = 0;
	struct err e;
	int status;

	if (cli_options(in, retain_rows, ARRAY_SIZE(retain_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	uint64_t now = (uint64_t)time(NULL);
	if (!o.older_than.is_given || o.older_than.value > now) {
		err_set(&e, EINVAL, "--older-than SECONDS is due");
		return cli_refuse_options(&e);
	}
	status = cli_call(in, "GET", "/v1/audit/verify", NULL, &before);
	if (status)
		return status;
	if (!json_is_true(json_object_get(before, "ok"))) {
		print_verdict(in, before);
		err_set(&e, EBADMSG, "the chain is not whole: nothing is removed");
		return cli_fail(STATUS_FAILED, &e);
	}
	status = retain_all(in, (now - o.older_than.value) * 1000, &removed);
	if (status == 0)
		status = cli_call(in, "GET", "/v1/audit/verify", NULL, &after);
	if (status)
		return status;
	json_object_set_new(after, "removed", json_integer(removed));
	return print_verdict(in, after);
}

const struct verb audit_verbs[] = {
	{ "list", "(--org O | --all) [--after SEQ] [--limit N]", "show rows", audit_list, NULL,
	  NULL },
	{ "verify", "[--db FILE --key FILE [--checkpoint FILE]] [--anchor A]", "check the chain",
	  audit_verify, NULL, NULL },
	{ "retain", "--older-than SECONDS", "remove old rows under a signed cut", audit_retain, NULL,
	  NULL },
	{ "export", "[--org O | --consumer NAME [--ack SEQ | --drop]]",
	  "print rows as lines of JSON", audit_export, NULL, NULL },
	{ 0 },
};
