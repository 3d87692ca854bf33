/* SPDX-License-Identifier: Apache-2.0 */
/* Which package sources of a host are Debian's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "image/sources.h"

#define SIGNED "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "

static enum sources_verdict choose(const char *text, struct sources *s)
{
	char copy[16384];

	snprintf(copy, sizeof(copy), "%s", text);
	return sources_choose(copy, "bookworm", s);
}

static void debians_three_pockets_are_kept_in_order(void **state)
{
	struct sources s;

	(void)state;
	assert_int_equal(
		choose("deb|main|bookworm|bookworm|Debian|http://m/debian/\n"
		       "deb|main|bookworm-updates|bookworm-updates|Debian|http://m/debian/\n"
		       "deb|main|bookworm-security|bookworm-security|Debian|http://m/sec/\n",
		       &s),
		SOURCES_OK);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.entry[0], SIGNED "http://m/debian/ bookworm main");
	assert_string_equal(s.entry[2], SIGNED "http://m/sec/ bookworm-security main");
}

static void everybody_elses_are_left_out(void **state)
{
	static const char *const others[] = {
		"deb|contrib|bookworm|bookworm|Debian|http://m/debian/\n",
		"deb|non-free-firmware|bookworm|bookworm|Debian|http://m/debian/\n",
		"deb-src|main|bookworm|bookworm|Debian|http://m/debian/\n",
		"deb|main|bookworm|bookworm|Vendor|http://vendor/apt/\n",
		"deb|stable|bookworm|bookworm|Docker|http://vendor/apt/\n",
		"deb|main|nodistro|nodistro|. nodistro|http://vendor/apt/\n",
		"deb|main|bookworm-pgdg|bookworm-pgdg|$(ORIGIN)|http://vendor/apt/\n",
		"deb|main|bookworm-backports|bookworm-backports|Debian|http://m/debian/\n",
		"deb|main|trixie|trixie|Debian|http://m/debian/\n",
		"deb|main|bookworm|bookworm|Debian|cdrom:[Debian]/\n",
		"deb|main|bookworm|bookworm|Debian|http://m/a b/\n",
		"deb|main|bookworm|bookworm|Debian|http://m/] x/\n",
		"deb|main|bookworm|bookworm|Debian|\n",
		"deb|main|bookworm|bookworm|Debian\n",
		"deb|main|bookworm|bookworm|Debian|http://m/debian/|more\n",
		"\n",
		"",
	};
	struct sources s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(choose(others[i], &s), SOURCES_NONE);
}

static void suite_named_stable_is_known_by_its_codename(void **state)
{
	struct sources s;

	(void)state;
	assert_int_equal(choose("deb|main|stable|bookworm|Debian|http://m/debian/\n", &s),
			 SOURCES_OK);
	assert_string_equal(s.entry[0], SIGNED "http://m/debian/ bookworm main");
	assert_int_equal(choose("deb|main|stable|$(CODENAME)|$(ORIGIN)|http://m/debian/\n", &s),
			 SOURCES_NONE);
}

static void host_without_lists_still_has_sources(void **state)
{
	struct sources s;

	(void)state;
	assert_int_equal(choose("deb|main|bookworm|$(CODENAME)|$(ORIGIN)|http://m/debian/\n"
				"deb|main|bookworm|$(CODENAME)|$(ORIGIN)|http://m/debian/\n",
				&s),
			 SOURCES_OK);
	assert_int_equal(s.n, 1);
}

static void too_much_is_refused_not_cut(void **state)
{
	char text[4096] = "";
	struct sources s;

	(void)state;
	for (int i = 0; i <= SOURCES_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "deb|main|bookworm|bookworm|Debian|http://m%d/\n", i);
	assert_int_equal(choose(text, &s), SOURCES_TOO_MANY);
	snprintf(text, sizeof(text), "deb|main|bookworm|bookworm|Debian|http://%0600d/\n", 1);
	assert_int_equal(choose(text, &s), SOURCES_TOO_LONG);
}

static void passwords_of_mirrors_stay_outside(void **state)
{
	char out[SOURCE_SIZE];

	(void)state;
	sources_public(SIGNED "https://user:p@ss@m/debian/ bookworm main", out);
	assert_string_equal(out, SIGNED "https://m/debian/ bookworm main");
	sources_public(SIGNED "http://m/deb@ian/ bookworm main", out);
	assert_string_equal(out, SIGNED "http://m/deb@ian/ bookworm main");
	sources_public(SIGNED "file:/srv/debian bookworm main", out);
	assert_string_equal(out, SIGNED "file:/srv/debian bookworm main");
}

static void entry_longer_than_any_is_not_shown_at_all(void **state)
{
	char entry[SOURCE_SIZE + 1], out[SOURCE_SIZE] = "before";

	(void)state;
	memset(entry, 'x', SOURCE_SIZE);
	entry[SOURCE_SIZE] = '\0';
	sources_public(entry, out);
	assert_string_equal(out, "");
	entry[SOURCE_SIZE - 1] = '\0';
	sources_public(entry, out);
	assert_string_equal(out, entry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(debians_three_pockets_are_kept_in_order),
		cmocka_unit_test(everybody_elses_are_left_out),
		cmocka_unit_test(suite_named_stable_is_known_by_its_codename),
		cmocka_unit_test(host_without_lists_still_has_sources),
		cmocka_unit_test(too_much_is_refused_not_cut),
		cmocka_unit_test(passwords_of_mirrors_stay_outside),
		cmocka_unit_test(entry_longer_than_any_is_not_shown_at_all),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("image/sources", tests, NULL, NULL);
}
