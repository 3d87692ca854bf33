/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that look: queries, exports, verification, health; and retention,
 * which removes only what it has looked at. A query authorises nobody: its door
 * is the broker's API.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "confine/confine.h"
#include "digest/digest.h"
#include "json/json.h"
#include "ledger/ledger.h"
#include "ledger/rows.h"

/* What an answer may hold beside its rows. */
enum { ANSWER_ROOM = LEDGER_JSON_MAX - 256, QUERY_LIMIT_MAX = 1000 };

struct query {
	const char *org;
	bool is_all, is_newest;
	uint32_t limit;
	uint64_t after;
};

static const struct json_field query_fields[] = {
	FIELD(struct query, org, "orgId", FIELD_PTR, 0, AUDIT_TEXT_MAX),
	FIELD(struct query, is_all, "all", FIELD_BOOL, 0, 0),
	FIELD(struct query, is_newest, "newest", FIELD_BOOL, 0, 0),
	FIELD(struct query, limit, "limit", FIELD_U32, FIELD_REQUIRED, QUERY_LIMIT_MAX),
	FIELD(struct query, after, "after", FIELD_U64, FIELD_REQUIRED, INT64_MAX),
};

static int read_query(const json_t *body, struct query *q, struct err *e)
{
	if (json_fields_read(body, query_fields, ARRAY_SIZE(query_fields), q, e) < 0)
		return -e->code;
	if (!q->org == !q->is_all)
		return err_set(e, EINVAL, "exactly one of 'orgId' and 'all'");
	if (q->limit == 0 || (q->is_newest && q->after))
		return err_set(e, EINVAL, "'limit' or 'after' is no such number");
	return 0;
}

/*
 * Rows of an open statement into an array, as many as fit one message. Gives 1
 * when some did not fit. @in_front: the statement runs backwards.
 */
static int collect(struct store *s, enum store_statement id, bool with_chain, bool in_front,
		   json_t *rows, struct err *e)
{
	size_t room = ANSWER_ROOM;
	int rc = 1;

	for (; rc == 1; rc = store_next(s, id, e)) {
		size_t len = 0;
		auto_json json_t *row = rows_read(store_row(s, id), with_chain);
		autofree char *text = row ? json_dump_compact(row, &len) : NULL;
		if (!text)
			return err_set(e, ENOMEM, "query: out of memory");
		if (len + 1 > room) {
			store_done(s, id);
			return 1;
		}
		room -= len + 1;
		if (in_front ? json_array_insert(rows, 0, row) : json_array_append(rows, row))
			return err_set(e, ENOMEM, "query: out of memory");
	}
	return rc;
}

static json_t *last_sequence(const json_t *rows)
{
	size_t n = json_array_size(rows);

	return n ? json_incref(json_object_get(json_array_get(rows, n - 1), "sequence")) : json_null();
}

int request_query(struct ledger *l, struct request *r, struct err *e)
{
	static const enum store_statement statements[2][2] = {
		{ ST_ROWS_ORG, ST_ROWS_ALL },
		{ ST_ROWS_ORG_NEWEST, ST_ROWS_ALL_NEWEST },
	};
	struct query q = { 0 };
	struct value v[3];
	int n = 0;

	if (read_query(r->body, &q, e) < 0)
		return -e->code;
	enum store_statement id = statements[q.is_newest][q.is_all];
	if (q.org)
		v[n++] = value_text(q.org);
	if (!q.is_newest)
		v[n++] = value_int((int64_t)q.after);
	v[n++] = value_int(q.limit);
	json_t *rows = json_array();
	r->result = json_pack("{s:o}", "rows", rows);
	if (!r->result)
		return err_set(e, ENOMEM, "query: out of memory");
	int rc = store_select(&l->store, id, v, n, e);
	if (rc == 1)
		rc = collect(&l->store, id, false, q.is_newest, rows, e);
	if (rc < 0)
		return rc;
	bool more = !q.is_newest && (rc == 1 || json_array_size(rows) == q.limit);
	return json_object_set_new(r->result, "next", more ? last_sequence(rows) : json_null()) ?
		       err_set(e, ENOMEM, "query: out of memory") :
		       0;
}

struct consumer {
	char name[ID_JOB_MAX + 1];
	uint32_t limit;
	uint64_t sequence;
};

static const struct json_field export_fields[] = {
	FIELD(struct consumer, name, "consumer", FIELD_TEXT, FIELD_REQUIRED, 0),
	FIELD(struct consumer, limit, "limit", FIELD_U32, FIELD_REQUIRED, QUERY_LIMIT_MAX),
};
static const struct json_field ack_fields[] = {
	FIELD(struct consumer, name, "consumer", FIELD_TEXT, FIELD_REQUIRED, 0),
	FIELD(struct consumer, sequence, "sequence", FIELD_U64, FIELD_REQUIRED, INT64_MAX),
};

