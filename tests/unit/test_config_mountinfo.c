/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of mountinfo and cgroup as kernels write them, and as nobody should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/mountinfo.h"

static char text[512];

static int parse(const char *line, struct mount_line *m)
{
	snprintf(text, sizeof(text), "%s", line);
	return mount_line_parse(text, m);
}

static void a_line_of_the_kernel_is_cut_up(void **state)
{
	static const struct {
		const char *line, *root, *target, *type, *source, *options;
	} rows[] = {
		{ "36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n", "/", "/mnt",
		  "ext3", "/dev/root", "rw,errors=continue" },
		{ "30 23 0:26 / /sys/fs/cgroup/memory rw shared:1 master:2 unbindable - cgroup cgroup rw,memory",
		  "/", "/sys/fs/cgroup/memory", "cgroup", "cgroup", "rw,memory" },
		{ "41 23 0:3 net:[4026531840] /run/netns/a rw - nsfs nsfs rw\n", "net:[4026531840]",
		  "/run/netns/a", "nsfs", "nsfs", "rw" },
		{ "1 2 0:1 /a\\040b /c\\134\\011d\\043 rw - tmpfs x\\012y rw\n", "/a b", "/c\\\td#", "tmpfs",
		  "x\ny", "rw" },
		{ "1 2 0:1 / /m rw - tmpfs  rw\n", "/", "/m", "tmpfs", "", "rw" },
		{ "1 2 0:1 / /m\\9 rw - tmpfs a\\04 rw\n", "/", "/m\\9", "tmpfs", "a\\04", "rw" },
		{ "1 2 0:1 / /a-b rw - tmpfs - rw\n", "/", "/a-b", "tmpfs", "-", "rw" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct mount_line m;
		assert_int_equal(parse(rows[i].line, &m), 0);
		assert_string_equal(m.root, rows[i].root);
		assert_string_equal(m.target, rows[i].target);
		assert_string_equal(m.type, rows[i].type);
		assert_string_equal(m.source, rows[i].source);
		assert_string_equal(m.options, rows[i].options);
	}
}

static void what_is_no_line_is_refused(void **state)
{
	static const char *const rows[] = {
		"",
		"\n",
		"-",
		"1 2 0:1 / /m rw",
		"1 2 0:1 / /m rw -",
		"1 2 0:1 / /m rw - tmpfs",
		"1 2 0:1 / /m rw - tmpfs source",
		"1 2 0:1 / /m rw - tmpfs source rw more",
		"1 2 0:1 / /m rw shared:1 tmpfs source rw",
		"1 2 0:1 / relative rw - tmpfs source rw",
		"1 2 0:1  /m rw - tmpfs source rw",
		"1 2 0:1 /  rw - tmpfs source rw",
		"1 2 0:1 / /m rw -  source rw",
		"1  2 0:1 / /m rw - tmpfs source rw",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct mount_line m;
		if (parse(rows[i], &m) == 0)
			fail_msg("taken: '%s'", rows[i]);
	}
}

static void controllers_are_what_the_options_name(void **state)
{
	static const struct {
		const char *options, *controllers;
	} rows[] = {
		{ "rw,memory", "memory" },
		{ "rw,cpu,cpuacct", "cpu,cpuacct" },
		{ "rw,xattr,release_agent=/lib/memory,name=systemd", "name=systemd" },
		{ "rw,nsdelegate,memory_recursiveprot", "" },
		{ "rw,name=", "" },
		{ ",,pids,,", "pids" },
		{ "", "" },
	};
	char ret[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(cgroup_controllers(rows[i].options, ret, sizeof(ret)), 0);
		assert_string_equal(ret, rows[i].controllers);
	}
	assert_int_equal(cgroup_controllers("cpu,cpuacct", ret, 12), 0);
	assert_int_equal(cgroup_controllers("cpu,cpuacct", ret, 11), -1);
	assert_int_equal(cgroup_controllers("pids", ret, 5), 0);
	assert_int_equal(cgroup_controllers("pids", ret, 4), -1);
	assert_int_equal(cgroup_controllers("rw", ret, 1), 0);
}

static void a_word_of_a_list_is_the_whole_word(void **state)
{
	(void)state;
	assert_true(cgroup_has_controller("cpu,cpuacct", "cpu"));
	assert_true(cgroup_has_controller("cpu,cpuacct", "cpuacct"));
	assert_false(cgroup_has_controller("cpuacct", "cpu"));
	assert_false(cgroup_has_controller("cpu", "cpuacct"));
	assert_false(cgroup_has_controller("", "cpu"));
}

static void each_hierarchy_has_its_own_path(void **state)
{
	static const char *const table = "12:memory:/a/b\n"
					 "11:cpu,cpuacct:/c:d\n"
					 "3:\n"
					 "x\n"
					 "1:name=systemd:/init.scope\n"
					 "0::/user.slice\n";
	static const struct {
		const char *controllers, *own;
	} rows[] = {
		{ "memory", "/a/b" },
		{ "cpu,cpuacct", "/c:d" },
		{ "cpuacct,cpu", "/c:d" },
		{ "name=systemd", "/init.scope" },
		{ "", "/user.slice" },
		{ "pids", "/" },
		{ "mem", "/" },
	};
	char ret[32];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(cgroup_own_path(table, rows[i].controllers, ret, sizeof(ret)), 0);
		assert_string_equal(ret, rows[i].own);
	}
	assert_int_equal(cgroup_own_path("0::/abc", "", ret, 5), 0);
	assert_string_equal(ret, "/abc");
	assert_int_equal(cgroup_own_path("0::/abc", "", ret, 4), -1);
	assert_int_equal(cgroup_own_path("", "", ret, 2), 0);
	assert_int_equal(cgroup_own_path("", "", ret, 1), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_of_the_kernel_is_cut_up),
		cmocka_unit_test(what_is_no_line_is_refused),
		cmocka_unit_test(controllers_are_what_the_options_name),
		cmocka_unit_test(a_word_of_a_list_is_the_whole_word),
		cmocka_unit_test(each_hierarchy_has_its_own_path),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
