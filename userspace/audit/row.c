/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows as bytes: metadata's JSON, the canonical form, the link. Knows neither
 * the database nor the messages.
 */
#include "audit/row.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/scope.h"
#include "digest/secrets.h"

const char *const audit_column_names[AUDIT_COLUMNS] = {
	[COL_ORGANIZATION] = "organizationId",
	[COL_ACTOR] = "actorPrincipalId",
	[COL_ACTOR_TYPE] = "actorPrincipalType",
	[COL_AUTH_SOURCE] = "authSource",
	[COL_RESOURCE_TYPE] = "resourceType",
	[COL_RESOURCE] = "resourceId",
	[COL_OPERATION] = "operation",
	[COL_DECISION] = "decision",
	[COL_RUN] = "runId",
	[COL_METADATA] = "metadata",
};

const char *const audit_column_fixed[AUDIT_COLUMNS] = {
	[COL_ACTOR_TYPE] = "model",
	[COL_AUTH_SOURCE] = "agent",
	[COL_RESOURCE_TYPE] = "execution_sandbox",
	[COL_OPERATION] = "sandbox_execute",
};

const char *const audit_metadata_names[AUDIT_METADATA_KEYS] = {
	"surface",     "cwd",	     "reason",		 "exitCode", "termination",
	"imageDigest", "egressMode", "egressTotalBytes", "wallMs",   "workspaceKb",
};

/* A bounded text under construction; is_full once something did not fit. */
struct text {
	char *buf;
	size_t size, len;
	bool is_full;
};

static void put(struct text *t, const char *s, size_t n)
{
	if (t->is_full || n >= t->size - t->len) {
		t->is_full = true;
		return;
	}
	memcpy(t->buf + t->len, s, n);
	t->len += n;
	t->buf[t->len] = '\0';
}

/* How many bytes of @s stand for themselves in JSON. */
static size_t plain_len(const char *s)
{
	static const bool is_plain[256] = {
		[0x20 ... '"' - 1] = true,
		['"' + 1 ... '\\' - 1] = true,
		['\\' + 1 ... 0xff] = true,
	};
	size_t n = 0;

	while (is_plain[(unsigned char)s[n]])
		n++;
	return n;
}

static void put_string(struct text *t, const char *s)
{
	char u[8];

	put(t, "\"", 1);
	for (;;) {
		size_t n = plain_len(s);
		put(t, s, n);
		s += n;
		if (!*s)
			break;
		if (*s == '"' || *s == '\\')
			put(t, (char[]){ '\\', *s }, 2);
		else
			put(t, u, (size_t)snprintf(u, sizeof(u), "\\u%04x", (unsigned char)*s));
		s++;
	}
	put(t, "\"", 1);
}

/* @v is not negative. */
static void put_number(struct text *t, int64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	put(t, digits + at, sizeof(digits) - at);
}

int audit_metadata_render(const struct audit_metadata *m, char *buf, size_t size)
{
	const struct {
		const char *s;
		int64_t n;
	} values[AUDIT_METADATA_KEYS] = {
		{ m->surface, -1 },	{ m->cwd, -1 },
		{ m->reason, -1 },	{ NULL, m->exit_code },
		{ m->termination, -1 }, { m->image_digest, -1 },
		{ m->egress_mode, -1 }, { NULL, m->egress_total_bytes },
		{ NULL, m->wall_ms },	{ NULL, m->workspace_kb },
	};
	struct text t = { .buf = buf, .size = size };

	for (size_t i = 0; i < AUDIT_METADATA_KEYS; i++) {
		put(&t, i ? ",\"" : "{\"", 2);
		put(&t, audit_metadata_names[i], strlen(audit_metadata_names[i]));
		put(&t, "\":", 2);
		if (values[i].s)
			put_string(&t, values[i].s);
		else if (values[i].n >= 0)
			put_number(&t, values[i].n);
		else
			put(&t, "null", 4);
	}
	put(&t, "}", 1);
	return t.is_full ? -ENOSPC : (int)t.len;
}

void audit_genesis(uint8_t ret[DIGEST_LEN])
{
	static const char text[] = "cordon-ledger-genesis-1";

	digest_sha256(text, sizeof(text), ret);
}

static uint8_t *put_be(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		*p++ = (uint8_t)(v >> (8 * i));
	return p;
}

int audit_row_link(const struct secret *key, const uint8_t before[DIGEST_LEN],
		   const struct audit_row *row, uint8_t ret[DIGEST_LEN])
{
	static const char label[] = "cordon-ledger-row-1";
	uint8_t buf[AUDIT_ROW_MAX + 256], *p = buf;
	size_t total = 0;

	for (int i = 0; i < AUDIT_COLUMNS; i++) {
		if (row->col[i].len > AUDIT_ROW_MAX - total)
			return -E2BIG;
		total += row->col[i].len;
	}
	_Static_assert(sizeof(label) + DIGEST_LEN + 20 + 4 * AUDIT_COLUMNS <= 256, "head room");
	p = (uint8_t *)memcpy(p, label, sizeof(label)) + sizeof(label);
	p = (uint8_t *)memcpy(p, before, DIGEST_LEN) + DIGEST_LEN;
	p = put_be(p, row->sequence, 8);
	p = put_be(p, (uint64_t)row->time_us, 8);
	p = put_be(p, row->key_version, 4);
	for (int i = 0; i < AUDIT_COLUMNS; i++) {
		const struct audit_text *c = &row->col[i];
		p = put_be(p, c->s ? c->len : UINT32_MAX, 4);
		if (c->s && c->len)
			p = (uint8_t *)memcpy(p, c->s, c->len) + c->len;
	}
	digest_hmac_sha256(key->key, key->len, buf, (size_t)(p - buf), ret);
	return 0;
}

void audit_time_text(int64_t time_us, char ret[AUDIT_TIME_MAX])
{
	int64_t us = time_us % 1000000;
	time_t s = (time_t)(time_us / 1000000);
	struct tm tm;

	if (us < 0) { /* only an edited row lies before 1970 */
		us += 1000000;
		s--;
	}
	if (!gmtime_r(&s, &tm) || tm.tm_year < 0 || tm.tm_year > 8099) {
		snprintf(ret, AUDIT_TIME_MAX, "invalid");
		return;
	}
	size_t n = strftime(ret, AUDIT_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret + n, AUDIT_TIME_MAX - n, ".%06dZ", (int)us);
}
