/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-verify: is this copy of a ledger what its ledger wrote?
 *
 * Theory of operation. Run by an auditor (`cordon audit verify --db ...` execs
 * it), needs no plane, reads a copy of a database and its chain key, says what
 * it found and ends. The database may be anybody's work, and the auditor may be
 * root because the key is root's. So:
 *
 *   open	   the caller's rights: database, its log, key and checkpoint are
 *		   opened and the small ones read
 *   confined  nobody, where the caller was root; no file can be opened, no
 *		   network, no process, bounded memory. After this the database
 *		   is looked at, and not before
 *   verify	   rows in order, each link computed anew
 *
 * It writes nothing but its answer: exit status 0 for a good chain, 1 for any
 * other and for everything that could not be done, 2 for a wrong command line.
 */
#include <errno.h>
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "audit/anchor.h"
#include "audit/verify.h"
#include "base/scope.h"
#include "json/json.h"
#include "verify/privileges.h"

enum { EXIT_NO = 1, EXIT_USAGE = 2, HEAP_MAX = 256 * 1024 * 1024 };

static const char usage[] =
	"usage: cordon-verify --db FILE --key FILE|DIR [--checkpoint FILE]"
	" [--anchor SEQ:HEAD|FILE] [--json]\n";

struct given {
	const char *db, *key, *checkpoint, *anchor;
	bool is_json;
};

static int fail(const struct err *e)
{
	fprintf(stderr, "cordon: audit verify: %s\n", e->msg);
	return EXIT_NO;
}

static bool read_options(int argc, char **argv, struct given *g)
{
	static const struct option options[] = {
		{ "db", required_argument, NULL, 'd' },	    { "key", required_argument, NULL, 'k' },
		{ "checkpoint", required_argument, NULL, 'c' }, { "anchor", required_argument, NULL, 'a' },
		{ "json", no_argument, NULL, 'j' },	    { 0 },
	};
	int letter;

	while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
		const char **text = letter == 'd' ? &g->db :
				    letter == 'k' ? &g->key :
				    letter == 'c' ? &g->checkpoint :
				    letter == 'a' ? &g->anchor :
						    NULL;
		if (letter == 'j')
			g->is_json = true;
		else if (text)
			*text = optarg;
		else
			return false;
	}
	return g->db && g->key && optind == argc;
}

/* One line a person reads, then the names and values the plane's own verb prints. */
static void print_text(const struct audit_result *r, const struct given *g)
{
	char anchor[AUDIT_ANCHOR_TEXT];

	printf("ok: %s\nverdict: %s\n", r->verdict == VERDICT_OK ? "yes" : "no",
	       audit_verdict_name(r->verdict));
	if (r->row)
		printf("row: %llu\n", (unsigned long long)r->row);
	printf("text: %s\nrows: %llu\n", r->text, (unsigned long long)r->rows);
	if (r->has_cut)
		printf("cut: %llu\n", (unsigned long long)r->cut.upto.sequence);
	if (r->is_anchor_cut)
		puts("note: retention has removed the row the anchor names");
	audit_anchor_text(&r->last, anchor);
	if (r->verdict == VERDICT_OK)
		printf("anchor: %s\n", anchor);
	if (r->verdict == VERDICT_OK && !g->checkpoint && !g->anchor)
		puts("note: without a checkpoint or an anchor a cut tail cannot be seen");
}

static int print_result(const struct audit_result *r, const struct given *g)
{
	auto_json json_t *o = g->is_json ? audit_result_json(r) : NULL;
	autofree char *text = o ? json_dump_compact(o, NULL) : NULL;

	if (g->is_json && !text)
		return EXIT_NO;
	if (g->is_json)
		puts(text);
	else
		print_text(r, g);
	return fflush(stdout) == 0 && r->verdict == VERDICT_OK ? 0 : EXIT_NO;
}

static int run(const struct given *g, struct audit_result *ret, struct err *e)
{
	auto_(audit_files) f = NULL;
	struct audit_point anchor;
	uint32_t missing;

	if ((g->anchor && audit_anchor_read(g->anchor, &anchor, e) < 0) ||
	    audit_files_open(g->db, g->key, g->checkpoint, &f, e) < 0)
		return -e->code;
	sqlite3_hard_heap_limit64(HEAP_MAX);
	if (confine_person(&verify_confinement, &missing, e) < 0) /* from here on without rights */
		return -e->code;
	audit_files_verify(f, g->anchor ? &anchor : NULL, ret);
	return 0;
}

int main(int argc, char **argv)
{
	struct audit_result r;
	struct given g = { 0 };
	struct err e;

	json_start();
	if (!read_options(argc, argv, &g)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	return run(&g, &r, &e) < 0 ? fail(&e) : print_result(&r, &g);
}
