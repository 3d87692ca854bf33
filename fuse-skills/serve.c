/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and answers. Read-only by construction: what would change anything
 * is answered EROFS, also where the mount was made writable again. `open` is
 * answered ENOSYS, after which the kernel opens, caches and closes on its own
 * and only asks for names and bytes.
 *
 * A read takes whole chunks into the thread's own buffer, verifies them there
 * and answers from there (K3). Everything may be cached for a day: a number
 * stands for one content for ever.
 */
#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fault.h"
#include "base/log.h"
#include "names.h"

#define CACHED_S 86400.0

enum { EXPECTED_FILES = 16 };

static struct serve *serve_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* --- Attributes */

static void fill_directory(struct stat *st, uint64_t node, uint64_t subdirectories, mode_t mode)
{
	st->st_ino = node;
	st->st_mode = S_IFDIR | mode;
	st->st_nlink = 2 + subdirectories;
	st->st_size = 4096;
	st->st_blocks = 8;
	st->st_blksize = 4096;
}

static void fill_times(struct stat *st, uint64_t at_s)
{
	st->st_atim.tv_sec = st->st_mtim.tv_sec = st->st_ctim.tv_sec = (time_t)at_s;
}

static uint64_t node_of(const struct skill_image *image, uint64_t view, uint32_t pos,
			uint64_t version, uint32_t entry)
{
	return image->nodes[entry].kind == SKILL_DIR ? name_dir(view, pos, entry) :
						       name_shared(version, entry);
}

static void fill_entry(struct stat *st, const struct skill_image *image, uint32_t entry,
		       uint64_t node, uint64_t at_s)
{
	const struct skill_node *n = &image->nodes[entry];

	memset(st, 0, sizeof(*st));
	if (n->kind == SKILL_DIR) {
		fill_directory(st, node, n->size, 0755);
	} else {
		st->st_ino = node;
		st->st_mode = n->kind == SKILL_LINK ? S_IFLNK | 0777 :
						      S_IFREG | (n->is_exec ? 0755 : 0644);
		st->st_nlink = 1;
		st->st_size = (off_t)n->size;
		st->st_blocks = (blkcnt_t)((n->size + 511) / 512);
		st->st_blksize = 4096;
	}
	fill_times(st, at_s);
}

/* --- Events */

/* At most one line a second; what is left out is counted in the next one. */
static void say_corrupt(struct serve *s, uint64_t version, const struct skill_image *image,
			uint32_t entry, const struct err *why)
{
	uint64_t now = (uint64_t)time(NULL), last = atomic_load(&s->said_s);
	struct state_version row = { .slug = "?" };
	char path[SKILL_PATH_MAX], shown[300] = "(manifest)";

	atomic_fetch_add(&s->state->corrupt, 1);
	if (last == now || !atomic_compare_exchange_strong(&s->said_s, &last, now)) {
		atomic_fetch_add(&s->unsaid, 1);
		return;
	}
	state_version_copy(s->state, version, &row);
	if (image)
		skill_show(path, skill_image_path(image, entry, path), shown, sizeof(shown));
	log_error("skill_corrupt", "slug=%s path=%s error=\"%s\" unsaid=%u", row.slug, shown,
		  why->msg, atomic_exchange(&s->unsaid, 0));
}

/* EIO to the reader, an event to the operator. A version that is gone is neither. */
static int fault(struct serve *s, uint64_t version, const struct skill_image *image,
		 uint32_t entry, const struct err *why)
{
	if (why->code == ESTALE || why->code == EBUSY || why->code == ENOMEM)
		return why->code == EBUSY ? EAGAIN : why->code;
	say_corrupt(s, version, image, entry, why);
	return EIO;
}

/* --- Finding things */

/* What a directory's number stands for. */
struct place {
	uint64_t view;
	uint32_t pos;
	uint64_t version;
	uint32_t entry;
	uint64_t added_s;
	struct tree tree;
};

