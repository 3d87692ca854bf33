/* Pure: checking per-command vouchers (S7). SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds public keys only. Does not remember nonces and does not know whether
 * a voucher is required: configuration and the broker do.
 */
#include "session/voucher.h"

#include <string.h>

#include "digest/base64.h"
#include "json/flat.h"

enum {
	PREFIX_LEN = 3,
	SIG_TEXT_LEN = 86,
	DOMAIN_LEN = sizeof(VOUCHER_DOMAIN) - 1,
	SESSION_JSON_MAX = 3 * 6 * SESSION_FIELD_MAX + 256,
};

enum { AUD, JOB, SESSION, COMMAND, EGRESS, NONCE, TEXTS, IAT = TEXTS, EXP, MEMBERS };

struct payload {
	char text[TEXTS][VOUCHER_NAME_MAX + 1];
	struct flat_member m[MEMBERS];
};

void voucher_session_digest(const struct session *s, uint8_t ret[DIGEST_LEN])
{
	char buf[SESSION_JSON_MAX];
	struct flat_out o;

	flat_begin(&o, buf, sizeof(buf));
	flat_text(&o, "orgId", s->org_id);
	flat_text(&o, "userId", s->user_id);
	flat_text(&o, "surface", surface_name(s->surface));
	if (s->run_id[0])
		flat_text(&o, "runId", s->run_id);
	digest_sha256(buf, flat_end(&o), ret);
}

/* Where the body ends, or 0: three parts, v1, a signature of the right length. */
static size_t body_end(const char *text, size_t len)
{
	if (len >= VOUCHER_MAX || len < PREFIX_LEN + 1 + SIG_TEXT_LEN)
		return 0;
	size_t end = len - SIG_TEXT_LEN - 1;
	if (memcmp(text, "v1.", PREFIX_LEN) != 0 || text[end] != '.' ||
	    memchr(text + PREFIX_LEN, '.', end - PREFIX_LEN) ||
	    memchr(text + end + 1, '.', SIG_TEXT_LEN))
		return 0;
	return end;
}

static bool is_signed(const struct ed25519_public *keys, size_t nkeys, const char *text, size_t end,
		      const uint8_t sig[ED25519_SIG_LEN])
{
	char message[DOMAIN_LEN + VOUCHER_MAX];
	bool good = false;

	memcpy(message, VOUCHER_DOMAIN, DOMAIN_LEN);
	memcpy(message + DOMAIN_LEN, text, end);
	for (size_t i = 0; i < nkeys; i++)
		good |= ed25519_verify(&keys[i], message, DOMAIN_LEN + end, sig);
	return good;
}

static bool is_nonce(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

	return s[n] == '\0' && n >= VOUCHER_NONCE_MIN && n <= VOUCHER_NONCE_MAX;
}

static bool read_payload(const char *json, size_t len, struct payload *p)
{
	static const char *const keys[MEMBERS] = {
		[AUD] = "aud",	     [JOB] = "job",	[SESSION] = "session", [COMMAND] = "command",
		[EGRESS] = "egress", [NONCE] = "nonce", [IAT] = "iat",	       [EXP] = "exp",
	};

	for (int i = 0; i < MEMBERS; i++)
		p->m[i] = (struct flat_member){
			.key = keys[i],
			.kind = i < TEXTS ? FLAT_TEXT : FLAT_NUMBER,
			.text = i < TEXTS ? p->text[i] : NULL,
			.cap = i < TEXTS ? sizeof(p->text[i]) : 0,
		};
	if (!flat_read(json, len, p->m, MEMBERS))
		return false;
	for (int i = 0; i < MEMBERS; i++)
		if (p->m[i].state != FLAT_THERE)
			return false;
	return is_nonce(p->text[NONCE]) && p->m[IAT].number < p->m[EXP].number;
}

static bool is_digest(const char *text, const uint8_t want[DIGEST_LEN])
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(want, DIGEST_LEN, hex);
	return strcmp(text, hex) == 0;
}

static enum reason judge(const struct payload *p, const struct voucher_use *use)
{
	uint8_t session[DIGEST_LEN];

	voucher_session_digest(use->session, session);
	if (strcmp(p->text[AUD], use->audience) != 0)
		return REASON_VOUCHER_WRONG_AUDIENCE;
	if (!is_digest(p->text[COMMAND], use->command) || !is_digest(p->text[EGRESS], use->egress))
		return REASON_VOUCHER_COMMAND_MISMATCH;
	if (strcmp(p->text[JOB], use->job) != 0)
		return REASON_VOUCHER_JOB_MISMATCH;
	if (!is_digest(p->text[SESSION], session))
		return REASON_VOUCHER_SESSION_MISMATCH;
	if (use->now_ms >= p->m[EXP].number + VOUCHER_SKEW_MS)
		return REASON_VOUCHER_EXPIRED;
	if (use->now_ms + VOUCHER_SKEW_MS < p->m[IAT].number)
		return REASON_VOUCHER_NOT_YET_VALID;
	return REASON_NONE;
}

enum reason voucher_check(const struct ed25519_public *keys, size_t nkeys, const char *text,
			  size_t len, const struct voucher_use *use, struct voucher_nonce *ret)
{
	uint8_t sig[ED25519_SIG_LEN];
	char json[VOUCHER_MAX];
	struct payload p;

	if (!text || len == 0)
		return REASON_VOUCHER_MISSING;
	size_t end = body_end(text, len);
	if (end == 0 || base64url_decode(text + end + 1, SIG_TEXT_LEN, sig, sizeof(sig)) !=
				ED25519_SIG_LEN)
		return REASON_VOUCHER_MALFORMED;
	if (!is_signed(keys, nkeys, text, end, sig))
		return REASON_VOUCHER_BAD_SIGNATURE;
	ssize_t n = base64url_decode(text + PREFIX_LEN, end - PREFIX_LEN, (uint8_t *)json,
				     sizeof(json));
	if (n < 0 || !read_payload(json, (size_t)n, &p))
		return REASON_VOUCHER_MALFORMED;
	enum reason why = judge(&p, use);
	if (why != REASON_NONE)
		return why;
	memcpy(ret->nonce, p.text[NONCE], sizeof(ret->nonce));
	ret->keep_until_ms = p.m[EXP].number + VOUCHER_SKEW_MS;
	return REASON_NONE;
}
