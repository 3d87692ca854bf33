/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that end in a chained row: rows, intents and what becomes of them,
 * receipts, names of commands. Everything here runs inside a transaction that
 * serve.c commits or puts back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "digest/digest.h"
#include "digest/secrets.h"
#include "json/json.h"
#include "ledger/ledger.h"
#include "ledger/rows.h"
#include "policy/reason.h"

/*
 * Is the receipt kept under this name the very one that came now? Only then was
 * the row written before. Another one was put there by somebody, and must not
 * make a row go missing.
 */
static int is_kept_receipt(struct ledger *l, const struct row_message *m, const char *raw,
			   struct err *e)
{
	const struct value v[] = { value_text(m->row.job), value_text(m->command_id) };
	size_t len = m->receipt_to - m->receipt_from;
	int rc = store_select(&l->store, ST_RECEIPT_GET, v, 2, e);

	if (rc == 1) {
		sqlite3_stmt *row = store_row(&l->store, ST_RECEIPT_GET);
		const char *text = store_text(row, 0);
		rc = text && (size_t)sqlite3_column_bytes(row, 0) == len &&
		     !memcmp(text, raw + m->receipt_from, len);
	}
	store_done(&l->store, ST_RECEIPT_GET);
	return rc;
}

/*
 * @raw: the message as it came; the receipt is kept as it stands there. 1: go on
 * with the row; 0: receipt and row had been written before.
 */
static int add_receipt(struct ledger *l, const struct row_message *m, const char *raw,
		       struct err *e)
{
	const struct value v[] = {
		value_text(m->row.job),
		value_text(m->command_id),
		value_int((int64_t)l->store.head.sequence + 1),
		value_text(m->row.organization),
		value_text(m->row.actor),
		{ VALUE_TEXT, m->receipt_to - m->receipt_from, raw + m->receipt_from },
		value_text(m->envelope),
	};
	int rc = store_run(&l->store, ST_RECEIPT_ADD, v, ARRAY_SIZE(v), e);
	if (rc != 0)
		return rc;
	rc = is_kept_receipt(l, m, raw, e);
	if (rc == 0)
		log_error("receipt_conflict", "another receipt is kept under the name of a command");
	return rc < 0 ? rc : rc == 0;
}

/* A claimed name learns how its command ended; any other name is not kept. */
static int end_command(struct ledger *l, const struct admitted *row, const char *command_id,
		       struct err *e)
{
	const struct value v[] = {
		value_text(row->job),
		value_text(command_id),
		value_text(row->decision),
		value_text(row->meta.termination),
		row->meta.exit_code < 0 ? (struct value){ 0 } : value_int(row->meta.exit_code),
	};
	return store_run(&l->store, ST_COMMAND_END, v, ARRAY_SIZE(v), e);
}

/* 1: written; 0: it had been written before. */
static int write_row(struct ledger *l, const struct row_message *m, const char *raw,
		     int64_t time_us, struct err *e)
{
	int rc;

	if (m->intent) {
		const struct value id = value_int((int64_t)m->intent);
		rc = store_run(&l->store, ST_INTENT_END, &id, 1, e);
		if (rc <= 0)
			return rc;
	}
	if (m->receipt_to) {
		rc = add_receipt(l, m, raw, e);
		if (rc <= 0)
			return rc;
	}
	rc = rows_append(&l->store, secrets_current(l->keys), &m->row, time_us, e);
	if (rc == 0 && m->command_id)
		rc = end_command(l, &m->row, m->command_id, e);
	return rc < 0 ? rc : 1;
}

int request_row(struct ledger *l, struct request *r, struct err *e)
{
	if (r->is_suppressed) {
		r->count.suppressed = 1;
		return 0;
	}
	int rc = write_row(l, &r->row, r->raw, r->time_us, e);
	if (rc == 1)
		r->count.written = 1;
	return rc < 0 ? rc : 0;
}

int record_spooled(void *ctx, int64_t time_us, const char *raw, size_t len, struct err *e)
{
	struct ledger *l = ctx;
	struct row_message m;
	struct err why;
	autofree char *text = strndup(raw, len);

	if (!text)
		return err_set(e, ENOMEM, "spool: out of memory");
	if (admit_row_message(text, len, &m, &why) < 0) {
		l->spool.lost++;
		return 0;
	}
	int rc = write_row(l, &m, raw, time_us, e);
	return rc < 0 ? rc : 0;
}

static void add_sized(struct digest *d, const char *s)
{
	uint32_t len = s ? (uint32_t)strlen(s) : UINT32_MAX;

	digest_add(d, &len, sizeof(len));
	if (s)
		digest_add(d, s, len);
}

bool record_is_repetition(struct ledger *l, const struct admitted *row)
{
	uint8_t key[DIGEST_LEN];

	if (l->is_required || strcmp(row->decision, "denied") != 0)
		return false;
	auto_(digest) d = digest_new();
	if (!d)
		return false; /* written, then */
	add_sized(d, row->organization);
	add_sized(d, row->actor);
	add_sized(d, row->job);
	add_sized(d, row->meta.reason);
	digest_end(d, key);
	return suppress_check(&l->suppress, key, clock_monotonic_ms());
}

