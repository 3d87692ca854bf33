/* Pure: a receipt's signed text, its making and its judging (T1, T2). SPDX-License-Identifier: Apache-2.0 */
/*
 * Every part is of a closed alphabet that holds no '|', so two receipts never
 * share a text. Does not read clocks or keys; JSON is in form.c.
 */
#include <errno.h>
#include <string.h>

#include "receipt/receipt.h"

static const char tool_bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

static bool is_tool(const char *tool)
{
	size_t n = strnlen(tool, RECEIPT_TOOL_MAX + 1);

	return n >= 1 && n <= RECEIPT_TOOL_MAX && strspn(tool, tool_bytes) == n;
}

/* --- Time */

static void put_digits(char *at, unsigned n, uint64_t v)
{
	while (n-- > 0) {
		at[n] = (char)('0' + v % 10);
		v /= 10;
	}
}

/* Days since 1970 to a date of the Gregorian calendar (years count from March here). */
static void civil(uint64_t days, unsigned *y, unsigned *m, unsigned *d)
{
	uint64_t z = days + 719468, era = z / 146097;
	unsigned doe = (unsigned)(z - era * 146097);
	unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	unsigned mp = (5 * doy + 2) / 153;

	*d = doy - (153 * mp + 2) / 5 + 1;
	*m = mp < 10 ? mp + 3 : mp - 9;
	*y = (unsigned)(yoe + era * 400) + (*m <= 2);
}

void receipt_time(uint64_t realtime_ns, char ret[RECEIPT_TIME_LEN + 1])
{
	uint64_t s = realtime_ns / 1000000000, of_day = s % 86400;
	unsigned y, m, d;

	civil(s / 86400, &y, &m, &d);
	memcpy(ret, "0000-00-00T00:00:00.0000000+00:00", RECEIPT_TIME_LEN + 1);
	put_digits(ret, 4, y);
	put_digits(ret + 5, 2, m);
	put_digits(ret + 8, 2, d);
	put_digits(ret + 11, 2, of_day / 3600);
	put_digits(ret + 14, 2, of_day / 60 % 60);
	put_digits(ret + 17, 2, of_day % 60);
	put_digits(ret + 20, 7, realtime_ns % 1000000000 / 100);
}

/* --- Making */

static void begin(struct receipt *r, const char *tool, uint64_t start_ns,
		  const uint8_t input[DIGEST_LEN])
{
	size_t n = strnlen(tool, RECEIPT_TOOL_MAX + 1);

	memset(r, 0, sizeof(*r));
	if (n <= RECEIPT_TOOL_MAX) /* else empty: receipt_sign refuses it */
		memcpy(r->tool, tool, n);
	memcpy(r->input, input, DIGEST_LEN);
	receipt_time(start_ns, r->timestamp);
}

void receipt_success(struct receipt *r, const char *tool, uint64_t start_ns,
		     const uint8_t input[DIGEST_LEN], const uint8_t output[DIGEST_LEN],
		     const uint8_t egress[DIGEST_LEN])
{
	begin(r, tool, start_ns, input);
	memcpy(r->output, output, DIGEST_LEN);
	memcpy(r->egress, egress, DIGEST_LEN);
}

void receipt_failure(struct receipt *r, const char *tool, uint64_t start_ns,
		     const uint8_t input[DIGEST_LEN], const char *code)
{
	begin(r, tool, start_ns, input);
	r->is_failure = true;
	digest_sha256(code, strlen(code), r->failure);
}

static size_t add(char *out, size_t at, const char *text)
{
	size_t n = strlen(text);

	memcpy(out + at, text, n + 1);
	return at + n;
}

static size_t add_hex(char *out, size_t at, const uint8_t d[DIGEST_LEN])
{
	digest_hex(d, DIGEST_LEN, out + at);
	return at + 2 * DIGEST_LEN;
}

size_t receipt_text(const struct receipt *r, char *out)
{
	size_t at = add(out, 0, r->tool);

	at = add(out, at, "|");
	at = add_hex(out, at, r->input);
	if (r->is_failure) {
		at = add(out, at, "|null|");
		at = add_hex(out, at, r->failure);
		at = add(out, at, "|");
		return add(out, at, r->timestamp);
	}
	at = add(out, at, "|");
	at = add_hex(out, at, r->output);
	at = add(out, at, "|");
	at = add(out, at, r->timestamp);
	at = add(out, at, "|egress:");
	return add_hex(out, at, r->egress);
}

static void sign_with(const struct receipt *r, const struct secret *key, uint8_t ret[DIGEST_LEN])
{
	char text[RECEIPT_TEXT_MAX];
	size_t n = receipt_text(r, text);

	digest_hmac_sha256(key->key, key->len, text, n, ret);
}

static int refuse(struct err *e, int code, const char *text)
{
	if (e) {
		e->code = code;
		memcpy(e->msg, text, strlen(text) + 1);
	}
	return -code;
}

int receipt_sign(struct receipt *r, const struct secret_set *keys, struct err *e)
{
	const struct secret *key = secrets_current(keys);

	if (!key)
		return refuse(e, ENOKEY, "receipt: there is no attestation secret");
	if (!is_tool(r->tool))
		return refuse(e, EINVAL, "receipt: the tool's name is out of form");
	r->key_version = key->version;
	sign_with(r, key, r->signature);
	return 0;
}

/* --- Judging */

static const struct {
	unsigned bit;
	const char *name;
} parts[RECEIPT_PARTS] = {
	{ RECEIPT_KEY_VERSION, "keyVersion" }, { RECEIPT_SIGNATURE, "signature" },
	{ RECEIPT_INPUT, "inputHash" },	       { RECEIPT_OUTPUT, "outputHash" },
	{ RECEIPT_FAILURE, "failureHash" },    { RECEIPT_EGRESS, "egressDigest" },
};

const char *receipt_part_name(unsigned bit)
{
	for (size_t i = 0; i < RECEIPT_PARTS; i++)
		if (parts[i].bit == bit)
			return parts[i].name;
	return NULL;
}

/* @given is not what the receipt has; @there says whether it has such a part at all. */
static bool differs(const uint8_t *given, const uint8_t *has, bool there)
{
	return given && (!there || !digest_equal(given, has, DIGEST_LEN));
}

struct receipt_verdict receipt_verify(const struct receipt *r, const struct secret_set *keys,
				      const struct receipt_facts *facts)
{
	const struct secret *key = secrets_version(keys, r->key_version);
	uint8_t want[DIGEST_LEN], failure[DIGEST_LEN];
	struct receipt_verdict v = { 0 };

	if (facts->failure_code)
		digest_sha256(facts->failure_code, strlen(facts->failure_code), failure);
	if (key)
		sign_with(r, key, want);
	if (!key)
		v.mismatches |= RECEIPT_KEY_VERSION;
	else if (!is_tool(r->tool) || !digest_equal(want, r->signature, DIGEST_LEN))
		v.mismatches |= RECEIPT_SIGNATURE;
	if (differs(facts->input, r->input, true))
		v.mismatches |= RECEIPT_INPUT;
	if (differs(facts->output, r->output, !r->is_failure))
		v.mismatches |= RECEIPT_OUTPUT;
	if (differs(facts->egress, r->egress, !r->is_failure))
		v.mismatches |= RECEIPT_EGRESS;
	if (differs(facts->failure_code ? failure : NULL, r->failure, r->is_failure))
		v.mismatches |= RECEIPT_FAILURE;
	v.is_valid = key && v.mismatches == 0;
	return v;
}
