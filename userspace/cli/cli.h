/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_CLI_H
#define CORDON_CLI_CLI_H

/*
 * What every verb shares: the table it stands in, the invocation it gets, how
 * it speaks to the broker and how it says no.
 */
#include <jansson.h>

#include "cli/options.h"
#include "config/places.h"
#include "policy/reason.h"

enum {
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_OFF = 3,
	STATUS_CANCELLED = 130,
};

struct invocation {
	const char *path; /* "session seal": for the words of errors */
	struct rest rest; /* what stands behind the verb, then behind its options */
	struct common common;
};

struct verb {
	const char *name;
	const char *synopsis; /* what follows the name */
	const char *help;
	int (*run)(struct invocation *in);
	const char *program; /* instead of run: exec this with the rest and --root */
	const struct verb *below; /* instead of both: a table ended by a NULL name */
};

/* The tables of verb_*.c */
extern const struct verb session_verbs[], job_verbs[], audit_verbs[], receipt_verbs[],
	workspace_verbs[], egress_verbs[], registry_verbs[], skill_verbs[], file_verbs[],
	artifact_verbs[];
int verb_run(struct invocation *in);
int verb_up(struct invocation *in);
int verb_down(struct invocation *in);
int verb_reload(struct invocation *in);
int verb_health(struct invocation *in);
int verb_doctor(struct invocation *in);
int verb_du(struct invocation *in);
int verb_config(struct invocation *in);
int verb_later(struct invocation *in);

/*
 * Parses the verb's options, and answers --help. 0: go on; else return
 * *ret_status. @rows may be NULL with @n 0.
 */
int cli_options(struct invocation *in, const struct option *rows, size_t n, void *ret,
		int *ret_status);

/* Prints `cordon: text` and gives @status. */
int cli_fail(int status, const struct err *e);

/* Prints `cordon: REASON: text` and gives the reason's exit status. */
int cli_refuse(enum reason r, const struct err *e);

/* The same for a wrong command line: invalid_request, or not_available for -ENOSYS. */
int cli_refuse_options(const struct err *e);

/* Execs the program of the suite that argv[0] names; gives a status where that fails. */
int cli_exec(char *const *argv);

/* R1, as this process sees it. */
bool cli_rollout_is_on(const struct places *p);

/* The plane cannot be spoken to: why, as a reason with its words in *e. */
enum reason cli_unreachable(const struct places *p, const struct err *connect_failed,
			    struct err *e);

/* The instance of the invocation; on failure prints and gives an exit status. */
int cli_places(const struct invocation *in, struct places *ret);

/*
 * One call of the API with a JSON answer. 0 and *ret (caller's) for a 2xx;
 * else the refusal has been printed (with --json its body too) and an exit
 * status is given. @body may be NULL; it is not taken.
 */
int cli_call(const struct invocation *in, const char *method, const char *path,
	     const json_t *body, json_t **ret);

/* What the API said no with: prints it (with --json its body too), gives an exit status. */
int cli_refused(const struct invocation *in, int http_status, const json_t *answer);

/* Prints @v as one line of JSON. */
int cli_print_json(const json_t *v);

/* The whole of FILE or of standard input (`-`), at most @max bytes. Caller frees. */
int cli_read_input(const char *file, size_t max, char **ret, size_t *ret_len, struct err *e);

/* The caller's own name: its account's, else its number. */
void cli_own_name(char ret[64]);

/* A string member, or NULL. */
const char *cli_text(const json_t *o, const char *key);

/* Whether the string member @key is @word. */
bool cli_is(const json_t *o, const char *key, const char *word);

#endif
