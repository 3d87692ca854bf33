/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon config: the manual of the configuration, out of the table that reads
 * it, as comments of a configuration file or as cordon.conf(5).
 */
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "json/json.h"

struct config_options {
	bool is_man;
};

static const struct option rows[] = {
	OPTION(struct config_options, is_man, "man", 0, OPTION_FLAG, NULL, "print cordon.conf(5)"),
};

static void print_comment(const struct config_key *k)
{
	printf("# %s", k->help);
	for (size_t w = 0; k->words && k->words[w]; w++)
		printf("%s%s", w ? " | " : " Values: ", k->words[w]);
	printf("%s\n# %s = %s\n\n",
	       k->readers & AT_START_ONLY ? " Takes effect at a start." : "", k->name, k->preset);
}

static const char man_head[] =
	".\\\" SPDX-License-Identifier: Apache-2.0\n"
	".TH CORDON.CONF 5 \"\" cordon \"Cordon manual\"\n"
	".SH NAME\ncordon.conf \\- configuration of a plane\n"
	".SH DESCRIPTION\n"
	".I ROOT/etc/cordon/cordon.conf\n"
	"holds lines\n.IR key \" = \" value .\n"
	"A # at the start of a line or behind a blank begins a comment. Unknown keys and keys given\n"
	"twice are refused with their line. An absent file is an empty one. Every daemon gets only\n"
	"the keys it needs. SIZE is an integer with optional K, M or G (1024).\n.PP\n"
	".B cordon reload\n"
	"takes changes over, all or nothing; keys marked \\(dq(start)\\(dq only count when the plane starts.\n"
	".SH KEYS\n";

static void print_man(const struct config_key *k)
{
	printf(".TP\n.BR %s \" (%s)%s\"\n%s\n", k->name, k->preset[0] ? k->preset : "empty",
	       k->readers & AT_START_ONLY ? " (start)" : "", k->help);
	for (size_t w = 0; k->words && k->words[w]; w++)
		printf("%s%s%s", w ? ", " : "Values: ", k->words[w], k->words[w + 1] ? "" : ".\n");
}

/* As an object: key -> {preset, help, atStart, values}. */
static int print_json(const struct config_key *k, size_t n)
{
	auto_json json_t *all = json_object();

	for (size_t i = 0; i < n; i++) {
		json_t *row = json_object(), *words = json_array();
		json_add_text(row, "preset", k[i].preset);
		json_add_text(row, "help", k[i].help);
		json_object_set_new(row, "atStart", json_boolean(k[i].readers & AT_START_ONLY));
		for (size_t w = 0; k[i].words && k[i].words[w]; w++)
			json_array_append_new(words, json_string(k[i].words[w]));
		json_object_set_new(row, "values", words);
		json_object_set_new(all, k[i].name, row);
	}
	return cli_print_json(all);
}

int verb_config(struct invocation *in)
{
	struct config_options o = { 0 };
	size_t n;
	const struct config_key *k = config_keys(&n);
	int status;

	if (cli_options(in, rows, ARRAY_SIZE(rows), &o, &status) || input_no_more(in, &status))
		return status;
	if (in->common.is_json)
		return print_json(k, n);
	if (o.is_man)
		fputs(man_head, stdout);
	for (size_t i = 0; i < n; i++)
		(o.is_man ? print_man : print_comment)(&k[i]);
	return 0;
}
