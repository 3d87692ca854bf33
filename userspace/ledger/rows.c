/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appending, reading and cutting. What may be appended was decided by admit.c,
 * when things are committed by serve.c.
 */
#include "ledger/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "audit/schema.h"
#include "audit/verify.h"
#include "base/scope.h"
#include "digest/secrets.h"
#include "json/json.h"

static void fill(struct audit_row *r, const struct admitted *a, const char *metadata, size_t len)
{
	const char *const values[AUDIT_COLUMNS] = {
		[COL_ORGANIZATION] = a->organization, [COL_ACTOR] = a->actor,
		[COL_RESOURCE] = a->job,	      [COL_DECISION] = a->decision,
		[COL_RUN] = a->run,
	};

	for (int i = 0; i < AUDIT_COLUMNS; i++) {
		r->col[i].s = audit_column_fixed[i] ? audit_column_fixed[i] : values[i];
		r->col[i].len = r->col[i].s ? strlen(r->col[i].s) : 0;
	}
	r->col[COL_METADATA] = (struct audit_text){ metadata, len };
}

static int insert(struct store *s, const struct audit_row *r, const uint8_t link[DIGEST_LEN],
		  struct err *e)
{
	struct value v[FIELD_CHAIN + 1];

	v[FIELD_SEQUENCE] = value_int((int64_t)r->sequence);
	v[FIELD_TIME] = value_int(r->time_us);
	for (int i = 0; i < AUDIT_COLUMNS; i++)
		v[FIELD_COLUMNS + i] = value_span(r->col[i].s, r->col[i].len);
	v[FIELD_KEY_VERSION] = value_int(r->key_version);
	v[FIELD_CHAIN] = value_blob(link, DIGEST_LEN);
	return store_run(s, ST_ROW_ADD, v, FIELD_CHAIN + 1, e);
}

/*
 * Somebody else put a row where ours belongs. Ours goes behind it, still chained
 * to our own last one: the verifier then names the stranger.
 */
static int step_past_stranger(struct store *s, struct err *e)
{
	int rc = store_select(s, ST_ROW_LAST, NULL, 0, e);

	if (rc == 1) {
		uint64_t last = (uint64_t)sqlite3_column_int64(store_row(s, ST_ROW_LAST), 0);
		if (last > s->head.sequence)
			s->head.sequence = last;
	}
	store_done(s, ST_ROW_LAST);
	return rc < 0 ? rc : 0;
}

int rows_append(struct store *s, const struct secret *key, const struct admitted *a,
		int64_t time_us, struct err *e)
{
	char metadata[AUDIT_METADATA_MAX];
	uint8_t link[DIGEST_LEN];
	struct audit_row r = { .time_us = time_us, .key_version = key->version };
	int n = audit_metadata_render(&a->meta, metadata, sizeof(metadata));

	if (n < 0)
		return err_set(e, EINVAL, "row is too large");
	fill(&r, a, metadata, (size_t)n);
	for (int attempt = 0;; attempt++) {
		r.sequence = s->head.sequence + 1;
		if (audit_row_link(key, s->head.link, &r, link) < 0)
			return err_set(e, EINVAL, "row is too large");
		int rc = insert(s, &r, link, e);
		if (rc >= 0)
			break;
		if (rc != -EEXIST || attempt > 0)
			return rc;
		s->is_failed = false;
		if (step_past_stranger(s, e) < 0)
			return -e->code;
	}
	s->head.sequence = r.sequence;
	memcpy(s->head.link, link, DIGEST_LEN);
	return 0;
}

/* Metadata as stored, less everything that is not one of the ten keys or not a plain value. */
static json_t *read_metadata(const char *text, size_t len)
{
	struct err ignored;
	auto_json json_t *in = text ? json_parse_strict(text, len, 2, &ignored) : NULL;
	json_t *out = json_object();

	for (size_t i = 0; out && i < AUDIT_METADATA_KEYS; i++) {
		json_t *v = json_object_get(in, audit_metadata_names[i]);
		bool plain = json_is_string(v) || json_is_integer(v);
		json_object_set_new(out, audit_metadata_names[i],
				    plain ? json_incref(v) : json_null());
	}
	return out;
}

json_t *rows_read(sqlite3_stmt *row, bool with_chain)
{
	char text[DIGEST_HEX_MAX];
	auto_json json_t *o = json_object();
	int bad = 0;

	_Static_assert(DIGEST_HEX_MAX >= (int)AUDIT_TIME_MAX, "one buffer for both");
	audit_time_text(sqlite3_column_int64(row, FIELD_TIME), text);
	bad |= json_add_u64(o, "sequence", (uint64_t)sqlite3_column_int64(row, FIELD_SEQUENCE));
	bad |= json_add_text(o, "time", text);
	for (int i = 0; i < COL_METADATA; i++)
		bad |= json_add_text(o, audit_column_names[i], store_text(row, FIELD_COLUMNS + i));
	bad |= json_object_set_new(
		o, "metadata",
		read_metadata(store_text(row, FIELD_COLUMNS + COL_METADATA),
			      (size_t)sqlite3_column_bytes(row, FIELD_COLUMNS + COL_METADATA)));
	if (with_chain && sqlite3_column_bytes(row, FIELD_CHAIN) == DIGEST_LEN) {
		digest_hex(sqlite3_column_blob(row, FIELD_CHAIN), DIGEST_LEN, text);
		bad |= json_add_u64(o, "keyVersion",
				    (uint64_t)sqlite3_column_int64(row, FIELD_KEY_VERSION));
		bad |= json_add_text(o, "chain", text);
	}
	return bad ? NULL : take_ptr(o);
}

