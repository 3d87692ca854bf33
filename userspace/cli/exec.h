/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_EXEC_H
#define CORDON_CLI_EXEC_H

/*
 * What `cordon run` and `cordon job exec` share: the options of a command,
 * the request they become, the streams that come back.
 */
#include "cli/cli.h"

struct exec_options {
	struct option_list allow, skill;
	const char *egress, *environment, *image, *cwd, *stdin_file, *command_id, *command;
	struct option_number timeout, memory, cpus, pids, workspace, output, max_bytes;
	bool is_verbose;
};

/* The rows, for a struct T whose member @m is a struct exec_options. */
#define EXEC_OPTIONS(T, m) \
	OPTION(T, m.egress, "egress", 0, OPTION_TEXT, "TIER", \
	       "none, allowlist or default_internet"), \
	OPTION(T, m.allow, "allow", 0, OPTION_LIST, "HOST[:PORT]", \
	       "a host the command may reach (again for more)"), \
	OPTION(T, m.max_bytes, "max-bytes", 0, OPTION_MILLI, "N", "byte ceiling of the job"), \
	OPTION(T, m.skill, "skill", 0, OPTION_LIST, "SLUG", "attach a skill (again for more)"), \
	OPTION(T, m.environment, "environment", 0, OPTION_TEXT, "FILE", \
	       "declared environment, JSON"), \
	OPTION(T, m.image, "image", 0, OPTION_TEXT, "NAME", "base image"), \
	OPTION(T, m.cwd, "cwd", 0, OPTION_TEXT, "DIR", "working directory below /workspace"), \
	OPTION(T, m.timeout, "timeout", 0, OPTION_MILLI, "S", "wall clock, seconds"), \
	OPTION(T, m.memory, "memory", 0, OPTION_SIZE, "SIZE", "memory"), \
	OPTION(T, m.cpus, "cpus", 0, OPTION_MILLI, "N", "CPUs"), \
	OPTION(T, m.pids, "pids", 0, OPTION_COUNT, "N", "processes and threads"), \
	OPTION(T, m.workspace, "workspace-size", 0, OPTION_SIZE, "SIZE", "workspace quota"), \
	OPTION(T, m.output, "output-cap", 0, OPTION_SIZE, "SIZE", "bytes kept per stream"), \
	OPTION(T, m.stdin_file, "stdin", 0, OPTION_TEXT, "FILE|-", \
	       "standard input (default: nothing; - streams)"), \
	OPTION(T, m.command_id, "command-id", 0, OPTION_TEXT, "ID", "a name; never runs twice"), \
	OPTION(T, m.is_verbose, "verbose", 'v', OPTION_FLAG, NULL, "say what was denied"), \
	{ "command", 'c', OPTION_TEXT, offsetof(T, m.command), "COMMAND", \
	  "run bash -c COMMAND", true }

/*
 * Adds the command and its options to @body (an object) and sends it to @path.
 * Gives the exit status of SPEC 16. The argv is what stands behind `--` in @in.
 */
int exec_run(struct invocation *in, const char *path, json_t *body, const struct exec_options *o);

#endif
