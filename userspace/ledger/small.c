/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small durable things that are no rows: voucher nonces, the run registry, the
 * broker's open jobs. They live here because this is the process with a disk.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "digest/digest.h"
#include "json/json.h"
#include "ledger/admit.h"
#include "ledger/ledger.h"

enum {
	NONCE_SKEW_MS = 5000,
	LIST_LIMIT_MAX = 1000,
	KIND_MAX = 16,
	LIST_ROOM = LEDGER_JSON_MAX - 512,
};

struct nonce {
	const char *nonce;
	uint64_t exp_ms;
};

static const struct json_field nonce_fields[] = {
	FIELD(struct nonce, nonce, "nonce", FIELD_PTR, FIELD_REQUIRED, AUDIT_TEXT_MAX),
	FIELD(struct nonce, exp_ms, "expMs", FIELD_U64, FIELD_REQUIRED, 1ULL << 53),
};

/* Expired ones go first, then the rest is counted: full means refuse (never forget a live one). */
static int make_room(struct ledger *l, int64_t now_ms, bool *ret_full, struct err *e)
{
	const struct value now = value_int(now_ms);
	int gone = store_run(&l->store, ST_NONCES_PRUNE, &now, 1, e);

	if (gone < 0)
		return gone;
	if (l->nonces < 0) {
		if (store_select(&l->store, ST_NONCES_COUNT, NULL, 0, e) < 0)
			return -e->code;
		l->nonces = sqlite3_column_int64(store_row(&l->store, ST_NONCES_COUNT), 0);
		store_done(&l->store, ST_NONCES_COUNT);
	} else {
		l->nonces -= gone;
	}
	*ret_full = l->nonces >= NONCES_MAX;
	return 0;
}

int request_nonce(struct ledger *l, struct request *r, struct err *e)
{
	struct nonce n = { 0 };
	uint8_t hash[DIGEST_LEN];
	bool is_full = true;
	const char *state = "capacity";

	if (json_fields_read(r->body, nonce_fields, ARRAY_SIZE(nonce_fields), &n, e) < 0)
		return -e->code;
	if (!admit_is_text(n.nonce))
		return err_set(e, EINVAL, "'nonce' has a value that is not admitted");
	if (make_room(l, r->time_us / 1000, &is_full, e) < 0)
		return -e->code;
	digest_sha256(n.nonce, strlen(n.nonce), hash);
	if (!is_full) {
		const struct value v[] = {
			value_blob(hash, sizeof(hash)),
			value_int((int64_t)n.exp_ms + NONCE_SKEW_MS),
		};
		int added = store_run(&l->store, ST_NONCE_ADD, v, 2, e);
		if (added < 0)
			return added;
		l->nonces += added;
		state = added ? "new" : "replayed";
	}
	r->result = json_pack("{s:s}", "state", state);
	return r->result ? 0 : err_set(e, ENOMEM, "nonce: out of memory");
}

struct run {
	const char *run, *org, *user, *state;
};

static const struct json_field run_fields[] = {
	FIELD(struct run, run, "runId", FIELD_PTR, FIELD_REQUIRED, AUDIT_TEXT_MAX),
	FIELD(struct run, org, "orgId", FIELD_PTR, FIELD_REQUIRED, AUDIT_TEXT_MAX),
	FIELD(struct run, user, "userId", FIELD_PTR, FIELD_REQUIRED, AUDIT_TEXT_MAX),
	FIELD(struct run, state, "state", FIELD_PTR, FIELD_REQUIRED, 16),
};

int request_run_set(struct ledger *l, struct request *r, struct err *e)
{
	struct run q = { 0 };

	if (json_fields_read(r->body, run_fields, ARRAY_SIZE(run_fields), &q, e) < 0)
		return -e->code;
	if (!admit_is_text(q.run) || !admit_is_text(q.org) || !admit_is_text(q.user) ||
	    (strcmp(q.state, "alive") && strcmp(q.state, "archived") && strcmp(q.state, "gone")))
		return err_set(e, EINVAL, "a run has a value that is not admitted");
	const struct value v[] = { value_text(q.run), value_text(q.org), value_text(q.user),
				   value_text(q.state) };
	int rc = store_run(&l->store, ST_RUN_SET, v, 4, e);
	return rc < 0 ? rc : 0;
}

static int run_name(const json_t *body, const char **ret, struct err *e)
{
	struct run q = { 0 };

	if (json_fields_read(body, run_fields, 1, &q, e) < 0)
		return -e->code;
	*ret = q.run;
	return 0;
}

int request_run_get(struct ledger *l, struct request *r, struct err *e)
{
	const char *name = NULL;

	if (run_name(r->body, &name, e) < 0)
		return -e->code;
	const struct value v = value_text(name);
	int rc = store_select(&l->store, ST_RUN_GET, &v, 1, e);
	if (rc < 0)
		return rc;
	sqlite3_stmt *row = store_row(&l->store, ST_RUN_GET);
	r->result = json_object();
	int bad = json_object_set_new(r->result, "known", json_boolean(rc == 1));
	bad |= json_add_text(r->result, "orgId", rc == 1 ? store_text(row, 1) : NULL);
	bad |= json_add_text(r->result, "userId", rc == 1 ? store_text(row, 2) : NULL);
	bad |= json_add_text(r->result, "state", rc == 1 ? store_text(row, 3) : NULL);
	store_done(&l->store, ST_RUN_GET);
	return bad ? err_set(e, ENOMEM, "run: out of memory") : 0;
}

