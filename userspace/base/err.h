/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BASE_ERR_H
#define CORDON_BASE_ERR_H

/*
 * The one error type. Owned by the caller, fixed size, no heap, so that it can
 * report ENOMEM and crosses fork, exec and process borders whole (it fits one
 * atomic pipe write).
 *
 * A function that can fail for more than one reason takes `struct err *e`
 * last, returns 0 (or a count >= 0) or -code, and sets *e exactly when it
 * fails. @code is an errno value, or one of the plane's reasons where the
 * function says so. Messages: lower case, no full stop, user strings quoted.
 */
enum { ERR_MSG_MAX = 248 };

struct err {
	int code;
	char msg[ERR_MSG_MAX];
};

/* Sets *e and gives -code. @code 0 becomes EIO: a failure is never a success. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));

/* Puts "@where: " before the message, keeps the code, gives -code. */
int err_wrap(struct err *e, const char *where) __attribute__((cold));

#endif
