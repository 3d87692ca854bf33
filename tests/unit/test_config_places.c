/* SPDX-License-Identifier: Apache-2.0 */
/* Where an instance lives: one ROOT, every path below it, one name. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "config/places.h"

static void the_host_itself_has_no_double_slash(void **state)
{
	struct places p;
	struct err e;

	(void)state;
	unsetenv("CORDON_ROOT");
	assert_int_equal(places_init(NULL, &p, &e), 0);
	assert_string_equal(p.root, "/");
	assert_string_equal(p.conf, "/etc/cordon/cordon.conf");
	assert_string_equal(p.socket, "/run/cordon/broker.sock");
	assert_string_equal(p.state, "/var/lib/cordon");
}

/* SHA-256("/") and of nothing else: names are stable across builds. */
static void a_name_is_eight_digits_of_the_roots_hash(void **state)
{
	struct places p;
	struct err e;
	char name[INSTANCE_MAX];

	(void)state;
	unsetenv("CORDON_ROOT");
	assert_int_equal(places_init("/", &p, &e), 0);
	places_instance(&p, name);
	assert_string_equal(name, "cordon-8a5edab2");
}

static void every_spelling_of_a_root_is_one_instance(void **state)
{
	static const char *const spellings[] = { "/usr/lib", "/usr/lib/", "/usr//lib", "/usr/../usr/lib",
						 "/usr/./lib" };
	char first[INSTANCE_MAX] = "", name[INSTANCE_MAX];
	struct places p;
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
		assert_int_equal(places_init(spellings[i], &p, &e), 0);
		assert_string_equal(p.root, "/usr/lib");
		places_instance(&p, name);
		if (i)
			assert_string_equal(name, first);
		strcpy(first, name);
	}
}

static void the_environment_speaks_where_no_root_is_given(void **state)
{
	struct places p;
	struct err e;

	(void)state;
	setenv("CORDON_ROOT", "/usr", 1);
	assert_int_equal(places_init(NULL, &p, &e), 0);
	assert_string_equal(p.root, "/usr");
	assert_int_equal(places_init("", &p, &e), 0);
	assert_string_equal(p.root, "/usr");
	assert_int_equal(places_init("/var", &p, &e), 0);
	assert_string_equal(p.root, "/var");
	unsetenv("CORDON_ROOT");
}

static void a_root_that_is_not_there_is_named(void **state)
{
	struct places p;
	struct err e;

	(void)state;
	assert_int_equal(places_init("/no/such/root", &p, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "/no/such/root"));
}

/* Every length up to the limit works, the next one is refused: nothing is cut off. */
static void the_sockets_path_has_a_limit(void **state)
{
	char top[] = "/tmp/cordon-places-XXXXXX", path[512];
	int fits = 0, refused = 0;

	(void)state;
	assert_non_null(mkdtemp(top));
	for (int n = 40; n < 120; n++) {
		struct places p;
		struct err e;
		snprintf(path, sizeof(path), "%s/%0*d", top, n, 0);
		if (mkdir(path, 0700) < 0)
			fail();
		int rc = places_init(path, &p, &e);
		if (rc == 0) {
			assert_true(strlen(p.control) <= PLACES_SOCKET_MAX);
			assert_true(strlen(p.socket) <= PLACES_SOCKET_MAX);
			assert_int_equal(refused, 0);
			fits++;
		} else {
			assert_int_equal(rc, -ENAMETOOLONG);
			refused++;
		}
		rmdir(path);
	}
	rmdir(top);
	assert_true(fits > 0 && refused > 0);
}

static void the_image_store_is_the_configured_one(void **state)
{
	struct places p;
	struct config c;
	struct err e;
	char store[PLACES_PATH_MAX];

	(void)state;
	config_default(&c);
	assert_int_equal(places_init("/usr", &p, &e), 0);
	places_image_store(&p, &c, store);
	assert_string_equal(store, "/usr/var/lib/cordon/images");
	strcpy(c.image_store, "/srv/images");
	places_image_store(&p, &c, store);
	assert_string_equal(store, "/srv/images");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_host_itself_has_no_double_slash),
		cmocka_unit_test(a_name_is_eight_digits_of_the_roots_hash),
		cmocka_unit_test(every_spelling_of_a_root_is_one_instance),
		cmocka_unit_test(the_environment_speaks_where_no_root_is_given),
		cmocka_unit_test(a_root_that_is_not_there_is_named),
		cmocka_unit_test(the_sockets_path_has_a_limit),
		cmocka_unit_test(the_image_store_is_the_configured_one),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