static int read_consumer(const json_t *body, const struct json_field *fields, size_t n,
			 struct consumer *ret, struct err *e)
{
	if (json_fields_read(body, fields, n, ret, e) < 0)
		return -e->code;
	return admit_is_id(ret->name, ID_JOB_MAX) ?
		       0 :
		       err_set(e, EINVAL, "'consumer' has a value that is not admitted");
}

/* A consumer's cursor: 1 and *ret, or 0. */
static int cursor_of(struct store *s, const char *name, uint64_t *ret, struct err *e)
{
	const struct value v = value_text(name);
	int rc = store_select(s, ST_CONSUMER_GET, &v, 1, e);

	if (rc == 1)
		*ret = (uint64_t)sqlite3_column_int64(store_row(s, ST_CONSUMER_GET), 0);
	store_done(s, ST_CONSUMER_GET);
	return rc;
}

int request_export(struct ledger *l, struct request *r, struct err *e)
{
	struct consumer c = { 0 };
	uint64_t cursor = 0;

	if (read_consumer(r->body, export_fields, ARRAY_SIZE(export_fields), &c, e) < 0)
		return -e->code;
	const struct value name = value_text(c.name);
	if (store_run(&l->store, ST_CONSUMER_NEW, &name, 1, e) < 0 ||
	    cursor_of(&l->store, c.name, &cursor, e) < 0)
		return -e->code;
	json_t *rows = json_array();
	r->result = json_pack("{s:o, s:I}", "rows", rows, "acknowledged", (json_int_t)cursor);
	if (!r->result)
		return err_set(e, ENOMEM, "export: out of memory");
	const struct value v[] = { value_int((int64_t)cursor), value_int(c.limit) };
	int rc = c.limit ? store_select(&l->store, ST_ROWS_ALL, v, 2, e) : 0;
	if (rc == 1)
		rc = collect(&l->store, ST_ROWS_ALL, true, false, rows, e);
	return rc < 0 ? rc : 0;
}

int request_ack(struct ledger *l, struct request *r, struct err *e)
{
	struct consumer c = { 0 };
	uint64_t cursor;

	if (read_consumer(r->body, ack_fields, ARRAY_SIZE(ack_fields), &c, e) < 0)
		return -e->code;
	int rc = cursor_of(&l->store, c.name, &cursor, e);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return err_set(e, EEXIST, "no such consumer has exported");
	if (c.sequence > l->store.head.sequence)
		return err_set(e, EEXIST, "the last row is %llu",
			       (unsigned long long)l->store.head.sequence);
	const struct value v[] = { value_text(c.name), value_int((int64_t)c.sequence) };
	rc = store_run(&l->store, ST_CONSUMER_SET, v, 2, e);
	return rc < 0 ? rc : 0;
}

int request_export_drop(struct ledger *l, struct request *r, struct err *e)
{
	struct consumer c = { 0 };

	if (read_consumer(r->body, export_fields, 1, &c, e) < 0)
		return -e->code;
	const struct value name = value_text(c.name);
	int rc = store_run(&l->store, ST_CONSUMER_DROP, &name, 1, e);
	return rc < 0 ? rc : 0;
}

struct retain {
	uint64_t before_ms;
};

static const struct json_field retain_fields[] = {
	FIELD(struct retain, before_ms, "beforeMs", FIELD_U64, FIELD_REQUIRED, INT64_MAX / 1000),
};

int request_retain(struct ledger *l, struct request *r, struct err *e)
{
	struct retain q = { 0 };
	uint64_t upto = 0;

	if (json_fields_read(r->body, retain_fields, ARRAY_SIZE(retain_fields), &q, e) < 0)
		return -e->code;
	int n = rows_cut(&l->store, l->keys, (int64_t)q.before_ms * 1000, r->time_us, RETAIN_CHUNK,
			 &upto, e);
	if (n < 0)
		return n;
	r->result = json_pack("{s:i, s:I, s:b}", "removed", n, "upto", (json_int_t)upto, "more",
			      n == RETAIN_CHUNK);
	return r->result ? 0 : err_set(e, ENOMEM, "retention: out of memory");
}

struct verify_fields {
	const json_t *anchor;
};
struct anchor_fields {
	uint64_t sequence;
	char head[DIGEST_HEX_MAX];
};

static const struct json_field verify_fields[] = {
	FIELD(struct verify_fields, anchor, "anchor", FIELD_ANY, 0, 0),
};
static const struct json_field anchor_fields[] = {
	FIELD(struct anchor_fields, sequence, "sequence", FIELD_U64, FIELD_REQUIRED, INT64_MAX),
	FIELD(struct anchor_fields, head, "head", FIELD_TEXT, FIELD_REQUIRED, 0),
};

