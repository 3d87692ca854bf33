/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount table against the plan (B6). The launcher is built for another C
 * library than the tests: its file is included here, not linked. The tables
 * are those the plan itself asks for, with one thing wrong in each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Before cmocka, whose fail() is another. */
#include "launcher/plan.c"

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct line {
	const char *root, *target, *type, *tag;
	unsigned flags;
};

static char text[32768];
static struct line lines[80];
static unsigned nlines;

/* The first of a blank-separated list of types. */
static const char *first_type(const struct plan_mount *m)
{
	static char types[64][32];
	char *t = types[m - plan_mounts];

	sscanf(m->fstypes, "%31s", t);
	return t;
}

/* A table that is the plan. */
static void whole(bool has_view)
{
	nlines = 0;
	for (unsigned i = 0; i < plan_mounts_count; i++) {
		const struct plan_mount *m = &plan_mounts[i];
		if (m->kind == PLAN_VIEW && !has_view)
			continue;
		lines[nlines++] = (struct line){ m->root ? m->root : "/j7", m->target, first_type(m), "", m->flags };
	}
}

static struct line *line_of(const char *target)
{
	for (unsigned i = 0; i < nlines; i++)
		if (strcmp(lines[i].target, target) == 0)
			return &lines[i];
	fail_msg("no line for %s", target);
	return NULL;
}

static const char *judge(bool has_view)
{
	struct failure f = { 0 };
	char *o = text;

	for (unsigned i = 0; i < nlines; i++) {
		const struct line *l = &lines[i];
		o += sprintf(o, "%u 1 0:%u %s %s %s%s%s%s,relatime %s- %s none rw,size=1k\n", 40 + i, i,
			     l->root, l->target, l->flags & PLAN_RO ? "ro" : "rw",
			     l->flags & PLAN_NOSUID ? ",nosuid" : "", l->flags & PLAN_NODEV ? ",nodev" : "",
			     l->flags & PLAN_NOEXEC ? ",noexec" : "", l->tag, l->type);
	}
	*o = '\0';
	return plan_judge(text, has_view, &f) == 0 ? NULL : f.step;
}

static void the_plan_itself_is_accepted(void **state)
{
	(void)state;
	whole(false);
	assert_null(judge(false));
	whole(true);
	assert_null(judge(true));
}

static void any_other_flag_is_refused(void **state)
{
	(void)state;
	for (unsigned i = 0; i < plan_mounts_count; i++)
		for (unsigned bit = PLAN_RO; bit <= PLAN_NOEXEC; bit <<= 1) {
			whole(true);
			line_of(plan_mounts[i].target)->flags ^= bit;
			assert_string_equal(judge(true), "mount table: flags differ from the plan");
		}
}

static void a_mount_too_many_is_refused(void **state)
{
	static const char *const targets[] = { "/etc", "/workspace/x", "/dev/pts", "/sys", "/proc/kcor" };

	(void)state;
	for (size_t i = 0; i < COUNT(targets); i++) {
		whole(false);
		lines[nlines++] = (struct line){ "/", targets[i], "tmpfs", "", PLAN_NOSUID | PLAN_NODEV };
		assert_string_equal(judge(false), "mount table: a mount not in the plan");
	}
}

static void a_target_mounted_twice_is_refused(void **state)
{
	(void)state;
	for (unsigned i = 0; i < plan_mounts_count; i++) {
		whole(true);
		lines[nlines] = *line_of(plan_mounts[i].target);
		nlines++;
		assert_string_equal(judge(true), "mount table: a target mounted twice");
	}
}

/* A mask may be missing only where the kernel has no such file: here those it has are due. */
static void a_missing_mount_is_refused(void **state)
{
	unsigned tried = 0;

	(void)state;
	for (unsigned i = 0; i < plan_mounts_count; i++) {
		bool is_mask = plan_mounts[i].kind == PLAN_MASK_DIR || plan_mounts[i].kind == PLAN_MASK_FILE;
		whole(true);
		*line_of(plan_mounts[i].target) = lines[nlines - 1];
		nlines--;
		const char *why = judge(true);
		if (is_mask && access(plan_mounts[i].target, F_OK) < 0) {
			assert_null(why);
			continue;
		}
		assert_string_equal(why, "mount table: a planned mount is missing");
		tried++;
	}
	assert_true(tried > 10);
	nlines = 0;
	assert_string_equal(judge(false), "mount table: a planned mount is missing");
}

static void a_mount_that_propagates_is_refused(void **state)
{
	static const char *const tags[] = { "shared:1 ", "master:3 ", "shared:1 master:3 ", "unbindable " };

	(void)state;
	for (size_t i = 0; i < COUNT(tags); i++) {
		whole(false);
		line_of("/tmp")->tag = tags[i];
		assert_string_equal(judge(false), "mount table: a mount propagates");
	}
}

static void another_type_or_root_is_refused(void **state)
{
	(void)state;
	for (unsigned i = 0; i < plan_mounts_count; i++) {
		static const char *const types[] = { "bpf", "tmp", "tmpfs2", "cgroup2", "overlay2", "" };
		for (size_t t = 0; t < COUNT(types); t++) {
			whole(true);
			line_of(plan_mounts[i].target)->type = types[t];
			assert_string_equal(judge(true), "mount table: a type not in the plan");
		}
		if (!plan_mounts[i].root)
			continue;
		whole(true);
		line_of(plan_mounts[i].target)->root = "/home";
		assert_string_equal(judge(true), "mount table: a root not in the plan");
	}
}

static void a_view_comes_only_when_asked_for(void **state)
{
	(void)state;
	whole(true);
	assert_string_equal(judge(false), "mount table: a view nobody asked for");
	whole(false);
	assert_string_equal(judge(true), "mount table: a planned mount is missing");
}

static void what_is_no_table_is_refused(void **state)
{
	static const char *const bad[] = {
		"x",	  "\n",	       "1 2 3\n",	     "1 2 0:1 / / rw\n",
		"1 2 0:1 / / rw -\n", "1 2 0:1 / / ro,nosuid,nodev - erofs none rw", " \n", "1 2 0:1 /\n\n",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct failure f = { 0 };
		strcpy(text, bad[i]);
		assert_int_equal(plan_judge(text, false, &f), -1);
		assert_non_null(f.step);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_plan_itself_is_accepted),
		cmocka_unit_test(any_other_flag_is_refused),
		cmocka_unit_test(a_mount_too_many_is_refused),
		cmocka_unit_test(a_target_mounted_twice_is_refused),
		cmocka_unit_test(a_missing_mount_is_refused),
		cmocka_unit_test(a_mount_that_propagates_is_refused),
		cmocka_unit_test(another_type_or_root_is_refused),
		cmocka_unit_test(a_view_comes_only_when_asked_for),
		cmocka_unit_test(what_is_no_table_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
