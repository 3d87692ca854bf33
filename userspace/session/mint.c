/* Pure: minting a session and its names (S1, S8). SPDX-License-Identifier: Apache-2.0 */
/*
 * The single choke point: a session holds what is whitelisted here and
 * nothing else. Authenticates nobody; its caller does (S5).
 */
#include "session/session.h"

#include <string.h>

#include "json/flat.h"

static const char *const surfaces[SURFACE_COUNT] = {
	[SURFACE_CHAT] = "chat",
	[SURFACE_AGENT_RUN] = "agent_run",
	[SURFACE_DETERMINISTIC_TASK] = "deterministic_task",
	[SURFACE_SKILL_TASK] = "skill_task",
};

const char *surface_name(enum surface s)
{
	return s > SURFACE_NONE && s < SURFACE_COUNT ? surfaces[s] : NULL;
}

enum surface surface_from_name(const char *name)
{
	for (int s = SURFACE_NONE + 1; s < SURFACE_COUNT; s++)
		if (strcmp(surfaces[s], name) == 0)
			return (enum surface)s;
	return SURFACE_NONE;
}

/* ECMAScript's WhiteSpace and LineTerminator, in UTF-8. */
static const char *const blanks[] = {
	"\t", "\n", "\v", "\f", "\r", " ",
	"\xc2\xa0",	/* U+00A0 */
	"\xe1\x9a\x80", /* U+1680 */
	"\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83", /* U+2000 ... U+200A */
	"\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87",
	"\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a",
	"\xe2\x80\xa8", /* U+2028 */
	"\xe2\x80\xa9", /* U+2029 */
	"\xe2\x80\xaf", /* U+202F */
	"\xe2\x81\x9f", /* U+205F */
	"\xe3\x80\x80", /* U+3000 */
	"\xef\xbb\xbf", /* U+FEFF */
};

/* Bytes of the blank at the start (or end) of @text, 0 when there is none. */
static size_t blank_at(const char *text, size_t len, bool at_end)
{
	uint8_t edge = len ? (uint8_t)text[at_end ? len - 1 : 0] : 'x';

	if (edge > ' ' && edge < 0x80) /* nearly always */
		return 0;
	for (size_t i = 0; i < sizeof(blanks) / sizeof(blanks[0]); i++) {
		size_t n = strlen(blanks[i]);
		if (n <= len && memcmp(at_end ? text + len - n : text, blanks[i], n) == 0)
			return n;
	}
	return 0;
}

const char *session_trim(const char *text, size_t len, size_t *ret_len)
{
	size_t n;

	while ((n = blank_at(text, len, false)) > 0) {
		text += n;
		len -= n;
	}
	while ((n = blank_at(text, len, true)) > 0)
		len -= n;
	*ret_len = len;
	return text;
}

static enum reason take_field(const char *text, char ret[SESSION_FIELD_MAX + 1])
{
	size_t len = 0;

	if (text)
		text = session_trim(text, strlen(text), &len);
	if (len > SESSION_FIELD_MAX || (len && !flat_is_utf8(text, len)))
		return REASON_INVALID_REQUEST;
	if (len)
		memcpy(ret, text, len);
	ret[len] = '\0';
	return REASON_NONE;
}

static enum reason refuse(enum reason why, const char *text, const char **ret_why)
{
	if (ret_why)
		*ret_why = text;
	return why;
}

static bool is_reserved(const struct session *s)
{
	return strcmp(s->org_id, SESSION_HANDSHAKE) == 0 || strcmp(s->user_id, SESSION_HANDSHAKE) == 0;
}

enum reason session_mint(const struct session_claim *claim, unsigned flags, struct session *ret,
			 const char **ret_why)
{
	char surface[SESSION_FIELD_MAX + 1];

	if (take_field(claim->org_id, ret->org_id))
		return refuse(REASON_INVALID_REQUEST, "orgId is too long or not UTF-8", ret_why);
	if (take_field(claim->user_id, ret->user_id))
		return refuse(REASON_INVALID_REQUEST, "userId is too long or not UTF-8", ret_why);
	if (take_field(claim->run_id, ret->run_id))
		return refuse(REASON_INVALID_REQUEST, "runId is too long or not UTF-8", ret_why);
	ret->surface = take_field(claim->surface, surface) ? SURFACE_NONE :
							     surface_from_name(surface);
	if (ret->org_id[0] == '\0')
		return refuse(REASON_NO_SESSION, "orgId is empty", ret_why);
	if (ret->user_id[0] == '\0')
		return refuse(REASON_NO_SESSION, "userId is empty", ret_why);
	if (ret->surface == SURFACE_NONE)
		return refuse(REASON_NO_SESSION, "surface is not a known one", ret_why);
	if (is_reserved(ret) && !(flags & MINT_HANDSHAKE))
		return refuse(REASON_NO_SESSION, "the identity is reserved", ret_why);
	return REASON_NONE;
}
