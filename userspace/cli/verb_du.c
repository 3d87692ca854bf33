/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon du: what the instance keeps on disk, by kind. Counts blocks, each
 * inode once, never follows a link and never leaves the instance's tree.
 */
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/table.h"
#include "json/json.h"

static const struct {
	const char *name;
	size_t place;
	const char *below;
} kinds[] = {
	{ "images", offsetof(struct places, state), "/images" },
	{ "layers", offsetof(struct places, state), "/layers" },
	{ "skills", offsetof(struct places, state), "/skills" },
	{ "workspaces", offsetof(struct places, state), "/workspaces" },
	{ "state", offsetof(struct places, state), "" }, /* all of the above and the ledger */
	{ "logs", offsetof(struct places, logs), "" },
};

struct tally {
	uint64_t bytes, files;
	bool is_partial;
};

static void count(const char *path, struct tally *t)
{
	char *const roots[] = { (char *)(uintptr_t)path, NULL };
	FTS *f = fts_open(roots, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);

	for (FTSENT *x; f && (x = fts_read(f));) {
		if (x->fts_info == FTS_DNR || x->fts_info == FTS_ERR || x->fts_info == FTS_NS)
			t->is_partial = x->fts_errno != ENOENT;
		if (x->fts_info == FTS_F || x->fts_info == FTS_DEFAULT) {
			/* Names of one inode share its blocks. */
			t->bytes += (uint64_t)x->fts_statp->st_blocks * 512 /
				    (x->fts_statp->st_nlink ? x->fts_statp->st_nlink : 1);
			t->files++;
		}
	}
	if (f)
		fts_close(f);
}

int verb_du(struct invocation *in)
{
	static const struct column columns[] = {
		{ "KIND", "kind" }, { "BYTES", "bytes" }, { "FILES", "files" }, { "PATH", "path" },
	};
	auto_json json_t *rows = json_array();
	struct places p;
	bool is_partial = false;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_no_more(in, &status))
		return status;
	status = cli_places(in, &p);
	if (status)
		return status;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		char path[PLACES_PATH_MAX + 16];
		struct tally t = { 0 };
		snprintf(path, sizeof(path), "%s%s", (const char *)&p + kinds[i].place,
			 kinds[i].below);
		count(path, &t);
		is_partial |= t.is_partial;
		json_t *row = json_object();
		json_add_text(row, "kind", kinds[i].name);
		json_add_u64(row, "bytes", t.bytes);
		json_add_u64(row, "files", t.files);
		json_add_text(row, "path", path);
		json_array_append_new(rows, row);
	}
	if (in->common.is_json)
		cli_print_json(rows);
	else
		table_print(rows, columns, ARRAY_SIZE(columns));
	if (is_partial)
		fputs("cordon: some directories could not be read (root can)\n", stderr);
	return is_partial ? STATUS_FAILED : 0;
}