/* The directory @n of a skill in a view: 0, or an errno. Give it back with leave(). */
static int enter(struct serve *s, const struct name *n, struct place *ret)
{
	uint32_t versions[K_SKILLS_MAX];
	struct state_version row;
	struct err e;
	int count = state_view_list(s->state, n->view, versions);

	*ret = (struct place){ .view = n->view, .pos = n->pos, .entry = n->entry };
	if (count < 0 || n->pos >= (uint32_t)count)
		return ESTALE;
	ret->version = versions[n->pos];
	if (!state_version_copy(s->state, ret->version, &row))
		return ESTALE;
	ret->added_s = row.added_s;
	if (cache_get_tree(s->cache, ret->version, &ret->tree, &e) < 0)
		return fault(s, ret->version, NULL, 0, &e);
	if (n->entry >= ret->tree.image->nnodes ||
	    ret->tree.image->nodes[n->entry].kind != SKILL_DIR) {
		cache_put_tree(s->cache, &ret->tree);
		return ESTALE;
	}
	return 0;
}

static void leave(struct serve *s, struct place *p)
{
	cache_put_tree(s->cache, &p->tree);
}

static void count_file(struct serve *s, uint64_t view)
{
	struct state_view *v = state_view(s->state, view);

	if (v)
		atomic_fetch_add(&v->files_looked_up, 1);
}

/* A view's skill @pos as an entry of the view's directory. */
static bool skill_of_view(struct serve *s, uint64_t view, uint32_t pos, uint64_t version,
			  struct state_version *row, struct fuse_entry_param *ret)
{
	if (!state_version_copy(s->state, version, row))
		return false;
	*ret = (struct fuse_entry_param){ .attr_timeout = CACHED_S, .entry_timeout = CACHED_S };
	ret->ino = name_dir(view, pos, 0);
	/* How many directories it has is known only once it is looked into. */
	fill_directory(&ret->attr, ret->ino, 0, 0755);
	ret->attr.st_nlink = 1;
	fill_times(&ret->attr, row->added_s);
	return true;
}

/* --- lookup */

static void lookup_view(fuse_req_t req, const char *name)
{
	struct serve *s = serve_of(req);
	struct fuse_entry_param entry = { .attr_timeout = CACHED_S, .entry_timeout = CACHED_S };
	char *end = NULL;
	uint64_t no = name[0] == 'v' && name[1] >= '1' && name[1] <= '9' ?
			      strtoull(name + 1, &end, 10) :
			      0;
	struct state_view *v = no && no <= VIEW_LAST && *end == '\0' ? state_view(s->state, no) :
								       NULL;

	if (!v) { /* not cached: it may come to be */
		fuse_reply_err(req, ENOENT);
		return;
	}
	entry.ino = name_view(no);
	fill_directory(&entry.attr, entry.ino, v->count, 0755);
	fill_times(&entry.attr, v->opened_s);
	fuse_reply_entry(req, &entry);
}

static void reply_absent(fuse_req_t req)
{
	fuse_reply_entry(req, &(struct fuse_entry_param){ .entry_timeout = CACHED_S });
}

static void lookup_skill(fuse_req_t req, uint64_t view, const char *name)
{
	struct serve *s = serve_of(req);
	uint32_t versions[K_SKILLS_MAX];
	int count = state_view_list(s->state, view, versions);

	if (count < 0) {
		fuse_reply_err(req, ESTALE);
		return;
	}
	for (int pos = 0; pos < count; pos++) {
		struct state_version row;
		struct fuse_entry_param entry;
		if (!skill_of_view(s, view, (uint32_t)pos, versions[pos], &row, &entry) ||
		    strcmp(row.slug, name) != 0)
			continue;
		fuse_reply_entry(req, &entry);
		return;
	}
	reply_absent(req);
}

