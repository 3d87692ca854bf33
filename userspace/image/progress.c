/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress on standard error. Steps are our own words and mmdebstrap's "I: ..."
 * lines; the rest of what children say only moves a terminal's line along.
 */
#include "image/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 60 };

void progress_start(struct progress *p, const char *what)
{
	*p = (struct progress){ .what = what, .is_terminal = isatty(STDERR_FILENO) };
	clock_gettime(CLOCK_MONOTONIC, &p->start);
}

void progress_line(const char *line, void *arg)
{
	const struct progress *p = arg;
	struct timespec now;
	bool is_step = strncmp(line, "I: ", 3) == 0;
	const char *text = is_step ? line + 3 : line;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (p->is_terminal)
		fprintf(stderr, "\r\033[K%s: %3lds %.*s", p->what,
			(long)(now.tv_sec - p->start.tv_sec), SHOWN, text);
	else if (is_step)
		fprintf(stderr, "%s: %3lds %s\n", p->what, (long)(now.tv_sec - p->start.tv_sec),
			text);
}

void progress_end(struct progress *p)
{
	if (p->is_terminal)
		fputs("\r\033[K", stderr);
}
