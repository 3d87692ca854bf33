/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon: the command line.
 *
 * Theory of operation: one process, no privilege of its own, no secret. A
 * verb is a row of the table below: a function, a table of further verbs, or
 * another program of the suite that is exec'ed in its place (image; what
 * verifies a ledger's copy or a statement). What needs the plane goes to the
 * broker's socket, what steers the plane to cordond's. It is linked statically,
 * because `cordon run` is on the path of every command.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "json/json.h"

#define LATER(name) { name, "...", "not built yet", verb_later, NULL, NULL }

static const struct verb verbs[] = {
	{ "run", "[options] (-- ARGV... | -c COMMAND)", "run a command in a sandbox", verb_run,
	  NULL, NULL },
	{ "up", "[--foreground]", "start the plane", verb_up, NULL, NULL },
	{ "down", "[--drain S]", "stop the plane", verb_down, NULL, NULL },
	{ "reload", "", "take over a changed configuration", verb_reload, NULL, NULL },
	{ "health", "", "say whether the plane is ready", verb_health, NULL, NULL },
	{ "doctor", "", "try what the host can do", verb_doctor, NULL, NULL },
	{ "du", "", "show what is kept on disk", verb_du, NULL, NULL },
	{ "config", "", "print every configuration key", verb_config, NULL, NULL },
	{ "session", "seal|open", "carriers", NULL, NULL, session_verbs },
	{ "job", "open|exec|list|kill|close", "jobs", NULL, NULL, job_verbs },
	{ "image", "build|import|list|verify|rm", "base images", NULL, "cordon-image", NULL },
	{ "run-registry", "list|show|set|drop", "runs, and whether they live", NULL, NULL,
	  registry_verbs },
	{ "workspace", "list|rm", "workspaces", NULL, NULL, workspace_verbs },
	{ "audit", "list|verify|export|retain", "the ledger", NULL, NULL, audit_verbs },
	{ "receipt", "show|verify", "receipts", NULL, NULL, receipt_verbs },
	{ "artifact", "put|get|list", "files into and out of workspaces", NULL, NULL, artifact_verbs },
	{ "skill", "add|load|list|show|read|verify|remove", "skills", NULL, NULL, skill_verbs },
	{ "egress", "classify|match|check|top", "what sandboxes may reach", NULL, NULL,
	  egress_verbs },
	LATER("env"),
	{ "file", "read|write|list|search", "a model's file access", NULL, NULL, file_verbs },
	LATER("agent"),
	LATER("mcp"),
	LATER("tool"),
	LATER("top"),
	LATER("watch"),
	{ 0 },
};

int verb_later(struct invocation *in)
{
	struct err e;

	err_set(&e, ENOSYS, "'%s' is not built yet", in->path);
	return cli_refuse(REASON_NOT_AVAILABLE, &e);
}

static void print_verbs(const char *path, const struct verb *table)
{
	printf("usage: cordon%s%s VERB ...\n\n", *path ? " " : "", path);
	for (const struct verb *v = table; v->name; v++)
		printf("  %-12s %-46s %s\n", v->name, v->synopsis, v->help);
	puts("\n--root DIR and --json work with every verb, --help explains one. See cordon(1).");
}

/* Execs @v's program with what is left and --root; the environment goes along. */
static int exec_program(const struct verb *v, const struct invocation *in)
{
	autofree char **argv = calloc((size_t)in->rest.argc + 4, sizeof(*argv));
	int n = 0;

	if (!argv)
		return STATUS_FAILED;
	argv[n++] = (char *)(uintptr_t)v->program;
	for (int i = 0; i < in->rest.argc; i++)
		argv[n++] = in->rest.argv[i];
	if (in->common.root)
		setenv("CORDON_ROOT", in->common.root, 1);
	if (in->common.is_json)
		argv[n++] = (char *)(uintptr_t)"--json";
	return cli_exec(argv);
}

static int dispatch(const struct verb *table, const char *path, struct invocation *in)
{
	char whole[128];
	struct err e;

	if (options_parse(NULL, 0, OPTIONS_STOP, &in->rest, NULL, &in->common, &e) < 0)
		return cli_refuse_options(&e), STATUS_USAGE;
	if (in->common.wants_help || in->rest.argc == 0) {
		print_verbs(path, table);
		return in->common.wants_help ? 0 : STATUS_USAGE;
	}
	for (const struct verb *v = table; v->name; v++) {
		if (strcmp(v->name, in->rest.argv[0]) != 0)
			continue;
		snprintf(whole, sizeof(whole), "%s%s%s", path, *path ? " " : "", v->name);
		in->path = whole;
		in->rest.argc--, in->rest.argv++;
		if (v->below)
			return dispatch(v->below, whole, in);
		return v->program ? exec_program(v, in) : v->run(in);
	}
	err_set(&e, EINVAL, "unknown verb '%s%s%.60s' (cordon --help)", path, *path ? " " : "",
		in->rest.argv[0]);
	cli_refuse_options(&e);
	return STATUS_USAGE;
}

int main(int argc, char **argv)
{
	struct invocation in = { .path = "", .rest = { .argc = argc - 1, .argv = argv + 1 } };

	if (argc > 1 && strcmp(argv[1], "--version") == 0)
		return puts("cordon " VERSION) < 0;
	signal(SIGCHLD, SIG_DFL); /* ignored by who started us, it would take our children's ends */
	json_start();
	int status = dispatch(verbs, "", &in);
	if (fflush(stdout) != 0 && status == 0)
		status = STATUS_FAILED;
	return status;
}