static void lookup_entry(fuse_req_t req, const struct name *n, const char *name)
{
	struct serve *s = serve_of(req);
	struct fuse_entry_param entry = { .attr_timeout = CACHED_S, .entry_timeout = CACHED_S };
	struct place p;
	int rc = enter(s, n, &p);

	if (rc != 0) {
		fuse_reply_err(req, rc);
		return;
	}
	uint32_t child = skill_image_lookup(p.tree.image, p.entry, name, strlen(name));
	if (child == 0) {
		reply_absent(req);
	} else {
		entry.ino = node_of(p.tree.image, p.view, p.pos, p.version, child);
		fill_entry(&entry.attr, p.tree.image, child, entry.ino, p.added_s);
		if (p.tree.image->nodes[child].kind == SKILL_FILE)
			count_file(s, p.view);
		fuse_reply_entry(req, &entry);
	}
	leave(s, &p);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct name n = name_read(parent);

	if (strlen(name) > SKILL_NAME_MAX)
		fuse_reply_err(req, ENAMETOOLONG);
	else if (n.kind == NAME_ROOT)
		lookup_view(req, name);
	else if (n.kind == NAME_VIEW)
		lookup_skill(req, n.view, name);
	else if (n.kind == NAME_DIR)
		lookup_entry(req, &n, name);
	else
		fuse_reply_err(req, ENOTDIR);
}

/* --- getattr and readlink */

/* What a shared number stands for: 0, or an errno. Give the tree back. */
static int find_shared(struct serve *s, const struct name *n, enum skill_kind kind,
		       struct tree *ret)
{
	struct err e;

	if (n->kind != NAME_SHARED)
		return EINVAL;
	if (cache_get_tree(s->cache, n->version, ret, &e) < 0)
		return fault(s, n->version, NULL, 0, &e);
	if (n->entry < ret->image->nnodes && ret->image->nodes[n->entry].kind != SKILL_DIR &&
	    (kind == 0 || ret->image->nodes[n->entry].kind == kind))
		return 0;
	cache_put_tree(s->cache, ret);
	return kind == SKILL_LINK ? EINVAL : ESTALE;
}

static int stat_shared(struct serve *s, uint64_t node, const struct name *n, struct stat *ret)
{
	struct state_version row;
	struct tree t;
	int rc = find_shared(s, n, 0, &t);

	if (rc != 0)
		return rc;
	if (state_version_copy(s->state, n->version, &row))
		fill_entry(ret, t.image, n->entry, node, row.added_s);
	else
		rc = ESTALE;
	cache_put_tree(s->cache, &t);
	return rc;
}

static int stat_directory(struct serve *s, uint64_t node, const struct name *n, struct stat *ret)
{
	struct place p;
	int rc = enter(s, n, &p);

	if (rc != 0)
		return rc;
	fill_entry(ret, p.tree.image, p.entry, node, p.added_s);
	if (p.entry == 0)
		ret->st_nlink = 1; /* as skill_of_view() has it */
	leave(s, &p);
	return 0;
}

static int stat_view(struct serve *s, uint64_t node, const struct name *n, struct stat *ret)
{
	struct state_view *v = state_view(s->state, n->view);

	if (!v)
		return ESTALE;
	fill_directory(ret, node, v->count, 0755);
	fill_times(ret, v->opened_s);
	return 0;
}

static void op_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	struct serve *s = serve_of(req);
	struct name n = name_read(node);
	struct stat st = { 0 };
	int rc = 0;

	(void)fi;
	if (n.kind == NAME_ROOT) /* passed through by the keeper, listed by nobody */
		fill_directory(&st, node, 0, 0711);
	else if (n.kind == NAME_VIEW)
		rc = stat_view(s, node, &n, &st);
	else if (n.kind == NAME_DIR)
		rc = stat_directory(s, node, &n, &st);
	else if (n.kind == NAME_SHARED)
		rc = stat_shared(s, node, &n, &st);
	else
		rc = ESTALE;
	if (rc != 0)
		fuse_reply_err(req, rc);
	else
		fuse_reply_attr(req, &st, CACHED_S);
}

static void op_readlink(fuse_req_t req, fuse_ino_t node)
{
	struct serve *s = serve_of(req);
	struct name n = name_read(node);
	char target[SKILL_PATH_MAX + 1];
	struct tree t;
	int rc = find_shared(s, &n, SKILL_LINK, &t);

	if (rc != 0) {
		fuse_reply_err(req, rc);
		return;
	}
	const struct skill_node *link = &t.image->nodes[n.entry];
	memcpy(target, t.image->text + link->content, link->size);
	target[link->size] = '\0';
	cache_put_tree(s->cache, &t);
	fuse_reply_readlink(req, target);
}

/* --- readdir: offset 0 is ".", 1 is "..", then the children in their order */