/* An intent that somebody put into the table must not become a row of ours. */
static int intent_mac(const struct secret *key, int64_t id, int64_t time_us, const char *broker,
		      const char *body, uint8_t ret[DIGEST_LEN])
{
	static const char label[] = "cordon-ledger-intent-1";
	auto_(digest) d = digest_new();
	uint8_t inner[DIGEST_LEN];

	if (!d)
		return -ENOMEM;
	digest_add(d, label, sizeof(label));
	digest_add(d, &id, sizeof(id));
	digest_add(d, &time_us, sizeof(time_us));
	add_sized(d, broker);
	add_sized(d, body);
	digest_end(d, inner);
	digest_hmac_sha256(key->key, key->len, inner, sizeof(inner), ret);
	return 0;
}

/* Random, so that the number of an intent long settled is never given again. */
static int new_intent_id(int64_t *ret, struct err *e)
{
	uint64_t raw;

	if (digest_random(&raw, sizeof(raw)) < 0)
		return err_set(e, EIO, "intent: no random bytes");
	*ret = (int64_t)(raw & ((1ULL << 52) - 1)) + 1;
	return 0;
}

int request_intent(struct ledger *l, struct request *r, struct err *e)
{
	const struct secret *key = secrets_current(l->keys);
	uint8_t mac[DIGEST_LEN];
	int64_t id = 0;

	if (r->row.intent || r->row.receipt_to)
		return err_set(e, EINVAL, "an intent is a row and a 'commandId'");
	if (new_intent_id(&id, e) < 0)
		return -e->code;
	if (intent_mac(key, id, r->time_us, l->broker, r->raw, mac) < 0)
		return err_set(e, ENOMEM, "intent: out of memory");
	const struct value v[] = {
		value_int(id),	  value_int(r->time_us),   value_text(l->broker),
		value_text(r->raw), value_int(key->version), value_blob(mac, DIGEST_LEN),
	};
	if (store_run(&l->store, ST_INTENT_ADD, v, ARRAY_SIZE(v), e) < 0)
		return -e->code;
	r->result = json_pack("{s:I}", "intent", (json_int_t)id);
	return r->result ? 0 : err_set(e, ENOMEM, "intent: out of memory");
}

static bool has_receipt(struct ledger *l, const char *job, const char *command_id, struct err *e)
{
	const struct value v[] = { value_text(job), value_text(command_id) };
	int rc = store_select(&l->store, ST_RECEIPT_GET, v, 2, e);

	store_done(&l->store, ST_RECEIPT_GET);
	return rc == 1;
}

/* The row of a command whose end nobody saw. 1: written. */
static int write_unknown(struct ledger *l, const char *raw, int64_t time_us, struct err *e)
{
	struct row_message m;
	struct err why;
	autofree char *text = strdup(raw);

	if (!text)
		return err_set(e, ENOMEM, "intent: out of memory");
	if (admit_row_message(text, strlen(text), &m, &why) < 0)
		return 0;
	if (m.command_id && has_receipt(l, m.row.job, m.command_id, e))
		return 0; /* it has its row: this intent was put back by somebody */
	m.row.decision = "allowed";
	m.row.meta.termination = termination_code(TERMINATION_WORKER_ERROR);
	m.row.meta.reason = reason_code(REASON_OUTCOME_UNKNOWN);
	m.row.meta.exit_code = -1;
	return write_row(l, &m, raw, time_us, e);
}

/* One intent of another broker: 1 settled, 0 there is none. */
static int settle_one(struct ledger *l, int64_t time_us, struct counters *count, struct err *e)
{
	const struct value broker = value_text(l->broker);
	uint8_t mac[DIGEST_LEN];
	int rc = store_select(&l->store, ST_INTENTS_OTHER, &broker, 1, e);

	if (rc <= 0)
		return rc;
	sqlite3_stmt *row = store_row(&l->store, ST_INTENTS_OTHER);
	const struct value id = value_int(sqlite3_column_int64(row, 0));
	const char *who = store_text(row, 2), *text = store_text(row, 3);
	const struct secret *key = secrets_version(l->keys, (uint32_t)sqlite3_column_int64(row, 4));
	bool is_ours = key && who && text && sqlite3_column_bytes(row, 5) == DIGEST_LEN &&
		       intent_mac(key, id.n, sqlite3_column_int64(row, 1), who, text, mac) == 0 &&
		       digest_equal(mac, sqlite3_column_blob(row, 5), DIGEST_LEN);
	rc = is_ours ? write_unknown(l, text, time_us, e) : 0;
	store_done(&l->store, ST_INTENTS_OTHER);
	if (rc < 0)
		return rc;
	if (!is_ours)
		log_error("intent_forged", "an intent was not written by this ledger; dropped");
	count->outcome_unknown += (uint64_t)rc;
	count->written += (uint64_t)rc;
	return store_run(&l->store, ST_INTENT_END, &id, 1, e) < 0 ? -e->code : 1;
}

