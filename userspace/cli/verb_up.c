/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon up: cordond starts the plane; then the plane has to show that it
 * works (R2) before this returns. In the foreground cordond takes this
 * process's place.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
#include "json/json.h"

enum { BOOT_MS = 120000, STEP_MS = 20 };

struct up_options {
	bool is_foreground;
};

static const struct option rows[] = {
	OPTION(struct up_options, is_foreground, "foreground", 'f', OPTION_FLAG, NULL,
	       "stay, log to standard error, end with a signal"),
};

/* Becomes cordond; returns only when that fails. */
static int become_cordond(const struct invocation *in, bool is_foreground)
{
	char path[4096], *argv[] = { (char *)(uintptr_t)"cordond", NULL, NULL };
	struct err e;

	if (places_program("cordond", path, sizeof(path), &e) < 0)
		return cli_fail(STATUS_FAILED, &e);
	if (is_foreground)
		argv[1] = (char *)(uintptr_t)"--foreground";
	if (in->common.root)
		setenv("CORDON_ROOT", in->common.root, 1);
	execv(path, argv);
	err_set(&e, errno, "exec '%s': %s", path, strerror(errno));
	return cli_fail(STATUS_FAILED, &e);
}

static int start(const struct invocation *in)
{
	int status = -1; /* not the status of an exit */
	pid_t pid = fork();

	if (pid == 0)
		_exit(become_cordond(in, false));
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0 || !WIFEXITED(status)) {
		struct err e;
		err_set(&e, ECHILD, "cordond did not start");
		return cli_fail(STATUS_FAILED, &e);
	}
	return WEXITSTATUS(status);
}

/* Nothing has been found out yet, and will be. */
static bool is_pending(const json_t *health)
{
	return json_is_true(json_object_get(health, "pending")) &&
	       json_is_null(json_object_get(health, "handshake"));
}

/* What the plane says is missing, in one line. */
static void say_missing(const json_t *health)
{
	const json_t *missing = json_object_get(health, "missing"), *v;
	size_t i;

	fprintf(stderr, "cordon: up, but %s", cli_text(health, "state") ?: "unavailable");
	json_array_foreach(missing, i, v)
		fprintf(stderr, "%s %s", i ? "," : ":", json_string_value(v) ?: "?");
	fputc('\n', stderr);
}

/* True while some cordond holds the instance: perhaps one that is still starting. */
static bool is_held(const struct places *p)
{
	autoclose int fd = open(p->pid, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/*
 * The health of the plane, the caller's to drop; NULL with *e set. Waits for another
 * `up` that has not opened the door yet, and for the first handshake, however slow the host.
 */
static json_t *ask_health(const struct places *p, struct err *e)
{
	const uint64_t until = clock_monotonic_ms() + BOOT_MS;

	for (;;) {
		autofree char *text = NULL;
		size_t len;
		bool is_over = clock_monotonic_ms() >= until;
		int rc = http_call(p->socket, "GET", "/v1/health", NULL, 0, &text, &len, e);
		if (rc >= 0) {
			auto_json json_t *v = json_parse_strict(text, len, 16, e);
			if (!v || !is_pending(v) || is_over)
				return json_incref(v);
		} else if (is_over || (rc != -ENOENT && rc != -ECONNREFUSED) || !is_held(p)) {
			return err_wrap(e, "up, but"), NULL;
		}
		usleep(STEP_MS * 1000);
	}
}

static int check_ready(const struct invocation *in)
{
	struct places p;
	struct err e;
	int status = cli_places(in, &p);

	if (status)
		return status;
	auto_json json_t *v = ask_health(&p, &e);
	if (!v)
		return cli_fail(STATUS_FAILED, &e);
	if (in->common.is_json)
		cli_print_json(v);
	if (cli_is(v, "state", "ready"))
		return 0;
	say_missing(v);
	return STATUS_FAILED;
}

int verb_up(struct invocation *in)
{
	struct up_options o = { 0 };
	int status;

	if (cli_options(in, rows, ARRAY_SIZE(rows), &o, &status) || input_no_more(in, &status))
		return status;
	if (o.is_foreground)
		return become_cordond(in, true);
	status = start(in);
	return status ? status : check_ready(in);
}
