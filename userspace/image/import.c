/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of an import: lock, read the layout, lay its layers over one
 * another, finish like any build. Parsing is layout's, unpacking layer's.
 */
#include "image/import.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "image/build.h"
#include "image/layer.h"
#include "image/layout.h"
#include "image/tree.h"

static const char KIND[] = "import";
static const struct layer_budget BUDGET = { .bytes = 16ull << 30, .entries = 2000000 };

static int apply_layers(const struct layout *l, const char *root, struct layer_budget *budget,
			void (*on_line)(const char *line, void *arg), void *arg, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		char line[64];

		snprintf(line, sizeof(line), "layer %zu of %zu", i + 1, l->n);
		if (on_line)
			on_line(line, arg);
		autoclose int fd = layout_open_layer(l, &l->layers[i], e);
		if (fd < 0 || layer_apply(fd, l->layers[i].hex, root, budget, e) < 0)
			return -e->code;
	}
	return 0;
}

/* As the launcher will look for it: bash by name along the image's own links. */
static bool has_bash(const char *root)
{
	static const char *const places[] = { "bin/bash", "usr/bin/bash" };
	autoclose int rootfd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	for (size_t i = 0; rootfd >= 0 && i < ARRAY_SIZE(places); i++)
		if (fstatat(rootfd, places[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	return false;
}

static int make(const struct store *s, const struct layout *l, const char *temp,
		void (*on_line)(const char *line, void *arg), void *arg, struct import *ret,
		struct err *e)
{
	struct layer_budget budget = BUDGET;
	time_t start = time(NULL);
	char root[PATH_MAX];

	if (build_tree(s, temp, root, e) < 0 || apply_layers(l, root, &budget, on_line, arg, e) < 0)
		return -e->code;
	ret->skipped = budget.skipped;
	ret->has_bash = has_bash(root);
	return build_finish(s, temp, start, on_line, arg, &ret->image, e);
}

int import_layout(const struct store *s, const char *path, const char *name,
		  void (*on_line)(const char *line, void *arg), void *arg, struct import *ret,
		  struct err *e)
{
	char temp[STORE_TEMP_SIZE], ref[IMAGE_NAME_MAX + 8];
	struct layout layout = { .dirfd = -1 };
	struct import made = { .skipped = 0 };
	struct timespec start, end;
	struct err ignored;

	clock_gettime(CLOCK_MONOTONIC, &start);
	autoclose int lock = build_begin(s, KIND, on_line, arg, e);
	if (lock < 0 || layout_open(path, &layout, e) < 0)
		return err_wrap(e, KIND);
	int r = store_temp_dir(s, KIND, temp, e);
	if (r == 0) {
		r = make(s, &layout, temp, on_line, arg, &made, e);
		tree_remove(s->path, temp, &ignored);
	}
	layout_close(&layout);
	if (r < 0)
		return err_wrap(e, KIND);
	if (name) {
		snprintf(ref, sizeof(ref), "%s.ref", name);
		if (store_point(s, ref, made.image.hex, e) < 0)
			return -e->code;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	made.seconds =
		(double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
	*ret = made;
	return 0;
}
