/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links, checkpoints and the verification of a copy: fixed vectors computed
 * with Python's hmac module, every field of a row covered by its link, every
 * byte of a checkpoint, copies with and without a log beside them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/anchor.h"
#include "audit/copy.h"
#include "audit/schema.h"
#include "audit/verify.h"
#include "digest/secrets.h"

#define GENESIS_HEX "db23ba8625041e376cc37eb8e504678d5e2c65cc3d75dd1a8899db08b1128b7b"
#define LINK_HEX "fae34e8cc36a21d4d680073e0ddc77ad436d9e003f4227fd77afe6898981d9f9"

static char dir[] = "/tmp/test-audit-XXXXXX";
static struct secret_set *keys, *others;

static struct audit_row sample(uint64_t sequence)
{
	static const char *const text[AUDIT_COLUMNS] = {
		"acme", "ada", "model", "agent", "execution_sandbox", "job-1", "sandbox_execute",
		"allowed", NULL, "{\"surface\":\"chat\"}",
	};
	struct audit_row r = { .sequence = sequence, .time_us = 1700000000000000, .key_version = 1 };

	for (int i = 0; i < AUDIT_COLUMNS; i++)
		r.col[i] = (struct audit_text){ text[i], text[i] ? strlen(text[i]) : 0 };
	return r;
}

static void link_of(const struct audit_row *r, uint8_t ret[DIGEST_LEN])
{
	uint8_t before[DIGEST_LEN];

	audit_genesis(before);
	assert_int_equal(audit_row_link(secrets_current(keys), before, r, ret), 0);
}

static void links_have_their_fixed_value(void **state)
{
	struct audit_row r = sample(1);
	uint8_t link[DIGEST_LEN];
	char hex[DIGEST_HEX_MAX];

	(void)state;
	audit_genesis(link);
	digest_hex(link, DIGEST_LEN, hex);
	assert_string_equal(hex, GENESIS_HEX);
	link_of(&r, link);
	digest_hex(link, DIGEST_LEN, hex);
	assert_string_equal(hex, LINK_HEX);
}

static void every_field_is_in_the_link(void **state)
{
	struct audit_row r = sample(1);
	uint8_t good[DIGEST_LEN], link[DIGEST_LEN];

	(void)state;
	link_of(&r, good);
	r.sequence = 2, link_of(&r, link), assert_false(digest_equal(good, link, DIGEST_LEN));
	r = sample(1), r.time_us++, link_of(&r, link), assert_false(digest_equal(good, link, DIGEST_LEN));
	r = sample(1), r.key_version++, link_of(&r, link);
	assert_false(digest_equal(good, link, DIGEST_LEN));
	for (int i = 0; i < AUDIT_COLUMNS; i++) {
		r = sample(1);
		r.col[i] = (struct audit_text){ "other", 5 };
		link_of(&r, link);
		assert_false(digest_equal(good, link, DIGEST_LEN));
		r.col[i] = (struct audit_text){ "", 0 }; /* empty is not absent */
		link_of(&r, link);
		assert_false(digest_equal(good, link, DIGEST_LEN));
	}
	/* moving a character from one column to the next changes it too (ESCAPES 67) */
	r = sample(1);
	r.col[COL_ORGANIZATION] = (struct audit_text){ "acm", 3 };
	r.col[COL_ACTOR] = (struct audit_text){ "eada", 4 };
	link_of(&r, link);
	assert_false(digest_equal(good, link, DIGEST_LEN));
	static char huge[AUDIT_ROW_MAX + 1];
	r.col[COL_METADATA] = (struct audit_text){ huge, sizeof(huge) };
	assert_int_equal(audit_row_link(secrets_current(keys), good, &r, link), -E2BIG);
}

static void metadata_is_rendered_exactly(void **state)
{
	const struct audit_metadata m = {
		.surface = "chat", .cwd = "a\"b\\c\n\x01\xc3\xa9", .exit_code = 0,
		.egress_total_bytes = -1, .wall_ms = 9007199254740992, .workspace_kb = -1,
	};
	char buf[AUDIT_METADATA_MAX], cwd[AUDIT_CWD_MAX + 1];

	(void)state;
	int n = audit_metadata_render(&m, buf, sizeof(buf));
	assert_int_equal(n, strlen(buf));
	assert_string_equal(buf, "{\"surface\":\"chat\",\"cwd\":\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa9\","
				 "\"reason\":null,\"exitCode\":0,\"termination\":null,"
				 "\"imageDigest\":null,\"egressMode\":null,\"egressTotalBytes\":null,"
				 "\"wallMs\":9007199254740992,\"workspaceKb\":null}");
	memset(cwd, 1, AUDIT_CWD_MAX);
	cwd[AUDIT_CWD_MAX] = '\0';
	struct audit_metadata worst = m;
	worst.cwd = cwd;
	assert_true(audit_metadata_render(&worst, buf, sizeof(buf)) > 6 * AUDIT_CWD_MAX);
	assert_int_equal(audit_metadata_render(&worst, buf, 100), -ENOSPC);
}

