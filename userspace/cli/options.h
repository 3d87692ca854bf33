/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_OPTIONS_H
#define CORDON_CLI_OPTIONS_H

/*
 * One engine for the options of every verb: a const table says what there is,
 * where its value goes and what the help says. Values are checked here, so a
 * verb sees only what means something.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum option_kind {
	OPTION_FLAG = 1, /* bool */
	OPTION_TEXT,	 /* const char *, borrowed from argv */
	OPTION_LIST,	 /* struct option_list */
	OPTION_SIZE,	 /* struct option_number: integer with K, M, G */
	OPTION_MILLI,	 /* struct option_number: decimal, in thousandths */
	OPTION_COUNT,	 /* struct option_number: decimal integer */
	OPTION_LATER,	 /* parsed and refused not_available: its room is not built */
};

enum { OPTION_LIST_MAX = 256 };

struct option_list {
	const char *at[OPTION_LIST_MAX];
	size_t n;
};

struct option_number {
	bool is_given;
	uint64_t value;
};

struct option {
	const char *name; /* without dashes */
	char letter;	  /* 0: none */
	enum option_kind kind;
	size_t offset;	 /* of its field in the verb's struct */
	const char *arg; /* how the help calls its value; NULL for flags */
	const char *help;
	bool is_last; /* the value ends option parsing (-c) */
};

#define OPTION(type, member, name, letter, kind, arg, help) \
	{ name, letter, kind, offsetof(type, member), arg, help, false }

/* Options every verb takes, into the invocation itself. */
struct common {
	const char *root;
	bool is_json;
	bool wants_help;
};

/*
 * Where operands may stand. STOP: nothing behind the first one is read (it is a
 * verb with options of its own). MIXED: anywhere before `--`.
 */
enum option_mode { OPTIONS_STOP, OPTIONS_MIXED };

/* What the options left over. */
struct rest {
	int argc; /* operands, then what stood behind `--` or after the last option */
	char **argv;
	int operands; /* how many of them stood before `--` */
	bool has_dashes;
};

/*
 * Reads the options out of *r; operands move to the front of r->argv. -EINVAL
 * with *e naming the option, -ENOSYS for one that is OPTION_LATER.
 */
int options_parse(const struct option *rows, size_t n, enum option_mode mode, struct rest *r,
		  void *ret, struct common *common, struct err *e);

/* Prints the rows, and the common ones, as the help of a verb. */
void options_print(const struct option *rows, size_t n);

#endif