/* The least acknowledged row of all consumers, or INT64_MAX without any. */
static int acknowledged(struct store *s, int64_t *ret, struct err *e)
{
	int rc = store_select(s, ST_CONSUMERS_LEAST, NULL, 0, e);

	if (rc < 0)
		return rc;
	sqlite3_stmt *row = store_row(s, ST_CONSUMERS_LEAST);
	*ret = rc == 1 && sqlite3_column_type(row, 0) == SQLITE_INTEGER ?
		       sqlite3_column_int64(row, 0) :
		       INT64_MAX;
	store_done(s, ST_CONSUMERS_LEAST);
	return 0;
}

/*
 * How far the cut may go; counts the rows on the way. Their links are proven
 * first: a cut over a row that somebody changed would sign the change away.
 */
static int find_cut(struct store *s, const struct secret_set *keys, int64_t before_us,
		    unsigned max, struct audit_point *p, struct err *e)
{
	const struct value limit = value_int(max);
	uint8_t link[DIGEST_LEN], chain[DIGEST_LEN];
	struct audit_row row;
	int64_t most;
	int count = 0;

	if (acknowledged(s, &most, e) < 0)
		return -e->code;
	int rc = store_select(s, ST_ROWS_OLDEST, &limit, 1, e);
	for (; rc == 1; rc = store_next(s, ST_ROWS_OLDEST, e)) {
		bool typed = audit_row_columns_read(store_row(s, ST_ROWS_OLDEST), &row, chain);
		const struct secret *key = secrets_version(keys, row.key_version);
		if (row.time_us >= before_us || (int64_t)row.sequence > most)
			break;
		if (!typed || !key || row.sequence != p->sequence + 1 ||
		    audit_row_link(key, p->link, &row, link) < 0 ||
		    !digest_equal(link, chain, DIGEST_LEN)) {
			rc = err_set(e, EBADMSG, "row %llu is not intact: nothing is removed",
				     (unsigned long long)p->sequence + 1);
			break;
		}
		p->sequence = row.sequence;
		memcpy(p->link, link, DIGEST_LEN);
		count++;
	}
	store_done(s, ST_ROWS_OLDEST);
	return rc < 0 ? rc : count;
}

/* Where the last cut was; before the first row without one. */
static int read_cut(struct store *s, struct audit_point *ret, struct err *e)
{
	int rc = store_select(s, ST_CUT_READ, NULL, 0, e);

	ret->sequence = 0;
	audit_genesis(ret->link);
	if (rc == 1 && sqlite3_column_bytes(store_row(s, ST_CUT_READ), 1) == DIGEST_LEN) {
		ret->sequence = (uint64_t)sqlite3_column_int64(store_row(s, ST_CUT_READ), 0);
		memcpy(ret->link, sqlite3_column_blob(store_row(s, ST_CUT_READ), 1), DIGEST_LEN);
	}
	store_done(s, ST_CUT_READ);
	return rc < 0 ? rc : 0;
}

int rows_cut(struct store *s, const struct secret_set *keys, int64_t before_us, int64_t now_us,
	     unsigned max, uint64_t *ret_upto, struct err *e)
{
	const struct secret *key = secrets_current(keys);
	struct audit_cut cut = { .time_us = now_us, .key_version = key->version };

	if (read_cut(s, &cut.upto, e) < 0)
		return -e->code;
	int count = find_cut(s, keys, before_us, max, &cut.upto, e);
	*ret_upto = cut.upto.sequence;
	if (count <= 0)
		return count;
	audit_cut_mac(key, &cut, cut.mac);
	const struct value upto = value_int((int64_t)cut.upto.sequence);
	const struct value values[] = {
		upto,
		value_blob(cut.upto.link, DIGEST_LEN),
		value_int(cut.time_us),
		value_int(cut.key_version),
		value_blob(cut.mac, DIGEST_LEN),
	};
	if (store_run(s, ST_CUT_WRITE, values, ARRAY_SIZE(values), e) < 0 ||
	    store_run(s, ST_ROWS_CUT, &upto, 1, e) < 0 ||
	    store_run(s, ST_RECEIPTS_CUT, &upto, 1, e) < 0)
		return -e->code;
	return count;
}