int request_verify(struct ledger *l, struct request *r, struct err *e)
{
	struct verify_fields f = { 0 };
	struct anchor_fields a = { 0 };
	struct verify_wait w = { .req = r->req };

	if (json_fields_read(r->body, verify_fields, ARRAY_SIZE(verify_fields), &f, e) < 0)
		return -e->code;
	if (f.anchor && !json_is_null(f.anchor)) {
		if (json_fields_read(f.anchor, anchor_fields, ARRAY_SIZE(anchor_fields), &a, e) < 0)
			return -e->code;
		w.anchor.sequence = a.sequence;
		w.has_anchor = true;
		if (digest_unhex(a.head, w.anchor.link, DIGEST_LEN) < 0)
			return err_set(e, EINVAL, "'head' must be 64 hexadecimal digits");
	}
	if (l->verify_waiting == VERIFY_WAITING_MAX)
		return err_set(e, EEXIST, "too many verifications are waiting");
	l->verify[l->verify_waiting++] = w;
	r->is_deferred = true;
	return 0;
}

static void verify_close(struct ledger *l)
{
	audit_verifier_free(l->verifier);
	sqlite3_close(l->reader);
	l->verifier = NULL;
	l->reader = NULL;
}

static int verify_open(struct ledger *l, struct err *e)
{
	const struct verify_wait *w = &l->verify[0];
	const char *bad;
	const struct audit_point *due = keeper_due(&l->keeper, &bad);

	if (store_open_reader(&l->reader, e) < 0)
		return -e->code;
	return audit_verifier_new(l->reader, l->keys, due, bad, w->has_anchor ? &w->anchor : NULL,
				  &l->verifier, e);
}

/* A database that cannot even be opened is a verdict too. */
static json_t *unreadable(const struct err *why)
{
	struct audit_result r;

	audit_result_unreadable(&r, why->msg);
	return audit_result_json(&r);
}

bool verify_turn(struct ledger *l, uint64_t *ret_req, json_t **ret_result)
{
	struct err e;

	*ret_result = NULL;
	if (l->verify_waiting == 0)
		return false;
	if (!l->verifier && verify_open(l, &e) < 0)
		*ret_result = unreadable(&e);
	else if (audit_verifier_step(l->verifier, 2000))
		return true;
	else
		*ret_result = audit_result_json(audit_verifier_result(l->verifier));
	*ret_req = l->verify[0].req;
	verify_close(l);
	memmove(l->verify, l->verify + 1, --l->verify_waiting * sizeof(l->verify[0]));
	return l->verify_waiting > 0;
}

void verify_abandon(struct ledger *l)
{
	verify_close(l);
	l->verify_waiting = 0;
}

static uint64_t number(struct ledger *l, enum store_statement id, uint64_t if_null)
{
	struct err ignored;
	uint64_t n = if_null;

	if (!l->store.db)
		return if_null;
	if (store_select(&l->store, id, NULL, 0, &ignored) == 1 &&
	    sqlite3_column_type(store_row(&l->store, id), 0) == SQLITE_INTEGER)
		n = (uint64_t)sqlite3_column_int64(store_row(&l->store, id), 0);
	store_done(&l->store, id);
	return n;
}

static json_t *guards_json(uint32_t missing)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < MISSING_COUNT; i++)
		if (missing & (1u << i))
			json_array_append_new(list, json_string(confine_missing_name(i)));
	return list;
}

int request_health(struct ledger *l, struct request *r, struct err *e)
{
	uint64_t last = l->store.head.sequence;
	struct stat st;
	const struct {
		const char *key;
		uint64_t n;
	} numbers[] = {
		{ "lastSequence", last },
		{ "written", l->count.written },
		{ "suppressed", l->count.suppressed },
		{ "spooled", l->count.spooled },
		{ "spoolPending", spool_pending(&l->spool) },
		{ "lost", l->spool.lost },
		{ "failures", l->count.failures },
		{ "refused", l->count.refused },
		{ "intentsOpen", number(l, ST_INTENTS_COUNT, 0) },
		{ "outcomeUnknown", l->count.outcome_unknown },
		{ "exportPending", last - number(l, ST_CONSUMERS_LEAST, last) },
		{ "dbBytes", stat(store_db, &st) == 0 ? (uint64_t)st.st_size : 0 },
		{ "cut", number(l, ST_CUT_READ, 0) },
	};

	if (json_object_size(r->body) != 0)
		return err_set(e, EINVAL, "health asks for nothing");
	r->result = json_object();
	int bad = json_add_text(r->result, "mode", l->is_required ? "required" : "default");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		bad |= json_add_u64(r->result, numbers[i].key, numbers[i].n);
	bad |= json_object_set_new(r->result, "storeOk", json_boolean(l->store.db && !l->down_until_ms));
	bad |= json_object_set_new(r->result, "checkpointOk", json_boolean(!l->keeper.is_frozen));
	bad |= json_object_set_new(r->result, "guardsMissing", guards_json(l->guards_missing));
	return bad ? err_set(e, ENOMEM, "health: out of memory") : 0;
}
