/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a manifest to a tree. The manifest's order makes this one pass per
 * level: a directory is a range of entries with a common prefix. Reads no file.
 */
#include "skill/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One entry while the tree is built. */
struct item {
	uint32_t path, target; /* offsets in the text */
	uint16_t path_len;
	uint8_t kind, is_exec;
	uint32_t digest;
	uint64_t size;
};

/* The entries below one node, and how much of their path is the node's. */
struct span {
	uint32_t low, high;
	uint32_t prefix;
};

struct build {
	struct skill_image *image;
	struct item *items;
	uint32_t nitems, items_cap;
	struct span *spans;
	uint32_t nodes_cap;
	size_t text_len, text_cap, digests_cap;
};

/* Room for one more element of @size in *@p, doubling. */
static int grow(void *p, size_t have, size_t *cap, size_t need, size_t size, struct err *e)
{
	size_t want = *cap ? *cap : 64;
	void *more;

	if (have + need <= *cap)
		return 0;
	while (want < have + need)
		want *= 2;
	more = realloc(*(void **)p, want * size);
	if (!more)
		return err_set(e, ENOMEM, "skill: out of memory");
	*(void **)p = more;
	*cap = want;
	return 0;
}

static int add_text(struct build *b, const char *bytes, size_t len, uint32_t *ret, struct err *e)
{
	int rc = grow(&b->image->text, b->text_len, &b->text_cap, len, 1, e);

	if (rc < 0)
		return rc;
	memcpy(b->image->text + b->text_len, bytes, len);
	*ret = (uint32_t)b->text_len;
	b->text_len += len;
	return 0;
}

static int add_digests(struct build *b, const struct skill_entry *entry, struct err *e)
{
	struct skill_image *image = b->image;
	int rc = grow(&image->digests, image->nfiles, &b->digests_cap, 1,
		      sizeof(image->digests[0]), e);

	if (rc < 0)
		return rc;
	memcpy(image->digests[image->nfiles].sha256, entry->sha256, SKILL_SHA);
	memcpy(image->digests[image->nfiles].leaves, entry->leaves, SKILL_SHA);
	image->nfiles++;
	image->file_bytes += entry->size;
	return 0;
}

static int add_item(struct build *b, const struct skill_entry *entry, struct err *e)
{
	size_t cap = b->items_cap;
	int rc = grow(&b->items, b->nitems, &cap, 1, sizeof(b->items[0]), e);

	if (rc < 0)
		return rc;
	b->items_cap = (uint32_t)cap;
	struct item *it = &b->items[b->nitems];
	*it = (struct item){
		.path_len = (uint16_t)entry->path_len,
		.kind = (uint8_t)entry->kind,
		.is_exec = entry->is_exec,
		.digest = b->image->nfiles,
		.size = entry->size,
	};
	rc = add_text(b, entry->path, entry->path_len, &it->path, e);
	if (rc == 0 && entry->kind == SKILL_LINK)
		rc = add_text(b, entry->target, entry->target_len, &it->target, e);
	if (rc == 0 && entry->kind == SKILL_FILE)
		rc = add_digests(b, entry, e);
	b->nitems += rc == 0;
	return rc;
}

static int read_items(struct build *b, const char *text, size_t len, struct err *e)
{
	autofree struct manifest_reader *r = malloc(sizeof(*r));
	struct skill_entry entry;
	int rc;

	if (!r)
		return err_set(e, ENOMEM, "skill: out of memory");
	if (manifest_begin(r, text, len) < 0)
		return err_set(e, EBADMSG, "manifest line %u: %s", r->line, r->fault);
	strcpy(b->image->slug, r->slug); /* both SKILL_SLUG_MAX + 1 */
	while ((rc = manifest_next(r, &entry)) == 1)
		if ((rc = add_item(b, &entry, e)) < 0)
			return rc;
	return rc == 0 ? 0 : err_set(e, EBADMSG, "manifest line %u: %s", r->line, r->fault);
}

static struct skill_node *add_node(struct build *b, const struct span *span, struct err *e)
{
	size_t cap = b->nodes_cap, same = b->nodes_cap;

	if (b->image->nnodes == SKILL_NODES_MAX) {
		err_set(e, EBADMSG, "more than %d files and directories", SKILL_NODES_MAX);
		return NULL;
	}
	if (grow(&b->image->nodes, b->image->nnodes, &cap, 1, sizeof(b->image->nodes[0]), e) < 0 ||
	    grow(&b->spans, b->image->nnodes, &same, 1, sizeof(b->spans[0]), e) < 0)
		return NULL;
	b->nodes_cap = (uint32_t)cap;
	b->spans[b->image->nnodes] = *span;
	struct skill_node *node = &b->image->nodes[b->image->nnodes++];
	memset(node, 0, sizeof(*node));
	return node;
}

