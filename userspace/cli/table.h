/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_TABLE_H
#define CORDON_CLI_TABLE_H

/*
 * Lists of the API as aligned columns. Values come from callers and sandboxes:
 * control characters are shown as '?', so that none can drive a terminal.
 */
#include <jansson.h>
#include <stddef.h>

#include "cli/cli.h"

struct column {
	const char *title;
	const char *key; /* "a.b" goes into a member object */
};

/* The array in @answer: itself, or its first member that is one. */
const json_t *table_rows(const json_t *answer);

void table_print(const json_t *rows, const struct column *columns, size_t n);

/* GETs @path and prints the array it answers, or all of it with --json. Gives an exit status. */
int table_call(const struct invocation *in, const char *path, const struct column *columns,
	       size_t n);

/* "key: value" lines, members of members as "a.b: value"; arrays as JSON. */
void table_print_object(const json_t *o);

#endif
