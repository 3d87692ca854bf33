/* SPDX-License-Identifier: Apache-2.0 */
/* Command line in, struct out. Opens nothing. */
#include "image/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "base/scope.h"

const char OPTIONS_USAGE[] =
	"usage: cordon image build [--name debian|busybox] [--pin]\n"
	"       cordon image import OCI_LAYOUT_DIR [--name NAME] [--pin]\n"
	"       cordon image list\n"
	"       cordon image verify [IMAGE]\n"
	"       cordon image rm IMAGE\n"
	"options: --json, --root DIR, --store DIR (instead of the configured image store)\n"
	"IMAGE is sha256:HEX, the start of its digits, or a name.\n";

struct verb_row {
	const char *name;
	enum verb verb;
	const char *takes; /* the options beyond those of every verb */
	int operands_min, operands_max;
};

static const struct verb_row VERBS[] = {
	{ "build", VERB_BUILD, "np", 0, 0 },
	{ "import", VERB_IMPORT, "np", 1, 1 },
	{ "list", VERB_LIST, "", 0, 0 },
	{ "verify", VERB_VERIFY, "", 0, 1 },
	{ "rm", VERB_RM, "", 1, 1 },
};

static const char EVERY_VERB[] = "hjrs";

static const struct option LONG[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, 'j' },
	{ "name", required_argument, NULL, 'n' },
	{ "pin", no_argument, NULL, 'p' },
	{ "root", required_argument, NULL, 'r' },
	{ "store", required_argument, NULL, 's' },
	{ NULL, 0, NULL, 0 },
};

static const char *long_name(int letter)
{
	for (const struct option *o = LONG; o->name; o++)
		if (o->val == letter)
			return o->name;
	return "?";
}

static void take(struct options *o, int letter, const char *arg)
{
	switch (letter) {
	case 'h':
		o->help = true;
		break;
	case 'j':
		o->json = true;
		break;
	case 'n':
		o->name = arg;
		break;
	case 'p':
		o->pin = true;
		break;
	case 'r':
		o->root = arg;
		break;
	case 's':
		o->store = arg;
		break;
	}
}

static const struct verb_row *find_verb(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(VERBS); i++)
		if (strcmp(VERBS[i].name, name) == 0)
			return &VERBS[i];
	return NULL;
}

static int check(const struct verb_row *row, const char *seen, int operands, struct err *e)
{
	for (; *seen; seen++)
		if (!strchr(EVERY_VERB, *seen) && !strchr(row->takes, *seen))
			return err_set(e, EINVAL, "image %s takes no --%s", row->name,
				       long_name(*seen));
	if (operands < row->operands_min)
		return err_set(e, EINVAL, "image %s: what?", row->name);
	if (operands > row->operands_max)
		return err_set(e, EINVAL, "image %s: too many arguments", row->name);
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret, struct err *e)
{
	struct options o = { .verb = VERB_NONE };
	char seen[ARRAY_SIZE(LONG) + 1] = "";
	int c;

	opterr = 0;
	/* The verb may follow options (--root DIR build): getopt permutes operands to the end. */
	while ((c = getopt_long(argc, argv, "h", LONG, NULL)) != -1) {
		if (c == '?')
			return err_set(e, EINVAL, "unknown or incomplete option '%.80s'",
				       argv[optind - 1]);
		if (!strchr(seen, c))
			strncat(seen, &(char){ (char)c }, 1);
		take(&o, c, optarg);
	}
	if (o.help) {
		*ret = o;
		return 0;
	}
	const struct verb_row *row = find_verb(argv[optind]);
	if (!row)
		return err_set(e, EINVAL, argv[optind] ? "unknown verb '%.80s'" : "no verb%s",
			       argv[optind] ? argv[optind] : "");
	o.verb = row->verb;
	o.operand = argv[optind + 1];
	if (check(row, seen, argc - optind - 1, e) < 0)
		return -e->code;
	*ret = o;
	return 0;
}
