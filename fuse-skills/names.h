/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_NAMES_H
#define CORDON_SKILLS_NAMES_H

/*
 * Pure: the numbers the kernel knows files by. They are computed, never
 * stored, so that a restarted server answers for what its predecessor named.
 *
 *	1			the root: a directory of views
 *	VIEW | POS | ENTRY	a directory, as one view sees it; the view's own has
 *				POS_NONE. A directory number under two views would
 *				make the second look-up move the first one's.
 *	1<<63 | VERSION | ENTRY	a file or link of a version of a skill: the same in
 *				every view, and so is its page cache
 *
 * Views and versions are numbered once and never again.
 */
#include <stdbool.h>
#include <stdint.h>

enum {
	ENTRY_BITS = 20,
	POS_BITS = 8,
	POS_NONE = (1 << POS_BITS) - 1,
	NODE_ROOT = 1,
};
#define VIEW_LAST ((1ull << (63 - ENTRY_BITS - POS_BITS)) - 1)
#define VERSION_LAST ((1ull << (63 - ENTRY_BITS)) - 1)
#define NODE_SHARED (1ull << 63)

enum name_kind {
	NAME_NONE = 0,
	NAME_ROOT,
	NAME_VIEW, /* a view's own directory */
	NAME_DIR,  /* a directory of a skill in a view; entry 0 is the skill's own */
	NAME_SHARED,
};

struct name {
	enum name_kind kind;
	uint64_t view;	  /* VIEW, DIR */
	uint32_t pos;	  /* DIR: which skill of the view */
	uint64_t version; /* SHARED */
	uint32_t entry;	  /* DIR, SHARED: node of the skill's image */
};

static inline uint64_t name_view(uint64_t view)
{
	return view << (ENTRY_BITS + POS_BITS) | (uint64_t)POS_NONE << ENTRY_BITS;
}

static inline uint64_t name_dir(uint64_t view, uint32_t pos, uint32_t entry)
{
	return view << (ENTRY_BITS + POS_BITS) | (uint64_t)pos << ENTRY_BITS | entry;
}

static inline uint64_t name_shared(uint64_t version, uint32_t entry)
{
	return NODE_SHARED | version << ENTRY_BITS | entry;
}

static inline struct name name_read(uint64_t node)
{
	struct name n = {
		.entry = (uint32_t)(node & ((1u << ENTRY_BITS) - 1)),
		.pos = (uint32_t)(node >> ENTRY_BITS) & POS_NONE,
		.view = node >> (ENTRY_BITS + POS_BITS),
		.version = (node & ~NODE_SHARED) >> ENTRY_BITS,
	};

	if (node == NODE_ROOT)
		n.kind = NAME_ROOT;
	else if (node & NODE_SHARED)
		n.kind = n.version && n.entry ? NAME_SHARED : NAME_NONE;
	else if (n.view && n.pos == POS_NONE)
		n.kind = n.entry == 0 ? NAME_VIEW : NAME_NONE;
	else if (n.view)
		n.kind = NAME_DIR;
	return n;
}

#endif