static void times_are_written_in_utc(void **state)
{
	char t[AUDIT_TIME_MAX];

	(void)state;
	audit_time_text(1700000000123456, t);
	assert_string_equal(t, "2023-11-14T22:13:20.123456Z");
	audit_time_text(-1, t);
	assert_string_equal(t, "1969-12-31T23:59:59.999999Z");
	audit_time_text(INT64_MAX, t);
	assert_string_equal(t, "invalid");
	audit_time_text(INT64_MIN, t);
	assert_string_equal(t, "invalid");
}

static struct audit_checkpoint sample_checkpoint(void)
{
	struct audit_checkpoint c = { .boot = "01234567-89ab-4cde-8f01-23456789abcd" };

	c.live.sequence = 20;
	c.synced.sequence = 17;
	memset(c.live.link, 0xaa, DIGEST_LEN);
	memset(c.synced.link, 0xbb, DIGEST_LEN);
	return c;
}

static void a_checkpoint_reads_back_and_any_changed_byte_is_refused(void **state)
{
	struct audit_checkpoint c = sample_checkpoint(), got;
	char text[AUDIT_CHECKPOINT_LEN], bad[AUDIT_CHECKPOINT_LEN + 1];
	struct err e;

	(void)state;
	audit_checkpoint_render(secrets_current(keys), &c, text);
	assert_int_equal(audit_checkpoint_parse(text, sizeof(text), keys, &got, &e), 0);
	assert_memory_equal(&got.live, &c.live, sizeof(c.live));
	assert_memory_equal(&got.synced, &c.synced, sizeof(c.synced));
	assert_string_equal(got.boot, c.boot);
	for (size_t i = 0; i < sizeof(text); i++)
		for (int bit = 0; bit < 8; bit++) {
			memcpy(bad, text, sizeof(text));
			bad[i] ^= (char)(1 << bit);
			assert_true(audit_checkpoint_parse(bad, sizeof(text), keys, &got, &e) < 0);
		}
	memcpy(bad, text, sizeof(text));
	for (size_t n = 0; n < sizeof(text); n += 13)
		assert_int_equal(audit_checkpoint_parse(bad, n, keys, &got, &e), -EINVAL);
	assert_int_equal(audit_checkpoint_parse(bad, sizeof(bad), keys, &got, &e), -EINVAL);
	assert_int_equal(audit_checkpoint_parse(text, sizeof(text), others, &got, &e), -ENOKEY);
}

static void which_value_is_due_depends_on_the_boot(void **state)
{
	struct audit_checkpoint c = sample_checkpoint();

	(void)state;
	assert_int_equal(audit_checkpoint_due(&c, c.boot)->sequence, 20);
	assert_int_equal(audit_checkpoint_due(&c, "11111111-89ab-4cde-8f01-23456789abcd")->sequence, 17);
	assert_int_equal(audit_checkpoint_due(&c, NULL)->sequence, 17);
}

static void put_row(sqlite3 *db, const struct audit_row *r, const uint8_t link[DIGEST_LEN])
{
	sqlite3_stmt *s;
	char sql[300];

	snprintf(sql, sizeof(sql), "INSERT INTO rows(%s) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
		 audit_row_columns);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	sqlite3_bind_int64(s, 1, (int64_t)r->sequence);
	sqlite3_bind_int64(s, 2, r->time_us);
	for (int i = 0; i < AUDIT_COLUMNS; i++)
		sqlite3_bind_text(s, 3 + i, r->col[i].s, (int)r->col[i].len, SQLITE_STATIC);
	sqlite3_bind_int64(s, 13, r->key_version);
	sqlite3_bind_blob(s, 14, link, DIGEST_LEN, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(s), SQLITE_DONE);
	sqlite3_finalize(s);
}

/* A ledger of @n rows; gives where its chain has come to. */
static struct audit_point make(const char *path, int n, sqlite3 **ret_db)
{
	struct audit_point at = { 0 };
	char sql[100];
	sqlite3 *db;