static bool continues(const struct build *b, uint32_t item, const char *name, size_t at,
		      size_t name_len)
{
	const struct item *it = &b->items[item];
	const char *path = b->image->text + it->path;

	return it->path_len > at + name_len && path[at + name_len] == '/' &&
	       memcmp(path + at, name, name_len) == 0;
}

/* The child that begins at item @k below @dir. Gives the item after it, or 0. */
static uint32_t add_child(struct build *b, uint32_t dir, uint32_t k, struct err *e)
{
	struct span all = b->spans[dir];
	const struct item *it = &b->items[k];
	const char *name = b->image->text + it->path + all.prefix;
	const char *slash = memchr(name, '/', it->path_len - all.prefix);
	size_t name_len = slash ? (size_t)(slash - name) : it->path_len - all.prefix;
	uint32_t next = k + 1;
	char shown[160];

	if (!slash && next < all.high && continues(b, next, name, all.prefix, name_len)) {
		err_set(e, EBADMSG, "'%s' is both a file and a directory",
			skill_show(b->image->text + it->path, it->path_len, shown, sizeof(shown)));
		return 0;
	}
	while (slash && next < all.high && continues(b, next, name, all.prefix, name_len))
		next++;
	struct span below = { k, next, all.prefix + (uint32_t)name_len + 1 };
	struct skill_node *node = add_node(b, &below, e);
	if (!node)
		return 0;
	*node = (struct skill_node){
		.parent = dir,
		.name = it->path + all.prefix,
		.name_len = (uint16_t)name_len,
		.kind = slash ? SKILL_DIR : it->kind,
	};
	if (!slash) {
		node->is_exec = it->is_exec;
		node->size = it->size;
		node->content = it->kind == SKILL_LINK ? it->target : it->digest;
	}
	b->image->nodes[dir].size += slash != NULL;
	return next;
}

static int build_tree(struct build *b, struct err *e)
{
	struct span all = { 0, b->nitems, 0 };
	struct skill_node *root = add_node(b, &all, e);

	if (!root)
		return -e->code;
	root->kind = SKILL_DIR;
	for (uint32_t dir = 0; dir < b->image->nnodes; dir++) {
		if (b->image->nodes[dir].kind != SKILL_DIR)
			continue;
		uint32_t first = b->image->nnodes;
		for (uint32_t k = b->spans[dir].low; k < b->spans[dir].high;)
			if ((k = add_child(b, dir, k, e)) == 0)
				return -e->code;
		b->image->nodes[dir].first = first;
		b->image->nodes[dir].count = b->image->nnodes - first;
	}
	return 0;
}

/* What was allocated ahead and is not used goes back. */
static void trim(struct build *b)
{
	struct skill_image *image = b->image;
	const struct {
		void *p;
		size_t bytes;
	} parts[] = {
		{ &image->nodes, image->nnodes * sizeof(image->nodes[0]) },
		{ &image->digests, image->nfiles * sizeof(image->digests[0]) },
		{ &image->text, b->text_len },
	};

	image->held_bytes = sizeof(*image);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		void *less = parts[i].bytes ? realloc(*(void **)parts[i].p, parts[i].bytes) : NULL;
		if (less)
			*(void **)parts[i].p = less;
		image->held_bytes += parts[i].bytes;
	}
}

int skill_image_parse(const char *text, size_t len, struct skill_image **ret, struct err *e)
{
	auto_(skill_image) image = calloc(1, sizeof(*image));
	struct build b = { .image = image };
	int rc;

	if (!image)
		return err_set(e, ENOMEM, "skill: out of memory");
	rc = read_items(&b, text, len, e);
	if (rc == 0)
		rc = build_tree(&b, e);
	if (rc == 0)
		trim(&b);
	free(b.items);
	free(b.spans);
	if (rc == 0)
		*ret = take_ptr(image);
	return rc;
}

void skill_image_free(struct skill_image *image)
{
	if (!image)
		return;
	free(image->nodes);
	free(image->digests);
	free(image->text);
	free(image);
}

static int compare_name(const struct skill_image *image, const struct skill_node *node,
			const char *name, size_t len)
{
	size_t shorter = node->name_len < len ? node->name_len : len;
	int order = memcmp(image->text + node->name, name, shorter);

	return order ? order : (node->name_len > len) - (node->name_len < len);
}