struct listing {
	fuse_req_t req;
	bool is_plus;
	char *buffer;
	size_t size, used;
};

static bool list_one(struct listing *l, const char *name, const struct fuse_entry_param *entry,
		     off_t next)
{
	char *at = l->buffer + l->used;
	size_t left = l->size - l->used;
	size_t n = l->is_plus ? fuse_add_direntry_plus(l->req, at, left, name, entry, next) :
				fuse_add_direntry(l->req, at, left, name, &entry->attr, next);

	if (n > left)
		return false;
	l->used += n;
	return true;
}

/* "." and ".."; they carry no number of their own in a plus listing. */
static bool list_dots(struct listing *l, off_t *offset, uint64_t self, uint64_t parent)
{
	static const char *const names[] = { ".", ".." };
	const uint64_t nodes[] = { self, parent };

	for (; *offset < 2; ++*offset) {
		struct fuse_entry_param entry = {
			.attr = { .st_ino = nodes[*offset], .st_mode = S_IFDIR },
		};
		if (!list_one(l, names[*offset], &entry, *offset + 1))
			return false;
	}
	return true;
}

static int list_view(struct serve *s, struct listing *l, uint64_t view, off_t offset)
{
	uint32_t versions[K_SKILLS_MAX];
	int count = state_view_list(s->state, view, versions);

	if (count < 0)
		return ESTALE;
	if (!list_dots(l, &offset, name_view(view), name_view(view)))
		return 0;
	for (; offset - 2 < count; offset++) {
		uint32_t pos = (uint32_t)(offset - 2);
		struct state_version row;
		struct fuse_entry_param entry;
		if (skill_of_view(s, view, pos, versions[pos], &row, &entry) &&
		    !list_one(l, row.slug, &entry, offset + 1))
			break;
	}
	return 0;
}

static bool list_child(struct serve *s, struct listing *l, const struct place *p, uint32_t child,
		       off_t next)
{
	const struct skill_image *image = p->tree.image;
	const struct skill_node *n = &image->nodes[child];
	struct fuse_entry_param entry = { .attr_timeout = CACHED_S, .entry_timeout = CACHED_S };
	char name[SKILL_NAME_MAX + 1];

	memcpy(name, image->text + n->name, n->name_len);
	name[n->name_len] = '\0';
	entry.ino = node_of(image, p->view, p->pos, p->version, child);
	fill_entry(&entry.attr, image, child, entry.ino, p->added_s);
	if (!list_one(l, name, &entry, next))
		return false;
	if (l->is_plus && n->kind == SKILL_FILE)
		count_file(s, p->view);
	return true;
}

static int list_directory(struct serve *s, struct listing *l, const struct name *n, uint64_t self,
			  off_t offset)
{
	struct place p;
	int rc = enter(s, n, &p);

	if (rc != 0)
		return rc;
	const struct skill_node *dir = &p.tree.image->nodes[p.entry];
	uint64_t parent = p.entry == 0 ? name_view(p.view) : name_dir(p.view, p.pos, dir->parent);
	if (list_dots(l, &offset, self, parent))
		for (; offset - 2 < dir->count; offset++)
			if (!list_child(s, l, &p, dir->first + (uint32_t)(offset - 2), offset + 1))
				break;
	leave(s, &p);
	return 0;
}

static void list(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, bool is_plus)
{
	struct serve *s = serve_of(req);
	struct name n = name_read(node);
	struct listing l = { .req = req, .is_plus = is_plus, .size = size };
	int rc = 0;

	if (offset < 0 || !(l.buffer = malloc(size))) {
		fuse_reply_err(req, offset < 0 ? EINVAL : ENOMEM);
		return;
	}
	if (n.kind == NAME_ROOT)
		list_dots(&l, &offset, node, node); /* nobody lists other jobs' views */
	else if (n.kind == NAME_VIEW)
		rc = list_view(s, &l, n.view, offset);
	else if (n.kind == NAME_DIR)
		rc = list_directory(s, &l, &n, node, offset);
	else
		rc = ENOTDIR;
	if (rc != 0)
		fuse_reply_err(req, rc);
	else
		fuse_reply_buf(req, l.buffer, l.used);
	free(l.buffer);
}

