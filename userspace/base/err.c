/* SPDX-License-Identifier: Apache-2.0 */
/* The error type: words and a code, truncated rather than lost. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
	if (code == 0)
		code = EIO;
	if (e) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
		va_end(ap);
		e->code = code;
	}
	return -code;
}

int err_wrap(struct err *e, const char *where)
{
	char old[ERR_MSG_MAX];

	memcpy(old, e->msg, sizeof(old));
	old[sizeof(old) - 1] = '\0';
	if (snprintf(e->msg, sizeof(e->msg), "%s: %s", where, old) < 0)
		e->msg[0] = '\0';
	return -(e->code ? e->code : EIO);
}
