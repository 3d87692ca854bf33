/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-skills: skills, read-only and verified, for every job's /skills.
 *
 * Theory of operation. cordond makes one FUSE mount per instance and keeps its
 * descriptor and a memory file of what is served (state.h); the worker attaches
 * the mount in its own namespace and clones one directory of it, a job's view,
 * into a slot. This program is what answers. It is three processes (roles.h),
 * one per privilege:
 *
 *   role     ids        store       else                      speaks with
 *   keeper   skills     read        -                         cordond, broker, the other two
 *   server   skills     read        clones of the descriptor  the kernel, keeper
 *   stager   root, no   write       nothing                   keeper
 *            capability
 *
 *   phase     holds              does
 *   start     root               S_START; stager and server are started and confine themselves
 *   confine   nothing            - after this we cannot gain privilege
 *   loop      nothing            opens and closes views, passes stagings on, watches the server
 *
 * A kill of any of them ends all three; cordond starts them over the same
 * descriptor and state, and they go on where the others stopped: views, numbers
 * and counters are in the state, contents in the store, and the kernel keeps
 * its caches.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "roles.h"

static int run_once_stage(char **args)
{
	return once_stage(args[0]);
}

static int run_once_remove(char **args)
{
	return once_remove(args[0], args[1], args[1] ? args[2] : NULL);
}

static const struct {
	const char *word;
	int min, max; /* arguments beyond it */
	int (*run)(char **args);
} once[] = {
	{ "stage", 1, 1, run_once_stage },	/* STORE < STREAM: for root, without a daemon */
	{ "remove", 2, 3, run_once_remove },	/* STORE SLUG [HEX] */
};

static int run(int argc, char **argv)
{
	if (argc == 1)
		return keeper_main();
	if (argc == 2 && strcmp(argv[1], "server") == 0)
		return server_main();
	if (argc == 2 && strcmp(argv[1], "stager") == 0)
		return stager_main();
	for (size_t i = 0; i < ARRAY_SIZE(once); i++)
		if (strcmp(argv[1], once[i].word) == 0 && argc - 2 >= once[i].min &&
		    argc - 2 <= once[i].max)
			return once[i].run(argv + 2);
	fprintf(stderr, "cordon-skills is started by cordond\n");
	return 2;
}

/* What libraries would do at exit is not in the confined process's plan. */
int main(int argc, char **argv)
{
	int status = run(argc, argv);

	fflush(stdout);
	_exit(status);
}