static void op_readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	(void)fi;
	list(req, node, size, offset, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
			   struct fuse_file_info *fi)
{
	(void)fi;
	list(req, node, size, offset, true);
}

/* --- read */

/* Bytes of a file, verified in the thread's buffer. */
struct want {
	uint64_t node, version;
	uint32_t entry;
	uint64_t size; /* of the file */
	const struct skill_digests *digests;
	uint64_t first, count; /* chunks */
};

static long read_kept(struct serve *s, const struct want *w, bool fresh, uint8_t *buffer,
		      struct err *e)
{
	const struct skill_file *file;
	int rc = cache_get_file(s->cache, w->digests, w->size, fresh, &file, e);

	if (rc < 0)
		return rc;
	long n = skill_file_read(file, w->first, w->count, buffer, e);
	cache_put_file(s->cache, file);
	return n;
}

/* Files of one chunk are opened for one read: the kernel will not ask again. */
static long read_once(struct serve *s, const struct want *w, uint8_t *buffer, struct err *e)
{
	struct skill_file file;
	int rc = skill_file_open(&s->store, w->digests, w->size, &file, e);

	if (rc < 0)
		return rc;
	long n = skill_file_read(&file, w->first, w->count, buffer, e);
	skill_file_close(&file);
	return n;
}

static long read_chunks(struct serve *s, const struct want *w, struct serve_desk *desk,
			struct err *e)
{
	long n;

	desk->node = 0;
	if (w->size <= SKILL_CHUNK) {
		n = read_once(s, w, desk->buffer, e);
	} else {
		n = read_kept(s, w, false, desk->buffer, e);
		if (n == -EBADMSG || n == -EIO) /* the stored file may have been put right */
			n = read_kept(s, w, true, desk->buffer, e);
	}
	if (n >= 0) {
		desk->node = w->node;
		desk->first_byte = w->first * SKILL_CHUNK;
		desk->bytes = n;
	}
	return n;
}

static void count_bytes(struct serve *s, fuse_req_t req, size_t bytes, bool is_corrupt)
{
	const struct fuse_ctx *who = fuse_req_ctx(req);
	struct state_view *v = state_view(s->state, state_bound(s->state, who->uid));

	if (v && is_corrupt)
		atomic_fetch_add(&v->corrupt, 1);
	atomic_fetch_add(v ? &v->bytes_served : &s->state->unattributed_bytes, bytes);
}

static void reply_read(fuse_req_t req, struct want *w, size_t size, uint64_t offset,
		       const struct skill_image *image)
{
	struct serve *s = serve_of(req);
	struct serve_desk *desk = pthread_getspecific(s->desk);
	uint64_t end = offset + size < w->size ? offset + size : w->size;
	struct err e;

	w->first = offset / SKILL_CHUNK;
	w->count = skill_chunks(end) - w->first;
	int code = fault_hit("skills.read");
	if (code) {
		fuse_reply_err(req, code);
		return;
	}
	bool is_at_hand = desk->node == w->node && desk->first_byte <= offset &&
			  end <= desk->first_byte + (uint64_t)desk->bytes;
	if (!is_at_hand && read_chunks(s, w, desk, &e) < 0) {
		int rc = fault(s, w->version, image, w->entry, &e);
		count_bytes(s, req, 0, rc == EIO);
		fuse_reply_err(req, rc);
		return;
	}
	count_bytes(s, req, end - offset, false);
	fuse_reply_buf(req, (char *)desk->buffer + (offset - desk->first_byte), end - offset);
}

/*
 * Who reads one small file of a directory often reads the next ones too: every
 * so many the store is asked for those that follow, all at once. After the
 * answer, so nobody waits for it.
 */
static void expect_siblings(struct serve *s, const struct skill_image *image, uint32_t entry)
{
	const struct skill_node *dir = &image->nodes[image->nodes[entry].parent];
	uint32_t end = dir->first + dir->count;

	if ((entry - dir->first) % EXPECTED_FILES != 0)
		return;
	for (uint32_t i = entry + 1; i < end && i <= entry + EXPECTED_FILES; i++)
		if (image->nodes[i].kind == SKILL_FILE && image->nodes[i].size <= SKILL_CHUNK)
			skill_file_expect(&s->store, image->digests[image->nodes[i].content].sha256);
}