uint32_t skill_image_lookup(const struct skill_image *image, uint32_t dir, const char *name,
			    size_t len)
{
	uint32_t low = image->nodes[dir].first, high = low + image->nodes[dir].count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		int order = compare_name(image, &image->nodes[mid], name, len);
		if (order == 0)
			return mid;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return 0;
}

long skill_image_find(const struct skill_image *image, const char *path, size_t len)
{
	uint32_t node = 0;

	if (len > 0 && path[len - 1] == '/')
		return -1;
	for (size_t at = 0; at < len;) {
		const char *slash = memchr(path + at, '/', len - at);
		size_t n = slash ? (size_t)(slash - (path + at)) : len - at;
		if (image->nodes[node].kind != SKILL_DIR)
			return -1;
		node = skill_image_lookup(image, node, path + at, n);
		if (node == 0)
			return -1;
		at += n + 1;
	}
	return node;
}

size_t skill_image_path(const struct skill_image *image, uint32_t node, char *out)
{
	size_t len = 0, at;

	for (uint32_t n = node; n != 0; n = image->nodes[n].parent)
		len += image->nodes[n].name_len + (len > 0);
	at = len;
	for (uint32_t n = node; n != 0; n = image->nodes[n].parent) {
		if (at < len)
			out[--at] = '/';
		at -= image->nodes[n].name_len;
		memcpy(out + at, image->text + image->nodes[n].name, image->nodes[n].name_len);
	}
	return len;
}

/* --- Links */

/* Steps over all links of one skill: what a person writes needs a few thousand. */
enum { WALK_STEPS_MAX = 4 << 20 };

/* Where a walk stands: at a directory, or so many parts below the last one that exists. */
struct walk {
	uint32_t dir;
	uint32_t missing;
	unsigned hops, steps;
	size_t at;			   /* the rest begins here and ends with the buffer */
	char rest[2 * SKILL_PATH_MAX + 2]; /* what is still to be walked, each part before a '/' */
};

static bool step_up(const struct skill_image *image, struct walk *w)
{
	if (w->missing > 0) {
		w->missing--;
		return true;
	}
	if (w->dir == 0)
		return false;
	w->dir = image->nodes[w->dir].parent;
	return true;
}

/* Puts the target of @link before the rest. */
static bool follow(const struct skill_image *image, struct walk *w, uint32_t link)
{
	size_t n = image->nodes[link].size;

	if (++w->hops > SKILL_HOPS_MAX || n + 1 > w->at)
		return false;
	w->at -= n + 1;
	memcpy(w->rest + w->at, image->text + image->nodes[link].content, n);
	w->rest[w->at + n] = '/';
	return true;
}

static bool step_into(const struct skill_image *image, struct walk *w, const char *name, size_t n)
{
	uint32_t child = w->missing ? 0 : skill_image_lookup(image, w->dir, name, n);

	if (child != 0 && image->nodes[child].kind == SKILL_LINK)
		return follow(image, w, child);
	if (child != 0 && image->nodes[child].kind == SKILL_DIR)
		w->dir = child;
	else
		w->missing++; /* not there, or a file: nothing below it can be reached */
	return true;
}

static bool stays_inside(const struct skill_image *image, uint32_t link, struct walk *w)
{
	w->dir = image->nodes[link].parent;
	w->missing = 0;
	w->hops = 0;
	w->at = sizeof(w->rest);
	if (!follow(image, w, link))
		return false;
	while (w->at < sizeof(w->rest)) {
		const char *name = w->rest + w->at;
		const char *slash = memchr(name, '/', sizeof(w->rest) - w->at);
		size_t n = (size_t)(slash - name);
		if (++w->steps > WALK_STEPS_MAX)
			return false;
		w->at += n + 1;
		if (n == 0 || (n == 1 && name[0] == '.'))
			continue;
		bool is_up = n == 2 && name[0] == '.' && name[1] == '.';
		/* follow() overwrites what was eaten, @name with it: only after the look-up. */
		if (is_up ? !step_up(image, w) : !step_into(image, w, name, n))
			return false;
	}
	return true;
}

int skill_image_check_links(const struct skill_image *image, struct err *e)
{
	autofree struct walk *w = calloc(1, sizeof(*w));
	char path[SKILL_PATH_MAX], shown[160];

	if (!w)
		return err_set(e, ENOMEM, "skill: out of memory");
	for (uint32_t i = 0; i < image->nnodes; i++)
		if (image->nodes[i].kind == SKILL_LINK && !stays_inside(image, i, w))
			return err_set(e, EXDEV, "unsafe path '%s': the link leaves the skill",
				       skill_show(path, skill_image_path(image, i, path), shown,
						  sizeof(shown)));
	return 0;
}