	unlink(path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	snprintf(sql, sizeof(sql), "PRAGMA user_version=%d; PRAGMA application_id=%d", AUDIT_SCHEMA,
		 AUDIT_APPLICATION);
	assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, audit_schema_sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	audit_genesis(at.link);
	for (int i = 1; i <= n; i++) {
		struct audit_row r = sample((uint64_t)i);
		audit_row_link(secrets_current(keys), at.link, &r, at.link);
		put_row(db, &r, at.link);
		at.sequence = (uint64_t)i;
	}
	if (ret_db)
		*ret_db = db;
	else
		sqlite3_close(db);
	return at;
}

static void put_file(const char *path, const void *text, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	fclose(f);
}

static int verify_files(const char *db, const char *key, const char *checkpoint,
			const struct audit_point *anchor, struct audit_result *ret)
{
	auto_(audit_files) f = NULL;
	struct err e;

	if (audit_files_open(db, key, checkpoint, &f, &e) < 0)
		return -e.code;
	audit_files_verify(f, anchor, ret);
	return 0;
}

/* As an auditor does it: what was brought lies in files, the key under its version. */
static struct audit_result verify(const char *path, const struct secret_set *with,
				  const struct audit_point *checkpoint,
				  const struct audit_point *anchor)
{
	const struct secret *k = secrets_current(with);
	struct audit_checkpoint c = sample_checkpoint();
	char key[100], point[100], text[AUDIT_CHECKPOINT_LEN];
	struct audit_result r;

	snprintf(key, sizeof(key), "%s/%u", dir, k->version);
	snprintf(point, sizeof(point), "%s/point", dir);
	put_file(key, k->key, k->len);
	if (checkpoint) {
		c.live = c.synced = *checkpoint;
		audit_checkpoint_render(secrets_current(keys), &c, text);
		put_file(point, text, sizeof(text));
	}
	assert_int_equal(verify_files(path, key, checkpoint ? point : NULL, anchor, &r), 0);
	return r;
}

static void a_copy_verifies_with_the_key_alone(void **state)
{
	char path[100], beside[110];

	(void)state;
	/* the characters that mean something in a database's URI */
	snprintf(path, sizeof(path), "%s/copy %%41?mode=rwc#x.db", dir);
	struct audit_point last = make(path, 5, NULL);
	struct audit_result r = verify(path, keys, NULL, NULL);
	assert_int_equal(r.verdict, VERDICT_OK);
	assert_int_equal(r.rows, 5);
	assert_memory_equal(&r.last, &last, sizeof(last));
	snprintf(beside, sizeof(beside), "%s-shm", path);
	assert_int_equal(access(beside, F_OK), -1); /* nothing is left beside it */
	r = verify(path, keys, &last, &last);
	assert_int_equal(r.verdict, VERDICT_OK);
	r = verify(path, others, NULL, NULL);
	assert_int_equal(r.verdict, VERDICT_UNKNOWN_KEY);
	assert_int_equal(r.row, 1);
	struct audit_point later = last;
	later.sequence = 9;
	assert_int_equal(verify(path, keys, &later, NULL).verdict, VERDICT_TRUNCATED);
	assert_int_equal(verify(path, keys, NULL, &later).verdict, VERDICT_ROLLED_BACK);
	later = last;
	later.link[0] ^= 1;
	assert_int_equal(verify(path, keys, &later, NULL).verdict, VERDICT_ROLLED_BACK);
	assert_int_equal(verify(path, keys, NULL, &later).verdict, VERDICT_ROLLED_BACK);
}

static void a_copy_with_its_log_is_read_whole(void **state)
{
	char path[100], cmd[512], copy[100];
	sqlite3 *db;

	(void)state;
	snprintf(path, sizeof(path), "%s/live.db", dir);
	snprintf(copy, sizeof(copy), "%s/taken.db", dir);
	make(path, 7, &db);
	snprintf(cmd, sizeof(cmd), "cp %s %s && cp %s-wal %s-wal", path, copy, path, copy);
	assert_int_equal(system(cmd), 0);
	sqlite3_close(db);
	struct audit_result r = verify(copy, keys, NULL, NULL);
	assert_int_equal(r.verdict, VERDICT_OK);
	assert_int_equal(r.rows, 7);
}

/* What must not change while a copy is read, and what may: rows appended to its log. */
static void a_writer_makes_a_copy_stale_and_an_appended_row_does_not(void **state)
{
	static const char *const sql[] = { "UPDATE rows SET timeUs = 1", /* into the log */
					   "PRAGMA wal_checkpoint(PASSIVE)", /* into the database */
					   "UPDATE rows SET timeUs = 2" }; /* the log begins anew */
	static const bool is_stale[] = { false, true, true };
	struct audit_copy *c;
	struct err e;
	char path[100];
	sqlite3 *writer, *reader;

	(void)state;
	snprintf(path, sizeof(path), "%s/stale.db", dir);
	make(path, 3, &writer);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(audit_copy_open(path, &c, &e), 0);
		assert_int_equal(audit_copy_connect(c, &reader, &e), 0);
		assert_false(audit_copy_is_stale(c));
		assert_int_equal(sqlite3_exec(writer, sql[i], NULL, NULL, NULL), SQLITE_OK);
		assert_int_equal(audit_copy_is_stale(c), is_stale[i]);
		sqlite3_close(reader);
		audit_copy_free(c);
	}
	sqlite3_close(writer);
}

