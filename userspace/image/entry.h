/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_ENTRY_H
#define CORDON_IMAGE_ENTRY_H

/* What the name of a layer's entry means: where it goes, or what it hides. */
#include <stdbool.h>
#include <stddef.h>

enum { ENTRY_PATH_MAX = 2048, ENTRY_PARTS_MAX = 128, ENTRY_NAME_MAX = 255 };

enum entry_kind {
	ENTRY_BAD = 0,
	ENTRY_ROOT,   /* the root directory itself */
	ENTRY_PLAIN,  /* path is what is added */
	ENTRY_HIDES,  /* path is what the lower layers lose */
	ENTRY_OPAQUE, /* path is the directory ("" for the root) whose lower content is lost */
};

struct entry {
	enum entry_kind kind;
	char path[ENTRY_PATH_MAX];   /* relative, no empty part, no ".", no ".." */
	char parent[ENTRY_PATH_MAX]; /* "." at the top */
	char name[ENTRY_NAME_MAX + 1];
};

/*
 * Reads the name of a tar entry. ENTRY_BAD for what could lead out of the root
 * (a ".." part), for an empty or too long name, for whiteouts of nothing and for
 * what lies below a whiteout.
 */
enum entry_kind entry_parse(const char *name, struct entry *ret);

#endif