int record_settle(struct ledger *l, int64_t time_us, struct counters *count, struct err *e)
{
	int rc;

	do {
		rc = settle_one(l, time_us, count, e);
	} while (rc == 1);
	return rc;
}

struct hello {
	char broker[BROKER_ID_LEN + 1];
};

static const struct json_field hello_fields[] = {
	FIELD(struct hello, broker, "broker", FIELD_TEXT, FIELD_REQUIRED, 0),
};

int record_hello(struct ledger *l, struct request *r, struct err *e)
{
	struct hello h = { 0 };

	if (json_fields_read(r->body, hello_fields, ARRAY_SIZE(hello_fields), &h, e) < 0)
		return -e->code;
	if (strlen(h.broker) != BROKER_ID_LEN ||
	    strspn(h.broker, "0123456789abcdef") != BROKER_ID_LEN)
		return err_set(e, EINVAL, "'broker' must be %d hexadecimal digits", BROKER_ID_LEN);
	memcpy(l->broker, h.broker, sizeof(h.broker));
	l->is_hello_said = true;
	return 0;
}

int request_hello(struct ledger *l, struct request *r, struct err *e)
{
	int rc = record_hello(l, r, e);

	return rc < 0 ? rc : record_settle(l, r->time_us, &r->count, e);
}

struct name {
	char job[ID_JOB_MAX + 1], command[ID_COMMAND_MAX + 1];
};

static const struct json_field name_fields[] = {
	FIELD(struct name, job, "jobId", FIELD_TEXT, FIELD_REQUIRED, 0),
	FIELD(struct name, command, "commandId", FIELD_TEXT, FIELD_REQUIRED, 0),
};

static int read_name(const json_t *body, struct name *ret, struct err *e)
{
	if (json_fields_read(body, name_fields, ARRAY_SIZE(name_fields), ret, e) < 0)
		return -e->code;
	if (!admit_is_id(ret->job, ID_JOB_MAX) || !admit_is_id(ret->command, ID_COMMAND_MAX))
		return err_set(e, EINVAL, "an id has a value that is not admitted");
	return 0;
}

/* What somebody put into the table is not handed on as a receipt unless it has its shape. */
static json_t *read_receipt(const char *text)
{
	struct err ignored;
	autofree char *copy = text ? strdup(text) : NULL;

	if (!copy || !admit_is_receipt(copy, strlen(copy)))
		return NULL;
	return json_parse_strict(text, strlen(text), 2, &ignored);
}

int request_receipt(struct ledger *l, struct request *r, struct err *e)
{
	struct name n = { 0 };

	if (read_name(r->body, &n, e) < 0)
		return -e->code;
	const struct value v[] = { value_text(n.job), value_text(n.command) };
	int rc = store_select(&l->store, ST_RECEIPT_GET, v, 2, e);
	if (rc < 0)
		return rc;
	sqlite3_stmt *row = store_row(&l->store, ST_RECEIPT_GET);
	json_t *receipt = rc == 1 ? read_receipt(store_text(row, 0)) : NULL;
	const char *envelope = receipt ? store_text(row, 1) : NULL;
	r->result = json_object();
	int bad = json_add_text(r->result, "orgId", receipt ? store_text(row, 2) : NULL);
	bad |= json_add_text(r->result, "userId", receipt ? store_text(row, 3) : NULL);
	bad |= json_add_text(r->result, "envelope",
			     envelope && admit_is_envelope(envelope) ? envelope : NULL);
	bad |= json_object_set_new(r->result, "receipt", receipt ? receipt : json_null());
	store_done(&l->store, ST_RECEIPT_GET);
	return bad ? err_set(e, ENOMEM, "receipt: out of memory") : 0;
}

int request_command_id(struct ledger *l, struct request *r, struct err *e)
{
	struct name n = { 0 };

	if (read_name(r->body, &n, e) < 0)
		return -e->code;
	const struct value v[] = { value_text(n.job), value_text(n.command) };
	int is_new = store_run(&l->store, ST_COMMAND_CLAIM, v, 2, e);
	if (is_new < 0 || store_select(&l->store, ST_COMMAND_GET, v, 2, e) < 0)
		return -e->code;
	sqlite3_stmt *row = store_row(&l->store, ST_COMMAND_GET);
	r->result = json_object();
	int bad = json_object_set_new(r->result, "new", json_boolean(is_new == 1));
	bad |= json_add_text(r->result, "decision", store_text(row, 0));
	bad |= json_add_text(r->result, "termination", store_text(row, 1));
	bad |= json_object_set_new(r->result, "exitCode",
				   sqlite3_column_type(row, 2) == SQLITE_INTEGER ?
					   json_integer(sqlite3_column_int64(row, 2)) :
					   json_null());
	store_done(&l->store, ST_COMMAND_GET);
	return bad ? err_set(e, ENOMEM, "command id: out of memory") : 0;
}