static void a_copy_verifies_by_the_names_of_files(void **state)
{
	struct audit_checkpoint c = sample_checkpoint();
	char db[100], key[100], named[100], point[100], text[AUDIT_CHECKPOINT_LEN];
	struct audit_result r;

	(void)state;
	snprintf(db, sizeof(db), "%s/files.db", dir);
	snprintf(key, sizeof(key), "%s/brought.key", dir);
	snprintf(named, sizeof(named), "%s/2", dir);
	snprintf(point, sizeof(point), "%s/checkpoint", dir);
	c.live = c.synced = make(db, 4, NULL);
	audit_checkpoint_render(secrets_current(keys), &c, text);
	put_file(key, "chain key of the test\n", 22);
	put_file(named, "chain key of the test\n", 22);
	put_file(point, text, sizeof(text));
	assert_int_equal(verify_files(db, key, point, &c.live, &r), 0);
	assert_int_equal(r.verdict, VERDICT_OK);
	assert_true(r.has_checkpoint && r.has_anchor);
	assert_int_equal(verify_files(db, named, NULL, NULL, &r), 0);
	assert_int_equal(r.verdict, VERDICT_UNKNOWN_KEY); /* by its name it is another version */
	put_file(point, text, 10);
	assert_int_equal(verify_files(db, key, point, NULL, &r), 0);
	assert_int_equal(r.verdict, VERDICT_BAD_CHECKPOINT);
	put_file(key, "another key", 11);
	assert_int_equal(verify_files(db, key, NULL, NULL, &r), 0);
	assert_int_equal(r.verdict, VERDICT_ALTERED);
	assert_int_equal(r.row, 1);
	unlink(point);
	unlink(key);
	assert_true(verify_files(db, key, NULL, NULL, &r) < 0);
	put_file(key, "another key", 11);
	assert_true(verify_files(db, key, point, NULL, &r) < 0);
}

static void what_is_no_ledger_is_never_a_yes(void **state)
{
	struct audit_result r;
	char path[100], key[100];

	(void)state;
	snprintf(path, sizeof(path), "%s/none.db", dir);
	snprintf(key, sizeof(key), "%s/none.key", dir);
	put_file(key, "chain key of the test", 21);
	assert_int_equal(verify_files(path, key, NULL, NULL, &r), -ENOENT);
	FILE *f = fopen(path, "w");
	fputs("no database at all, but longer than its header would be, so that it is read\n", f);
	fclose(f);
	assert_int_equal(verify(path, keys, NULL, NULL).verdict, VERDICT_UNREADABLE);
	f = fopen(path, "w");
	fclose(f);
	assert_int_equal(verify(path, keys, NULL, NULL).verdict, VERDICT_UNREADABLE); /* empty */
}

