/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_INPUT_H
#define CORDON_CLI_INPUT_H

/* Operands and files of the verbs: how many, and read from where. */
#include "cli/cli.h"

/* 1 with *ret_status set when what is left are not exactly @n operands. @words names them. */
int input_want(const struct invocation *in, int n, const char *words, int *ret_status);
int input_no_more(const struct invocation *in, int *ret_status);

/* Reads a carrier out of FILE or standard input into @body; an exit status. */
int input_add_carrier(const char *file, json_t *body);

#endif