static void op_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	struct serve *s = serve_of(req);
	struct name n = name_read(node);
	struct tree t;
	int rc = find_shared(s, &n, SKILL_FILE, &t);

	(void)fi;
	if (rc != 0) {
		fuse_reply_err(req, rc);
		return;
	}
	const struct skill_node *file = &t.image->nodes[n.entry];
	struct want w = {
		.node = node,
		.version = n.version,
		.entry = n.entry,
		.size = file->size,
		.digests = &t.image->digests[file->content],
	};
	if (offset < 0 || size > SERVE_READ_MAX)
		fuse_reply_err(req, EINVAL);
	else if ((uint64_t)offset >= w.size)
		fuse_reply_buf(req, NULL, 0);
	else
		reply_read(req, &w, size, (uint64_t)offset, t.image);
	if (offset == 0 && w.size <= SKILL_CHUNK)
		expect_siblings(s, t.image, n.entry);
	cache_put_tree(s->cache, &t);
}

/* --- What is answered alike for everything */

static void op_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	(void)node;
	fuse_reply_err(req, (fi->flags & O_ACCMODE) == O_RDONLY && !(fi->flags & O_TRUNC) ?
				    ENOSYS :
				    EROFS);
}

/* Absent, libfuse would answer it, and the kernel ask again each time and cache no listing. */
static void op_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	(void)node;
	(void)fi;
	fuse_reply_err(req, ENOSYS);
}

static void op_statfs(fuse_req_t req, fuse_ino_t node)
{
	const struct statvfs st = {
		.f_bsize = 4096,
		.f_frsize = 4096,
		.f_namemax = SKILL_NAME_MAX,
		.f_flag = ST_RDONLY,
	};

	(void)node;
	fuse_reply_statfs(req, &st);
}

#define READ_ONLY(name, ...) \
	static void name(fuse_req_t req, ##__VA_ARGS__) \
	{ \
		fuse_reply_err(req, EROFS); \
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
READ_ONLY(ro_setattr, fuse_ino_t n, struct stat *st, int set, struct fuse_file_info *fi)
READ_ONLY(ro_mknod, fuse_ino_t n, const char *name, mode_t mode, dev_t dev)
READ_ONLY(ro_mkdir, fuse_ino_t n, const char *name, mode_t mode)
READ_ONLY(ro_remove, fuse_ino_t n, const char *name)
READ_ONLY(ro_symlink, const char *target, fuse_ino_t n, const char *name)
READ_ONLY(ro_rename, fuse_ino_t n, const char *name, fuse_ino_t m, const char *to, unsigned flags)
READ_ONLY(ro_link, fuse_ino_t n, fuse_ino_t m, const char *name)
READ_ONLY(ro_create, fuse_ino_t n, const char *name, mode_t mode, struct fuse_file_info *fi)
READ_ONLY(ro_write, fuse_ino_t n, const char *b, size_t len, off_t at, struct fuse_file_info *fi)
READ_ONLY(ro_setxattr, fuse_ino_t n, const char *name, const char *v, size_t len, int flags)
READ_ONLY(ro_fallocate, fuse_ino_t n, int mode, off_t at, off_t len, struct fuse_file_info *fi)
READ_ONLY(ro_copy, fuse_ino_t n, off_t at, struct fuse_file_info *fi, fuse_ino_t m, off_t to,
	  struct fuse_file_info *fo, size_t len, int flags)
#pragma GCC diagnostic pop

const struct fuse_lowlevel_ops serve_ops = {
	.lookup = op_lookup,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.open = op_open,
	.opendir = op_opendir,
	.read = op_read,
	.statfs = op_statfs,
	.setattr = ro_setattr,
	.mknod = ro_mknod,
	.mkdir = ro_mkdir,
	.unlink = ro_remove,
	.rmdir = ro_remove,
	.symlink = ro_symlink,
	.rename = ro_rename,
	.link = ro_link,
	.create = ro_create,
	.write = ro_write,
	.setxattr = ro_setxattr,
	.removexattr = ro_remove,
	.fallocate = ro_fallocate,
	.copy_file_range = ro_copy,
};