static void tables_of_another_make_are_refused(void **state)
{
	static const char *const changes[] = {
		"ALTER TABLE rows ADD COLUMN more TEXT",
		"ALTER TABLE rows RENAME TO r; CREATE VIEW rows AS SELECT * FROM r",
		"DROP TABLE cut; CREATE TABLE cut(upto)",
		"DROP TABLE cut",
		"CREATE TRIGGER cut AFTER INSERT ON runs BEGIN SELECT 1; END",
	};
	char path[100];
	sqlite3 *db;

	(void)state;
	snprintf(path, sizeof(path), "%s/tables.db", dir);
	make(path, 2, &db);
	sqlite3_exec(db, "CREATE TABLE other(x)", NULL, NULL, NULL);
	sqlite3_close(db);
	assert_int_equal(verify(path, keys, NULL, NULL).verdict, VERDICT_OK); /* the control */
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		make(path, 2, &db);
		assert_int_equal(sqlite3_exec(db, changes[i], NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
		assert_int_equal(verify(path, keys, NULL, NULL).verdict, VERDICT_UNREADABLE);
	}
}

static void an_anchor_is_read_in_its_two_forms_and_no_other(void **state)
{
	char pair[AUDIT_ANCHOR_TEXT], again[AUDIT_ANCHOR_TEXT], json[300];
	struct audit_point p = { .sequence = 42 }, got;
	struct err e;

	(void)state;
	memset(p.link, 0xab, DIGEST_LEN);
	audit_anchor_text(&p, pair);
	assert_int_equal(audit_anchor_parse(pair, strlen(pair), &got, &e), 0);
	assert_int_equal(got.sequence, 42);
	audit_anchor_text(&got, again);
	assert_string_equal(again, pair);
	snprintf(json, sizeof(json), "{\"ok\":true,\"last\":42,\"head\":\"%s\"} \n", pair + 3);
	assert_int_equal(audit_anchor_parse(json, strlen(json), &got, &e), 0);
	assert_memory_equal(&got, &p, sizeof(p));
	json[7] = 'x';
	assert_true(audit_anchor_parse(json, strlen(json), &got, &e) < 0);
	for (size_t n = 0; n < strlen(pair); n++)
		assert_true(audit_anchor_parse(pair, n, &got, &e) < 0);
	pair[3] = 'A';
	assert_true(audit_anchor_parse(pair, strlen(pair), &got, &e) < 0);
	assert_true(audit_anchor_parse("", 0, &got, &e) < 0);
}

static void words_of_a_database_come_out_as_ascii(void **state)
{
	struct audit_result r;

	(void)state;
	audit_result_unreadable(&r, "a\xff\x1b[31m\n\xc3");
	assert_string_equal(r.text, "a??[31m??");
	json_t *o = audit_result_json(&r);
	assert_non_null(o);
	json_decref(o);
}

static void every_verdict_has_its_words(void **state)
{
	struct audit_result r = { .verdict = VERDICT_TRUNCATED, .row = 3, .has_anchor = true };

	(void)state;
	json_t *o = audit_result_json(&r);
	assert_false(json_is_true(json_object_get(o, "ok")));
	assert_string_equal(json_string_value(json_object_get(o, "verdict")), "truncated");
	assert_string_equal(json_string_value(json_object_get(o, "anchor")), "failed");
	assert_int_equal(json_integer_value(json_object_get(o, "row")), 3);
	assert_true(json_is_null(json_object_get(o, "cut")));
	json_decref(o);
	for (int v = 0; v <= VERDICT_BAD_CHECKPOINT; v++)
		assert_non_null(audit_verdict_name((enum audit_verdict)v));
	assert_string_equal(audit_verdict_name((enum audit_verdict)99), "unreadable");
}

static int setup(void **state)
{
	struct err e;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(secrets_from_key(1, "chain key of the test", 21, &keys, &e), 0);
	return secrets_from_key(2, "another key of the test", 23, &others, &e);
}

static int teardown(void **state)
{
	char cmd[64];

	(void)state;
	secrets_free(keys);
	secrets_free(others);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_have_their_fixed_value),
		cmocka_unit_test(every_field_is_in_the_link),
		cmocka_unit_test(metadata_is_rendered_exactly),
		cmocka_unit_test(times_are_written_in_utc),
		cmocka_unit_test(a_checkpoint_reads_back_and_any_changed_byte_is_refused),
		cmocka_unit_test(which_value_is_due_depends_on_the_boot),
		cmocka_unit_test(a_copy_verifies_with_the_key_alone),
		cmocka_unit_test(a_copy_with_its_log_is_read_whole),
		cmocka_unit_test(a_writer_makes_a_copy_stale_and_an_appended_row_does_not),
		cmocka_unit_test(a_copy_verifies_by_the_names_of_files),
		cmocka_unit_test(what_is_no_ledger_is_never_a_yes),
		cmocka_unit_test(tables_of_another_make_are_refused),
		cmocka_unit_test(an_anchor_is_read_in_its_two_forms_and_no_other),
		cmocka_unit_test(words_of_a_database_come_out_as_ascii),
		cmocka_unit_test(every_verdict_has_its_words),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
