/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BASE_LOG_H
#define CORDON_BASE_LOG_H

/*
 * One structured line per event on standard error (F8): time, program, level,
 * event, and key=value pairs with hostile values escaped. Never command text,
 * tokens, carriers or destinations. Only programs (main.c and its room) log;
 * rooms below return errors.
 */

/* Sets the program's name. Borrows @program for the process's life. */
void log_open(const char *program);

void log_info(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_error(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
