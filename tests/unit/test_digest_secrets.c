/* SPDX-License-Identifier: Apache-2.0 */
/* S4: versions, permissions, and that every refusal names the file. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "digest/digest.h"
#include "digest/secrets.h"

struct place {
	char dir[64];
	int fd;
};

static int start(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	strcpy(p->dir, "/tmp/cordon-secrets-XXXXXX");
	if (!mkdtemp(p->dir))
		return -1;
	p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mkdirat(p->fd, "carrier", 0700);
	*state = p;
	return 0;
}

static int stop(void **state)
{
	struct place *p = *state;
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf -- '%s'", p->dir);
	close(p->fd);
	free(p);
	return system(cmd);
}

static void put(struct place *p, const char *name, const char *bytes, size_t len, mode_t mode)
{
	char path[128];
	struct err e;

	snprintf(path, sizeof(path), "carrier/%s", name);
	assert_int_equal(fd_replace_file(p->fd, path, bytes, len, mode, &e), 0);
}

static int load(struct place *p, struct secret_set **ret, struct err *e)
{
	return secrets_load(p->fd, "carrier", getuid(), ret, e);
}

static void assert_refused(struct place *p, int code, const char *names)
{
	struct secret_set *set = (void *)1;
	struct err e = { 0 };

	assert_int_equal(load(p, &set, &e), -code);
	assert_ptr_equal(set, (void *)1);
	if (!strstr(e.msg, names))
		fail_msg("'%s' does not name '%s'", e.msg, names);
}

static void the_highest_version_is_current_and_all_are_found(void **state)
{
	struct place *p = *state;
	struct secret_set *set;
	struct err e;

	put(p, "9", "nine\n", 5, 0400);
	put(p, "10", "ten", 3, 0600);
	put(p, "2", "two\n\n", 5, 0400);
	assert_int_equal(load(p, &set, &e), 0);
	assert_int_equal(secrets_current(set)->version, 10);
	assert_int_equal(secrets_current(set)->len, 3);
	assert_memory_equal(secrets_version(set, 9)->key, "nine", 4);
	assert_int_equal(secrets_version(set, 9)->len, 4);
	assert_int_equal(secrets_version(set, 2)->len, 4); /* less one newline, not two */
	assert_null(secrets_version(set, 1));
	assert_null(secrets_version(set, 0));
	assert_int_equal(secrets_at(set, 1)->version, 9);
	assert_int_equal(secrets_at(set, 2)->version, 2);
	assert_null(secrets_at(set, 3));
	secrets_free(set);
}

static void a_secret_that_others_can_read_is_refused(void **state)
{
	static const mode_t open_to[] = { 0440, 0404, 0420, 0402, 0410, 0401, 0644, 0666, 0777 };
	struct place *p = *state;

	for (size_t i = 0; i < ARRAY_SIZE(open_to); i++) {
		put(p, "1", "key", 3, open_to[i]);
		assert_refused(p, EPERM, "carrier/1");
	}
	put(p, "1", "key", 3, 0400);
	assert_int_equal(fchmodat(p->fd, "carrier", 0770, 0), 0);
	assert_refused(p, EPERM, "carrier");
	assert_int_equal(fchmodat(p->fd, "carrier", 0700, 0), 0);
	struct secret_set *set;
	struct err e;
	assert_int_equal(load(p, &set, &e), 0); /* the control */
	secrets_free(set);
}

static void a_secret_of_another_owner_is_refused(void **state)
{
	struct place *p = *state;
	struct secret_set *set;
	struct err e;

	if (getuid() != 0)
		skip();
	put(p, "1", "key", 3, 0400);
	assert_int_equal(fchownat(p->fd, "carrier/1", 4242, 4242, 0), 0);
	assert_refused(p, EPERM, "carrier/1");
	assert_int_equal(secrets_load(p->fd, "carrier", 4242, &set, &e), 0);
	secrets_free(set);
	assert_int_equal(fchownat(p->fd, "carrier", 4243, 4243, 0), 0);
	assert_refused(p, EPERM, "carrier");
}

