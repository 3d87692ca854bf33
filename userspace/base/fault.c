/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault points. The armed point is process state, like the log's sink: a test
 * arms it once at start, nothing else reads or writes it.
 */
#include "base/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static struct {
	char step[64]; /* "": disarmed */
	enum { FAULT_KILL, FAULT_DELAY, FAULT_ERROR, FAULT_SHORT } action;
	long value, after, times, count;
} armed;

static int parse_number(const char *text, const char *key, long *ret)
{
	size_t n = strlen(key);
	char *end;

	if (strncmp(text, key, n) != 0)
		return 0;
	errno = 0;
	*ret = strtol(text + n, &end, 10);
	return errno == 0 && end != text + n && *end == '\0' && *ret > 0;
}

static int parse_part(const char *part)
{
	if (strcmp(part, "kill") == 0)
		armed.action = FAULT_KILL;
	else if (parse_number(part, "delay=", &armed.value))
		armed.action = FAULT_DELAY;
	else if (parse_number(part, "error=", &armed.value))
		armed.action = FAULT_ERROR;
	else if (strcmp(part, "short") == 0)
		armed.action = FAULT_SHORT;
	else if (!parse_number(part, "after=", &armed.after) &&
		 !parse_number(part, "times=", &armed.times))
		return -EINVAL;
	return 0;
}

int fault_arm(const char *spec, struct err *e)
{
	char text[128], *save, *part;

	memset(&armed, 0, sizeof(armed));
	if (!*spec)
		return 0;
	if (snprintf(text, sizeof(text), "%s", spec) >= (int)sizeof(text))
		return err_set(e, EINVAL, "fault: too long");
	part = strtok_r(text, ":", &save);
	if (!part || strlen(part) >= sizeof(armed.step))
		return err_set(e, EINVAL, "fault: no step in '%s'", spec);
	const char *step = part;
	part = strtok_r(NULL, ":", &save);
	if (!part)
		return err_set(e, EINVAL, "fault: no action in '%s'", spec);
	armed.after = 1;
	for (; part; part = strtok_r(NULL, ":", &save))
		if (parse_part(part) < 0)
			return err_set(e, EINVAL, "fault: '%s' is no action", part);
	const char *name = strchr(step, '/');
	size_t n = name ? (size_t)(name++ - step) : 0;
	if (n && (strlen(program_invocation_short_name) != n ||
		  memcmp(program_invocation_short_name, step, n) != 0))
		return 0; /* somebody else's */
	snprintf(armed.step, sizeof(armed.step), "%s", n ? name : step);
	return 0;
}

/* Is @step the armed one, and is this one of the times it strikes? */
static bool strikes(const char *step)
{
	if (!armed.step[0] || strcmp(armed.step, step) != 0 || ++armed.count < armed.after ||
	    (armed.times && armed.count >= armed.after + armed.times))
		return false;
	if (armed.count == armed.after)
		log_info("fault", "step=%s", step);
	return true;
}

static int strike(void)
{
	if (armed.action == FAULT_ERROR)
		return (int)armed.value;
	if (armed.action == FAULT_KILL) {
		kill(getpid(), SIGKILL);
		_exit(137); /* a confined program may not signal; this undoes as little */
	}
	struct timespec ts = { armed.value / 1000, armed.value % 1000 * 1000000 };
	nanosleep(&ts, NULL);
	return 0;
}

int fault_hit(const char *step)
{
	return strikes(step) ? strike() : 0;
}

int fault_write(const char *step, size_t *len)
{
	if (!strikes(step))
		return 0;
	if (armed.action != FAULT_SHORT)
		return strike();
	*len = *len > 1 ? *len / 2 : *len;
	return 0;
}

int fault_step(const char *step, struct err *e)
{
	int code = fault_hit(step);

	return code ? err_set(e, code, "fault at %s: %s", step, strerror(code)) : 0;
}
