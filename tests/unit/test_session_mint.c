/* SPDX-License-Identifier: Apache-2.0 */
/* S1 and S8: trimming, whitelisting, refusing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "session/session.h"

static enum reason mint(const char *org, const char *user, const char *surface, const char *run,
			unsigned flags, struct session *ret)
{
	struct session_claim c = { org, user, surface, run };

	return session_mint(&c, flags, ret, NULL);
}

/* What ECMAScript's String.prototype.trim takes away, and neighbours that it keeps. */
static void fields_are_trimmed_as_ecmascript_trims(void **state)
{
	static const char *const blank[] = {
		"\t", "\n", "\v", "\f", "\r", " ", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
		"\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
		"\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff", " \u00a0\t\ufeff ",
	};
	static const char *const kept[] = { "\xc2\x85", "\u180e", "\u200b", "\u200c", "\u2060",
					    "\x1c", "\x1f", "\x01", "\u00ad" };
	struct session s;
	char text[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(blank); i++) {
		snprintf(text, sizeof(text), "%sa%sb%s", blank[i], blank[i], blank[i]);
		assert_int_equal(mint(text, text, "chat", text, 0, &s), REASON_NONE);
		snprintf(text, sizeof(text), "a%sb", blank[i]);
		assert_string_equal(s.org_id, text);
		assert_string_equal(s.user_id, text);
		assert_string_equal(s.run_id, text);
		assert_int_equal(mint(blank[i], "u", "chat", NULL, 0, &s), REASON_NO_SESSION);
		assert_int_equal(mint("o", "u", "chat", blank[i], 0, &s), REASON_NONE);
		assert_string_equal(s.run_id, "");
	}
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		snprintf(text, sizeof(text), "%sa%s", kept[i], kept[i]);
		assert_int_equal(mint(text, "u", "chat", NULL, 0, &s), REASON_NONE);
		assert_string_equal(s.org_id, text);
	}
}

/* A field of a carrier stands in a longer text: what is behind it is not its end. */
static void a_slice_is_trimmed_at_its_own_ends(void **state)
{
	static const char text[] = "x \t o \t x";
	size_t len;

	(void)state;
	const char *at = session_trim(text + 1, sizeof(text) - 3, &len);
	assert_int_equal(len, 1);
	assert_int_equal(*at, 'o');
	at = session_trim("  x", 2, &len);
	assert_int_equal(len, 0);
}

static void an_unidentifiable_caller_is_no_session(void **state)
{
	static const char *const bad_surface[] = { "", "Chat", "chats", "cha", "agent-run", "agent_run\x01",
						   "system", "0", "1" };
	struct session s;
	const char *why = NULL;
	struct session_claim nobody = { NULL, "u", "chat", NULL };

	(void)state;
	assert_int_equal(mint("", "u", "chat", NULL, 0, &s), REASON_NO_SESSION);
	assert_int_equal(mint("o", "", "chat", NULL, 0, &s), REASON_NO_SESSION);
	assert_int_equal(mint("o", NULL, "chat", NULL, 0, &s), REASON_NO_SESSION);
	assert_int_equal(mint("o", "u", NULL, NULL, 0, &s), REASON_NO_SESSION);
	assert_int_equal(session_mint(&nobody, 0, &s, &why), REASON_NO_SESSION);
	assert_string_equal(why, "orgId is empty");
	for (size_t i = 0; i < ARRAY_SIZE(bad_surface); i++)
		assert_int_equal(mint("o", "u", bad_surface[i], NULL, 0, &s), REASON_NO_SESSION);
}

static void every_surface_has_one_name(void **state)
{
	static const char *const names[] = { "chat", "agent_run", "deterministic_task", "skill_task" };
	struct session s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char spaced[64];
		snprintf(spaced, sizeof(spaced), "\ufeff %s\n", names[i]);
		assert_int_equal(mint("o", "u", spaced, NULL, 0, &s), REASON_NONE);
		assert_string_equal(surface_name(s.surface), names[i]);
	}
	assert_null(surface_name(SURFACE_NONE));
	assert_null(surface_name(SURFACE_COUNT));
}

static void overlong_and_broken_text_is_refused(void **state)
{
	static const char *const bad[] = { "\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf",
					   "\xf4\x90\x80\x80", "\x80", "\xe2\x80" };
	char text[SESSION_FIELD_MAX + 3];
	struct session s;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[SESSION_FIELD_MAX] = '\0';
	assert_int_equal(mint(text, text, "chat", text, 0, &s), REASON_NONE);
	text[SESSION_FIELD_MAX] = ' '; /* trimmed before it is measured */
	text[SESSION_FIELD_MAX + 1] = '\0';
	assert_int_equal(mint(text, "u", "chat", NULL, 0, &s), REASON_NONE);
	text[SESSION_FIELD_MAX] = 'x';
	assert_int_equal(mint(text, "u", "chat", NULL, 0, &s), REASON_INVALID_REQUEST);
	assert_int_equal(mint("o", "u", "chat", text, 0, &s), REASON_INVALID_REQUEST);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(mint(bad[i], "u", "chat", NULL, 0, &s), REASON_INVALID_REQUEST);
		assert_int_equal(mint("o", bad[i], "chat", NULL, 0, &s), REASON_INVALID_REQUEST);
		assert_int_equal(mint("o", "u", "chat", bad[i], 0, &s), REASON_INVALID_REQUEST);
	}
}

static void the_handshake_identity_is_reserved(void **state)
{
	struct session s;

	(void)state;
	assert_int_equal(mint("cordon:handshake", "cordon:handshake", "chat", NULL, 0, &s),
			 REASON_NO_SESSION);
	assert_int_equal(mint("cordon:handshake", "u", "chat", NULL, 0, &s), REASON_NO_SESSION);
	assert_int_equal(mint("o", "\u00a0cordon:handshake ", "chat", NULL, 0, &s),
			 REASON_NO_SESSION);
	assert_int_equal(mint("cordon:handshake", "cordon:handshake", "chat", NULL, MINT_HANDSHAKE, &s),
			 REASON_NONE);
	assert_int_equal(mint("cordon:handshake2", "u", "chat", "cordon:handshake", 0, &s),
			 REASON_NONE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_trimmed_as_ecmascript_trims),
		cmocka_unit_test(a_slice_is_trimmed_at_its_own_ends),
		cmocka_unit_test(an_unidentifiable_caller_is_no_session),
		cmocka_unit_test(every_surface_has_one_name),
		cmocka_unit_test(overlong_and_broken_text_is_refused),
		cmocka_unit_test(the_handshake_identity_is_reserved),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
