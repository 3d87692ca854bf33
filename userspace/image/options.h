/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_OPTIONS_H
#define CORDON_IMAGE_OPTIONS_H

/* The command line of cordon-image: which verb takes which options and operands. */
#include <stdbool.h>

#include "base/err.h"

enum verb {
	VERB_NONE = 0,
	VERB_BUILD,
	VERB_IMPORT,
	VERB_LIST,
	VERB_VERIFY,
	VERB_RM,
};

struct options {
	enum verb verb;
	const char *root;    /* NULL: the environment's, else / */
	const char *store;   /* NULL: the configured one */
	const char *name;    /* NULL: the verb's own default */
	const char *operand; /* NULL where none was given */
	bool json, pin, help;
};

/* -EINVAL with what is wrong. Borrows @argv. */
int options_parse(int argc, char **argv, struct options *ret, struct err *e);

extern const char OPTIONS_USAGE[];

#endif