static void what_is_no_key_file_is_refused_by_name(void **state)
{
	static char big[SECRET_MAX + 2];
	struct place *p = *state;
	struct secret_set *set;
	struct err e;

	assert_refused(p, ENOENT, "carrier"); /* no version at all */
	put(p, "1", "", 0, 0400);
	assert_refused(p, EINVAL, "carrier/1");
	put(p, "1", "\n", 1, 0400);
	assert_refused(p, EINVAL, "carrier/1");
	memset(big, 'k', sizeof(big));
	put(p, "1", big, SECRET_MAX + 1, 0400);
	assert_refused(p, EFBIG, "carrier/1");
	put(p, "1", big, SECRET_MAX, 0400);
	assert_int_equal(load(p, &set, &e), 0);
	secrets_free(set);

	static const char *const names[] = { "01", "0", "1x", "x", "-1", "+1", " 1", "1~", "1234567890" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[64];
		put(p, names[i], "key", 3, 0400);
		assert_refused(p, EINVAL, names[i]);
		snprintf(path, sizeof(path), "carrier/%s", names[i]);
		unlinkat(p->fd, path, 0);
	}
	assert_int_equal(symlinkat("1", p->fd, "carrier/2"), 0);
	assert_refused(p, ELOOP, "carrier/2");
	unlinkat(p->fd, "carrier/2", 0);
	assert_int_equal(mkfifoat(p->fd, "carrier/2", 0400), 0); /* must not hang either */
	assert_refused(p, EINVAL, "carrier/2");
	unlinkat(p->fd, "carrier/2", 0);
	assert_int_equal(mkdirat(p->fd, "carrier/2", 0500), 0);
	assert_refused(p, EINVAL, "carrier/2");
	unlinkat(p->fd, "carrier/2", AT_REMOVEDIR);
	put(p, ".hidden", "x", 1, 0400);
	put(p, "3.77.new", "half", 4, 0400);
	assert_int_equal(load(p, &set, &e), 0); /* a writer at work is not in the way */
	assert_null(secrets_version(set, 3));
	secrets_free(set);
}

static void too_many_versions_are_refused(void **state)
{
	struct place *p = *state;
	char name[16];

	for (int i = 1; i <= SECRET_VERSIONS_MAX + 1; i++) {
		snprintf(name, sizeof(name), "%d", i);
		put(p, name, "k", 1, 0400);
	}
	assert_refused(p, E2BIG, "carrier/");
}

static void generated_secrets_are_64_digits_and_never_overwritten(void **state)
{
	struct place *p = *state;
	struct secret_set *a, *b;
	struct stat st;
	struct err e;
	uint8_t raw[32];
	char text[65];

	assert_int_equal(secrets_generate(p->fd, "chain", 1, getuid(), getgid(), &e), 0);
	assert_int_equal(fstatat(p->fd, "chain/1", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	assert_int_equal(fstatat(p->fd, "chain", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(secrets_load(p->fd, "chain", getuid(), &a, &e), 0);
	assert_int_equal(secrets_current(a)->len, SECRET_GENERATED_LEN);
	memcpy(text, secrets_current(a)->key, 64);
	text[64] = '\0';
	assert_int_equal(digest_unhex(text, raw, 32), 0);
	assert_int_equal(secrets_generate(p->fd, "chain", 1, getuid(), getgid(), &e), -EEXIST);
	assert_non_null(strstr(e.msg, "chain/1"));
	assert_int_equal(secrets_generate(p->fd, "chain", 2, getuid(), getgid(), &e), 0);
	assert_int_equal(secrets_load(p->fd, "chain", getuid(), &b, &e), 0);
	assert_int_equal(secrets_current(b)->version, 2);
	assert_memory_not_equal(secrets_current(b)->key, secrets_current(a)->key, 64);
	assert_memory_equal(secrets_version(b, 1)->key, secrets_current(a)->key, 64);
	secrets_free(a);
	secrets_free(b);
	secrets_free(NULL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
	static const struct CMUnitTest tests[] = {
		T(the_highest_version_is_current_and_all_are_found),
		T(a_secret_that_others_can_read_is_refused),
		T(a_secret_of_another_owner_is_refused),
		T(what_is_no_key_file_is_refused_by_name),
		T(too_many_versions_are_refused),
		T(generated_secrets_are_64_digits_and_never_overwritten),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
