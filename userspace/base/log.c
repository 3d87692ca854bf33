/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log sink: the one mutable global of the tree. A line is built in one
 * buffer and leaves in one write, so that lines of several daemons sharing a
 * descriptor never mix.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *log_program = "cordon";

void log_open(const char *program)
{
	log_program = program;
}

/* Control characters could forge a second line or drive a terminal. */
static void escape_controls(char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			s[i] = '?';
}

static void line(const char *level, const char *event, const char *fmt, va_list ap)
{
	char buf[1024];
	struct timespec ts;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	size_t n = strftime(buf, sizeof(buf), "%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(buf + n, sizeof(buf) - n, ".%03ldZ %s %s %s ", ts.tv_nsec / 1000000,
			      log_program, level, event);
	if (n < sizeof(buf) - 2) {
		int m = vsnprintf(buf + n, sizeof(buf) - n - 1, fmt, ap);
		if (m > 0)
			n += (size_t)m;
	}
	if (n > sizeof(buf) - 2)
		n = sizeof(buf) - 2;
	escape_controls(buf, n);
	buf[n++] = '\n';
	if (write(STDERR_FILENO, buf, n) < 0) {
		/* Nowhere left to say so. */
	}
}

void log_info(const char *event, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line("info", event, fmt, ap);
	va_end(ap);
}

void log_error(const char *event, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line("error", event, fmt, ap);
	va_end(ap);
}
