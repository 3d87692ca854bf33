/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the rows in order and re-computes every link. Writes nothing, repairs
 * nothing, and stops at the first thing that is wrong.
 */
#include "audit/verify.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "audit/schema.h"
#include "digest/secrets.h"
#include "json/json.h"

struct audit_verifier {
	sqlite3 *db; /* borrowed */
	sqlite3_stmt *rows;
	const struct secret_set *keys;
	struct audit_point due, anchor;
	bool has_due, has_anchor, is_done;
	struct audit_result r;
};

static const char *const verdict_names[] = {
	[VERDICT_UNREADABLE] = "unreadable",   [VERDICT_OK] = "ok",
	[VERDICT_ALTERED] = "altered",	       [VERDICT_MISSING] = "missing",
	[VERDICT_UNKNOWN_KEY] = "unknown_key", [VERDICT_BAD_CUT] = "bad_cut",
	[VERDICT_TRUNCATED] = "truncated",     [VERDICT_ROLLED_BACK] = "rolled_back",
	[VERDICT_BAD_CHECKPOINT] = "bad_checkpoint",
};

const char *audit_verdict_name(enum audit_verdict v)
{
	return (size_t)v < ARRAY_SIZE(verdict_names) ? verdict_names[v] : "unreadable";
}

/* A database's own words may be in it: an answer and a terminal get ASCII. */
static void set_text(struct audit_result *r, const char *text)
{
	size_t n = 0;

	for (; text[n] && n < sizeof(r->text) - 1; n++)
		r->text[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	r->text[n] = '\0';
}

void audit_result_unreadable(struct audit_result *ret, const char *why)
{
	*ret = (struct audit_result){ .verdict = VERDICT_UNREADABLE };
	set_text(ret, why);
}

__attribute__((format(printf, 4, 5))) static bool end(struct audit_verifier *v,
						      enum audit_verdict verdict, uint64_t row,
						      const char *fmt, ...)
{
	char text[sizeof(v->r.text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	set_text(&v->r, text);
	v->r.verdict = verdict;
	v->r.row = row;
	v->is_done = true;
	sqlite3_reset(v->rows);
	sqlite3_exec(v->db, "ROLLBACK", NULL, NULL, NULL);
	return false;
}

static bool end_unreadable(struct audit_verifier *v)
{
	return end(v, VERDICT_UNREADABLE, v->r.last.sequence + 1, "after row %llu: %s",
		   (unsigned long long)v->r.last.sequence, sqlite3_errmsg(v->db));
}

static bool blob_into(sqlite3_stmt *s, int i, uint8_t ret[DIGEST_LEN])
{
	if (sqlite3_column_type(s, i) != SQLITE_BLOB || sqlite3_column_bytes(s, i) != DIGEST_LEN)
		return false;
	memcpy(ret, sqlite3_column_blob(s, i), DIGEST_LEN);
	return true;
}

/* 1: there is one and it is ours; 0: none; -EBADMSG: there is one and it is not; else -errno. */
static int read_cut(sqlite3 *db, const struct secret_set *keys, struct audit_cut *ret,
		    struct err *e)
{
	sqlite3_stmt *s = NULL;
	uint8_t mac[DIGEST_LEN];
	int rc = -EBADMSG;

	if (sqlite3_prepare_v2(db, "SELECT upto, chain, timeUs, keyVersion, mac FROM cut", -1, &s,
			       NULL) != SQLITE_OK)
		return audit_db_error(db, "cut", e);
	int step = sqlite3_step(s);
	if (step == SQLITE_ROW) {
		struct audit_cut c = {
			.upto.sequence = (uint64_t)sqlite3_column_int64(s, 0),
			.time_us = sqlite3_column_int64(s, 2),
			.key_version = (uint32_t)sqlite3_column_int64(s, 3),
		};
		const struct secret *key = secrets_version(keys, c.key_version);
		if (key && blob_into(s, 1, c.upto.link) && blob_into(s, 4, c.mac)) {
			audit_cut_mac(key, &c, mac);
			if (digest_equal(mac, c.mac, DIGEST_LEN)) {
				*ret = c;
				rc = 1;
			}
		}
	} else {
		rc = step == SQLITE_DONE ? 0 : audit_db_error(db, "cut", e);
	}
	sqlite3_finalize(s);
	return rc;
}

static int prepare(struct audit_verifier *v, struct err *e)
{
	char sql[400];

	snprintf(sql, sizeof(sql), "SELECT %s FROM rows ORDER BY sequence", audit_row_columns);
	if (sqlite3_exec(v->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
		return audit_db_error(v->db, "ledger", e);
	if (audit_db_check_tables(v->db, e) < 0)
		return -e->code;
	if (sqlite3_prepare_v2(v->db, sql, -1, &v->rows, NULL) != SQLITE_OK)
		return audit_db_error(v->db, "ledger", e);
	return 0;
}

int audit_verifier_new(sqlite3 *db, const struct secret_set *keys, const struct audit_point *due,
		       const char *bad_checkpoint, const struct audit_point *anchor,
		       struct audit_verifier **ret, struct err *e)
{
	auto_(audit_verifier) v = calloc(1, sizeof(*v));

	if (!v)
		return err_set(e, ENOMEM, "verify: out of memory");
	v->db = db;
	v->keys = keys;
	if (due) {
		v->due = *due;
		v->r.checkpoint = *due;
		v->has_due = v->r.has_checkpoint = true;
	}
	if (anchor) {
		v->anchor = *anchor;
		v->has_anchor = v->r.has_anchor = true;
	}
	audit_genesis(v->r.last.link);
	if (prepare(v, e) < 0) {
		end(v, VERDICT_UNREADABLE, 0, "%s", e->msg);
	} else if (bad_checkpoint) {
		end(v, VERDICT_BAD_CHECKPOINT, 0, "%s", bad_checkpoint);
	} else {
		int rc = read_cut(db, keys, &v->r.cut, e);
		v->r.has_cut = rc == 1;
		if (v->r.has_cut)
			v->r.last = v->r.cut.upto;
		else if (rc == -EBADMSG)
			end(v, VERDICT_BAD_CUT, 0, "the cut was not made by this ledger");
		else if (rc < 0)
			end(v, VERDICT_UNREADABLE, 0, "%s", e->msg);
	}
	*ret = take_ptr(v);
	return 0;
}

bool audit_row_columns_read(sqlite3_stmt *s, struct audit_row *row, uint8_t chain[DIGEST_LEN])
{
	row->sequence = (uint64_t)sqlite3_column_int64(s, FIELD_SEQUENCE);
	row->time_us = sqlite3_column_int64(s, FIELD_TIME);
	row->key_version = (uint32_t)sqlite3_column_int64(s, FIELD_KEY_VERSION);
	for (int i = 0; i < AUDIT_COLUMNS; i++) {
		int type = sqlite3_column_type(s, FIELD_COLUMNS + i);
		if (type != SQLITE_TEXT && !(type == SQLITE_NULL && i == COL_RUN))
			return false;
		row->col[i].s = (const char *)sqlite3_column_text(s, FIELD_COLUMNS + i);
		row->col[i].len = (size_t)sqlite3_column_bytes(s, FIELD_COLUMNS + i);
		if (type == SQLITE_TEXT && !row->col[i].s)
			return false;
	}
	return blob_into(s, FIELD_CHAIN, chain) &&
	       sqlite3_column_int64(s, FIELD_KEY_VERSION) == row->key_version;
}

/* The chain has reached @p, or passed it by the cut. False: it is another history. */
static bool agrees(const struct audit_verifier *v, const struct audit_point *p)
{
	return v->r.last.sequence != p->sequence ||
	       digest_equal(v->r.last.link, p->link, DIGEST_LEN);
}

static bool end_rolled_back(struct audit_verifier *v, const char *who)
{
	return end(v, VERDICT_ROLLED_BACK, v->r.last.sequence,
		   "row %llu is not the one %s saw there: an older database went on from before it",
		   (unsigned long long)v->r.last.sequence, who);
}

static bool check_points(struct audit_verifier *v)
{
	if (v->has_due && !agrees(v, &v->due))
		return end_rolled_back(v, "the checkpoint");
	if (v->has_anchor && !agrees(v, &v->anchor))
		return end_rolled_back(v, "the anchor");
	return true;
}

static bool check_row(struct audit_verifier *v)
{
	uint64_t expected = v->r.last.sequence + 1;
	uint8_t chain[DIGEST_LEN], link[DIGEST_LEN];
	struct audit_row row;
	bool typed = audit_row_columns_read(v->rows, &row, chain);
	unsigned long long at = row.sequence;

	if (row.sequence < expected || (int64_t)row.sequence < 1)
		return end(v, VERDICT_ALTERED, row.sequence, "row %llu lies before the chain's start", at);
	if (row.sequence > expected)
		return end(v, VERDICT_MISSING, expected, "row %llu is missing",
			   (unsigned long long)expected);
	const struct secret *key = secrets_version(v->keys, row.key_version);
	if (typed && !key)
		return end(v, VERDICT_UNKNOWN_KEY, row.sequence, "row %llu is under key %u", at,
			   row.key_version);
	if (!typed || audit_row_link(key, v->r.last.link, &row, link) < 0 ||
	    !digest_equal(link, chain, DIGEST_LEN))
		return end(v, VERDICT_ALTERED, row.sequence, "row %llu was changed, moved or put in", at);
	memcpy(v->r.last.link, chain, DIGEST_LEN);
	v->r.last.sequence = row.sequence;
	if (v->r.rows++ == 0)
		v->r.first = row.sequence;
	return check_points(v);
}

static bool check_end(struct audit_verifier *v)
{
	uint64_t last = v->r.last.sequence;

	if (v->has_due && last < v->due.sequence)
		return end(v, VERDICT_TRUNCATED, last + 1,
			   "rows %llu to %llu are gone: the tail was cut or an older database restored",
			   (unsigned long long)last + 1, (unsigned long long)v->due.sequence);
	if (v->has_anchor && last < v->anchor.sequence)
		return end(v, VERDICT_ROLLED_BACK, last + 1,
			   "the anchor saw row %llu: database and checkpoint are older",
			   (unsigned long long)v->anchor.sequence);
	v->r.is_anchor_cut = v->has_anchor && v->r.has_cut &&
			     v->anchor.sequence < v->r.cut.upto.sequence;
	return end(v, VERDICT_OK, 0, "%llu rows", (unsigned long long)v->r.rows);
}

bool audit_verifier_step(struct audit_verifier *v, unsigned rows)
{
	if (v->is_done || (v->r.rows == 0 && !check_points(v)))
		return false;
	for (unsigned i = 0; i < rows; i++) {
		int rc = sqlite3_step(v->rows);
		if (rc == SQLITE_DONE)
			return check_end(v);
		if (rc != SQLITE_ROW)
			return end_unreadable(v);
		if (!check_row(v))
			return false;
	}
	return true;
}

const struct audit_result *audit_verifier_result(const struct audit_verifier *v)
{
	return &v->r;
}

void audit_verifier_free(struct audit_verifier *v)
{
	if (!v)
		return;
	sqlite3_finalize(v->rows);
	if (!v->is_done)
		sqlite3_exec(v->db, "ROLLBACK", NULL, NULL, NULL);
	free(v);
}

static int add_u64_or_null(json_t *o, const char *key, bool there, uint64_t n)
{
	return json_object_set_new(o, key, there ? json_integer((json_int_t)n) : json_null());
}

static json_t *cut_json(const struct audit_cut *c)
{
	char time[AUDIT_TIME_MAX];

	audit_time_text(c->time_us, time);
	return json_pack("{s:I, s:s}", "upto", (json_int_t)c->upto.sequence, "time", time);
}

json_t *audit_result_json(const struct audit_result *r)
{
	char head[DIGEST_HEX_MAX];
	auto_json json_t *o = json_object();
	const char *anchor = !r->has_anchor		  ? NULL :
			     r->verdict != VERDICT_OK ? "failed" :
			     r->is_anchor_cut		  ? "before_cut" :
							    "matched";
	int bad = 0;

	digest_hex(r->last.link, DIGEST_LEN, head);
	bad |= json_object_set_new(o, "ok", json_boolean(r->verdict == VERDICT_OK));
	bad |= json_add_text(o, "verdict", audit_verdict_name(r->verdict));
	bad |= add_u64_or_null(o, "row", r->row > 0, r->row);
	bad |= json_add_text(o, "text", r->text);
	bad |= json_add_u64(o, "rows", r->rows);
	bad |= json_add_u64(o, "first", r->first);
	bad |= json_add_u64(o, "last", r->last.sequence);
	bad |= json_add_text(o, "head", head);
	bad |= json_object_set_new(o, "cut", r->has_cut ? cut_json(&r->cut) : json_null());
	bad |= add_u64_or_null(o, "checkpoint", r->has_checkpoint, r->checkpoint.sequence);
	bad |= json_add_text(o, "anchor", anchor);
	return bad ? NULL : take_ptr(o);
}