int request_run_drop(struct ledger *l, struct request *r, struct err *e)
{
	const char *name = NULL;

	if (run_name(r->body, &name, e) < 0)
		return -e->code;
	const struct value v = value_text(name);
	int rc = store_run(&l->store, ST_RUN_DROP, &v, 1, e);
	return rc < 0 ? rc : 0;
}

struct list {
	const char *kind, *after;
	uint32_t limit;
};

static const struct json_field list_fields[] = {
	FIELD(struct list, after, "after", FIELD_PTR, FIELD_REQUIRED, AUDIT_TEXT_MAX),
	FIELD(struct list, limit, "limit", FIELD_U32, FIELD_REQUIRED, LIST_LIMIT_MAX),
	FIELD(struct list, kind, "kind", FIELD_PTR, 0, KIND_MAX),
};

static json_t *run_item(sqlite3_stmt *row)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "runId", store_text(row, 0), "orgId",
			 store_text(row, 1), "userId", store_text(row, 2), "state",
			 store_text(row, 3));
}

static json_t *kept_item(sqlite3_stmt *row)
{
	struct err ignored;
	const char *text = store_text(row, 1);
	json_t *value = text ? json_parse_strict(text, strlen(text), JSON_DEPTH, &ignored) : NULL;

	return json_pack("{s:s, s:o}", "key", store_text(row, 0), "value",
			 value ? value : json_null());
}

/* Items of an open statement, as many as fit, and the name to go on after. */
static int list_answer(struct ledger *l, struct request *r, enum store_statement id, int rc,
		       uint32_t limit, const char *array, json_t *(*item)(sqlite3_stmt *row),
		       struct err *e)
{
	json_t *items = json_array(), *next = NULL;
	size_t room = LIST_ROOM;

	r->result = json_pack("{s:o, s:n}", array, items, "next");
	for (; r->result && rc == 1; rc = store_next(&l->store, id, e)) {
		size_t len = 0;
		json_t *one = item(store_row(&l->store, id));
		autofree char *text = one ? json_dump_compact(one, &len) : NULL;
		if (!text || len + 1 > room) {
			json_decref(one);
			break;
		}
		room -= len + 1;
		json_array_append_new(items, one);
		json_decref(next);
		next = json_string(store_text(store_row(&l->store, id), 0));
	}
	store_done(&l->store, id);
	if (rc == 1 || (rc == 0 && json_array_size(items) == limit))
		json_object_set(r->result, "next", next);
	json_decref(next);
	return rc < 0 ? rc : r->result ? 0 : err_set(e, ENOMEM, "list: out of memory");
}

int request_run_list(struct ledger *l, struct request *r, struct err *e)
{
	struct list q = { 0 };

	if (json_fields_read(r->body, list_fields, 2, &q, e) < 0)
		return -e->code;
	const struct value v[] = { value_text(q.after), value_int(q.limit) };
	int rc = store_select(&l->store, ST_RUN_LIST, v, 2, e);
	return rc < 0 ? rc : list_answer(l, r, ST_RUN_LIST, rc, q.limit, "runs", run_item, e);
}

static int check_kind(const char *kind, struct err *e)
{
	size_t n = kind ? strspn(kind, "abcdefghijklmnopqrstuvwxyz") : 0;

	return n && !kind[n] ? 0 : err_set(e, EINVAL, "'kind' has a value that is not admitted");
}

int request_kept(struct ledger *l, struct request *r, struct err *e)
{
	struct list q = { 0 };

	if (json_fields_read(r->body, list_fields, 3, &q, e) < 0 || check_kind(q.kind, e) < 0)
		return -e->code;
	const struct value v[] = { value_text(q.kind), value_text(q.after), value_int(q.limit) };
	int rc = store_select(&l->store, ST_KEPT_LIST, v, 3, e);
	return rc < 0 ? rc : list_answer(l, r, ST_KEPT_LIST, rc, q.limit, "items", kept_item, e);
}

struct keep {
	const char *kind, *key;
	const json_t *value;
};

static const struct json_field keep_fields[] = {
	FIELD(struct keep, kind, "kind", FIELD_PTR, FIELD_REQUIRED, KIND_MAX),
	FIELD(struct keep, key, "key", FIELD_PTR, FIELD_REQUIRED, ID_COMMAND_MAX),
	FIELD(struct keep, value, "value", FIELD_ANY, FIELD_REQUIRED, 0),
};

int request_keep(struct ledger *l, struct request *r, struct err *e)
{
	struct keep q = { 0 };
	size_t len = 0;
	int rc;

	if (json_fields_read(r->body, keep_fields, ARRAY_SIZE(keep_fields), &q, e) < 0 ||
	    check_kind(q.kind, e) < 0)
		return -e->code;
	if (!admit_is_id(q.key, ID_COMMAND_MAX))
		return err_set(e, EINVAL, "'key' has a value that is not admitted");
	if (json_is_null(q.value)) {
		const struct value v[] = { value_text(q.kind), value_text(q.key) };
		rc = store_run(&l->store, ST_KEEP_DROP, v, 2, e);
		return rc < 0 ? rc : 0;
	}
	if (!json_is_object(q.value))
		return err_set(e, EINVAL, "'value' must be an object or null");
	autofree char *text = json_dump_compact(q.value, &len);
	if (!text)
		return err_set(e, ENOMEM, "keep: out of memory");
	if (len > LEDGER_KEEP_MAX)
		return err_set(e, EINVAL, "'value' is longer than %d bytes", LEDGER_KEEP_MAX);
	const struct value v[] = { value_text(q.kind), value_text(q.key), value_text(text) };
	rc = store_run(&l->store, ST_KEEP_SET, v, 3, e);
	return rc < 0 ? rc : 0;
}
