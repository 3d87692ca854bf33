/* Pure: sealing and opening carriers (S2, S3). SPDX-License-Identifier: Apache-2.0 */
/*
 * The MAC is compared as text: its one strict encoding is what was sealed, so
 * padding, another alphabet and left-over bits need no check of their own.
 * Does not know where secrets and time come from; keeps nothing.
 */
#include "session/carrier.h"

#include <string.h>

#include "digest/base64.h"
#include "digest/digest.h"
#include "json/flat.h"

enum {
	PREFIX_LEN = 3, /* "v1." */
	MAC_TEXT_LEN = 43,
};

static const char prefix[] = "v1.";

/* The MAC's text over "v1." and the body, which stand together in @signed_text. */
static void mac_text(const struct secret *key, const char *signed_text, size_t len, char *ret)
{
	uint8_t mac[DIGEST_LEN];

	digest_hmac_sha256(key->key, key->len, signed_text, len, mac);
	base64url_encode(mac, sizeof(mac), ret);
	digest_wipe(mac, sizeof(mac)); /* with its text it would be a carrier, lying on the stack */
}

enum reason carrier_seal(const struct secret_set *secrets, const struct session *s, uint64_t now_ms,
			 uint64_t ttl_ms, char *out, size_t *ret_len)
{
	const struct secret *key = secrets_current(secrets);
	char payload[CARRIER_PAYLOAD_MAX];
	struct flat_out o;
	uint64_t exp_ms;

	if (!key || __builtin_add_overflow(now_ms, ttl_ms, &exp_ms) || exp_ms > FLAT_NUMBER_MAX)
		return REASON_CAPABILITY_UNAVAILABLE;
	flat_begin(&o, payload, sizeof(payload));
	flat_text(&o, "orgId", s->org_id);
	flat_text(&o, "userId", s->user_id);
	flat_text(&o, "surface", surface_name(s->surface));
	if (s->run_id[0])
		flat_text(&o, "runId", s->run_id);
	flat_number(&o, "iat", now_ms);
	flat_number(&o, "exp", exp_ms);
	_Static_assert(3 * 6 * SESSION_FIELD_MAX + 256 < CARRIER_PAYLOAD_MAX, "every session fits");
	size_t n = flat_end(&o);

	memcpy(out, prefix, PREFIX_LEN);
	n = PREFIX_LEN + base64url_encode(payload, n, out + PREFIX_LEN);
	mac_text(key, out, n, out + n + 1);
	out[n] = '.';
	*ret_len = n + 1 + MAC_TEXT_LEN;
	return REASON_NONE;
}

/* Where the body ends: the second and last dot. 0 when the shape is wrong. */
static size_t body_end(const char *text, size_t len)
{
	const char *dot;

	if (len < PREFIX_LEN || len >= CARRIER_MAX || memcmp(text, prefix, PREFIX_LEN) != 0)
		return 0;
	dot = memchr(text + PREFIX_LEN, '.', len - PREFIX_LEN);
	if (!dot || memchr(dot + 1, '.', len - (size_t)(dot + 1 - text)))
		return 0;
	return (size_t)(dot - text);
}

/* Every version is tried, whatever matches: the time says nothing about which. */
static bool mac_matches(const struct secret_set *secrets, const char *text, size_t end, size_t len)
{
	const char *mac = text + end + 1;
	char want[BASE64_MAX(DIGEST_LEN)];
	const struct secret *key;
	bool matches = false;

	if (len - end - 1 != MAC_TEXT_LEN)
		return false;
	for (size_t i = 0; (key = secrets_at(secrets, i)); i++) {
		mac_text(key, text, end, want);
		matches |= digest_equal(mac, want, MAC_TEXT_LEN);
	}
	digest_wipe(want, sizeof(want));
	return matches;
}

enum { ORG, USER, SURFACE, RUN, IAT, EXP, MEMBERS };

enum reason carrier_open(const struct secret_set *secrets, const char *text, size_t len,
			 uint64_t now_ms, struct session *ret, uint64_t *ret_exp_ms)
{
	/* A field may carry blanks that minting trims: room for some more than it keeps. */
	char fields[RUN + 1][2 * SESSION_FIELD_MAX];
	char payload[CARRIER_PAYLOAD_MAX];
	struct flat_member m[MEMBERS] = {
		[ORG] = { "orgId", FLAT_TEXT, fields[ORG], sizeof(fields[ORG]), 0, 0 },
		[USER] = { "userId", FLAT_TEXT, fields[USER], sizeof(fields[USER]), 0, 0 },
		[SURFACE] = { "surface", FLAT_TEXT, fields[SURFACE], sizeof(fields[SURFACE]), 0, 0 },
		[RUN] = { "runId", FLAT_TEXT, fields[RUN], sizeof(fields[RUN]), 0, 0 },
		[IAT] = { "iat", FLAT_NUMBER, NULL, 0, 0, 0 },
		[EXP] = { "exp", FLAT_NUMBER, NULL, 0, 0, 0 },
	};

	if (!secrets_current(secrets))
		return REASON_CARRIER_NO_SECRET;
	size_t end = body_end(text, len);
	if (end == 0)
		return REASON_CARRIER_MALFORMED;
	if (!mac_matches(secrets, text, end, len))
		return REASON_CARRIER_BAD_SIGNATURE;

	ssize_t n = base64url_decode(text + PREFIX_LEN, end - PREFIX_LEN, (uint8_t *)payload,
				     sizeof(payload));
	if (n < 0 || !flat_read(payload, (size_t)n, m, MEMBERS))
		return REASON_CARRIER_MALFORMED;
	if (m[EXP].state != FLAT_THERE || now_ms >= m[EXP].number)
		return REASON_CARRIER_EXPIRED;
	if (m[ORG].state != FLAT_THERE || m[USER].state != FLAT_THERE ||
	    m[SURFACE].state != FLAT_THERE || m[RUN].state == FLAT_WRONG ||
	    m[IAT].state != FLAT_THERE)
		return REASON_CARRIER_MALFORMED;

	struct session_claim claim = { fields[ORG], fields[USER], fields[SURFACE],
				       m[RUN].state == FLAT_THERE ? fields[RUN] : NULL };
	/* The broker opens its own handshake; sealing is where S8's identity is refused. */
	if (session_mint(&claim, MINT_HANDSHAKE, ret, NULL) != REASON_NONE)
		return REASON_CARRIER_MALFORMED;
	if (ret_exp_ms)
		*ret_exp_ms = m[EXP].number;
	return REASON_NONE;
}
