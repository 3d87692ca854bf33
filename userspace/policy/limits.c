/* Pure: the limits of one command, resolved and read (Q1, Q4). SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a command may consume. Does not enforce: the worker writes the
 * numbers where the kernel wants them. No printf: the words are put together
 * by hand so that this file stays free of libc's streams and locale.
 */
#include "policy/limits.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "policy/reason.h"

/* What no sandbox can start below: init, a shell and its page tables. */
enum {
	MEMORY_MIN = 4 << 20,
	WORKSPACE_MIN = 64 << 10,
	CPU_MILLI_MIN = 10,
	PIDS_MIN = 1,
};

struct row {
	const char *name;
	size_t offset;
	unsigned width;
	uint64_t min;
};

#define ROW(member, least) \
	{ #member, offsetof(struct limits, member), sizeof(((struct limits *)0)->member), least }

static const struct row rows[] = {
	ROW(memory_bytes, MEMORY_MIN), ROW(workspace_bytes, WORKSPACE_MIN),
	ROW(output_bytes, 1),	       ROW(timeout_ms, 1),
	ROW(cpu_milli, CPU_MILLI_MIN), ROW(pids, PIDS_MIN),
};

static uint64_t get(const struct limits *l, const struct row *r)
{
	uint64_t wide;
	uint32_t narrow;

	if (r->width == sizeof(narrow)) {
		memcpy(&narrow, (const char *)l + r->offset, sizeof(narrow));
		return narrow;
	}
	memcpy(&wide, (const char *)l + r->offset, sizeof(wide));
	return wide;
}

static void put(struct limits *l, const struct row *r, uint64_t v)
{
	uint32_t narrow = (uint32_t)v;

	if (r->width == sizeof(narrow))
		memcpy((char *)l + r->offset, &narrow, sizeof(narrow));
	else
		memcpy((char *)l + r->offset, &v, sizeof(v));
}

static size_t add_text(char *buf, size_t at, size_t cap, const char *text)
{
	size_t n = strnlen(text, cap - 1 - at);

	memcpy(buf + at, text, n);
	buf[at + n] = '\0';
	return at + n;
}

static size_t add_number(char *buf, size_t at, size_t cap, uint64_t v)
{
	char digits[21];
	size_t i = sizeof(digits) - 1;

	digits[i] = '\0';
	do {
		digits[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return add_text(buf, at, cap, digits + i);
}

static int refuse(struct err *e, enum reason why, const struct row *r, uint64_t v,
		  const char *relation, uint64_t bound)
{
	if (e) {
		size_t at = add_text(e->msg, 0, sizeof(e->msg), r->name);
		at = add_text(e->msg, at, sizeof(e->msg), " ");
		at = add_number(e->msg, at, sizeof(e->msg), v);
		at = add_text(e->msg, at, sizeof(e->msg), relation);
		add_number(e->msg, at, sizeof(e->msg), bound);
		e->code = (int)why;
	}
	return -(int)why;
}

int limits_resolve(const struct limits *asked, const struct limits *dflt,
		   const struct limits *max, struct limits *ret, struct err *e)
{
	struct limits out = { 0 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		uint64_t most = get(max, r), v = get(asked, r);
		if (v == 0) /* a default above the maximum is a default, not a request */
			v = get(dflt, r) < most ? get(dflt, r) : most;
		if (v > most)
			return refuse(e, REASON_LIMIT_ABOVE_MAXIMUM, r, v, " is above ", most);
		if (v < r->min)
			return refuse(e, REASON_INVALID_REQUEST, r, v, " is below ", r->min);
		put(&out, r, v);
	}
	*ret = out;
	return 0;
}

uint64_t limits_workspace_hard_bytes(uint64_t quota_bytes)
{
	uint64_t slack = quota_bytes / 16 > (8u << 20) ? quota_bytes / 16 : (8u << 20);

	return quota_bytes > UINT64_MAX - slack ? UINT64_MAX : quota_bytes + slack;
}

uint64_t limits_workspace_inodes(uint64_t quota_bytes)
{
	uint64_t n = quota_bytes / 8192;

	return n < 1024 ? 1024 : n;
}

int limits_parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct {
		char suffix;
		unsigned shift;
	} units[] = { { '\0', 0 }, { 'K', 10 }, { 'M', 20 }, { 'G', 30 } };
	uint64_t v = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -EINVAL;
	if (p == text)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (*p != units[i].suffix || (*p && p[1]))
			continue;
		if (v > UINT64_MAX >> units[i].shift)
			return -EINVAL;
		*ret_bytes = v << units[i].shift;
		return 0;
	}
	return -EINVAL;
}

int limits_parse_milli(const char *text, uint64_t *ret_milli)
{
	uint64_t v = 0;
	const char *p = text;
	int places = -1; /* digits after the point, -1 before it */

	for (; *p && places < 3; p++) {
		if (*p == '.' && places < 0 && p != text) {
			places = 0;
			continue;
		}
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -EINVAL;
		if (places >= 0)
			places++;
	}
	if (p == text || *p || places == 0)
		return -EINVAL;
	for (int i = places < 0 ? 0 : places; i < 3; i++)
		if (__builtin_mul_overflow(v, 10u, &v))
			return -EINVAL;
	*ret_milli = v;
	return 0;
}
