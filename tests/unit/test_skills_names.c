/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of files and the rows they come from: computed, disjoint, never twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include "fuse-skills/names.h"
#include "fuse-skills/state.h"

static void numbers_are_read_back(void **state)
{
	(void)state;
	for (uint64_t view = 1; view <= VIEW_LAST; view = view * 3 + 1) {
		struct name n = name_read(name_view(view));
		assert_true(n.kind == NAME_VIEW && n.view == view);
		n = name_read(name_dir(view, 7, 0));
		assert_true(n.kind == NAME_DIR && n.view == view && n.pos == 7 && n.entry == 0);
		n = name_read(name_dir(view, K_SKILLS_MAX - 1, (1u << ENTRY_BITS) - 1));
		assert_true(n.kind == NAME_DIR && n.pos == K_SKILLS_MAX - 1 && n.entry == (1u << ENTRY_BITS) - 1);
	}
	for (uint64_t version = 1; version <= UINT32_MAX; version = version * 5 + 1) {
		struct name n = name_read(name_shared(version, 9));
		assert_true(n.kind == NAME_SHARED && n.version == version && n.entry == 9);
	}
	assert_int_equal(name_read(NODE_ROOT).kind, NAME_ROOT);
	assert_int_equal(name_read(0).kind, NAME_NONE);
	assert_int_equal(name_read(2).kind, NAME_NONE);
	assert_int_equal(name_read(NODE_SHARED).kind, NAME_NONE);
	assert_int_equal(name_read(name_shared(1, 0)).kind, NAME_NONE);
	assert_int_equal(name_read(name_view(1) | 5).kind, NAME_NONE);
}

static struct state *fresh(int *ret_fd)
{
	struct state *s = NULL;
	struct err e;

	*ret_fd = memfd_create("state", MFD_CLOEXEC);
	if (state_open(*ret_fd, &s, &e) < 0)
		fail_msg("%s", e.msg);
	return s;
}

static bool never(uint32_t no, void *arg)
{
	(void)no;
	(void)arg;
	return false;
}

static void views_are_numbered_once(void **state)
{
	uint32_t list[K_SKILLS_MAX], versions[2] = { 4, 5 };
	uint64_t last = 0;
	int fd;
	struct state *s = fresh(&fd);

	(void)state;
	for (int i = 0; i < 3 * STATE_VIEWS; i++) {
		uint64_t no = state_view_add(s, versions, 2, 1);
		assert_true(no > last);
		last = no;
		assert_int_equal(state_view_list(s, no, list), 2);
		assert_int_equal(list[1], 5);
		state_view_drop(s, no);
		assert_int_equal(state_view_list(s, no, list), -1);
		assert_null(state_view(s, no));
	}
	for (int i = 0; i < STATE_VIEWS; i++)
		assert_int_not_equal(state_view_add(s, versions, 2, 1), 0);
	assert_int_equal(state_view_add(s, versions, 2, 1), 0);
	munmap(s, sizeof(*s));
	close(fd);
}

static void versions_in_use_keep_their_rows(void **state)
{
	struct state_version v = { .slug = "a" }, copy;
	int fd;
	struct state *s = fresh(&fd);

	(void)state;
	uint32_t first = state_version_add(s, &v, never, NULL);
	for (int i = 1; i < STATE_VERSIONS; i++)
		assert_int_not_equal(state_version_add(s, &v, never, NULL), 0);
	assert_int_equal(state_version_add(s, &v, never, NULL), 0);
	assert_true(state_version_copy(s, first, &copy));
	assert_string_equal(copy.slug, "a");
	assert_false(state_version_copy(s, first + STATE_VERSIONS, &copy));
	munmap(s, sizeof(*s));
	close(fd);
}

static void a_successor_finds_what_was_there(void **state)
{
	uint32_t versions[1] = { 1 }, list[K_SKILLS_MAX];
	struct state *again = NULL;
	int fd;
	struct state *s = fresh(&fd);
	struct err e;

	(void)state;
	uint64_t no = state_view_add(s, versions, 1, 1);
	state_bind(s, 1000, no);
	munmap(s, sizeof(*s));
	assert_int_equal(state_open(fd, &again, &e), 0);
	assert_int_equal(state_view_list(again, no, list), 1);
	assert_int_equal(state_bound(again, 1000), no);
	assert_int_equal(state_bound(again, 1000 + STATE_BINDS), 0);
	assert_true(state_view_add(again, versions, 1, 1) > no);
	munmap(again, sizeof(*again));
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_true(state_open(fd, &again, &e) < 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_read_back),
		cmocka_unit_test(views_are_numbered_once),
		cmocka_unit_test(versions_in_use_keep_their_rows),
		cmocka_unit_test(a_successor_finds_what_was_there),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("skills_names", tests, NULL, NULL);
}
