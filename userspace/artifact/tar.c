/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ustar with GNU's long names, as GNU's and busybox's tar write and read it.
 * Opens no file; numbers and names of the other side are checked before use.
 */
#include "artifact/tar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "json/flat.h"

struct head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[8], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct head) == TAR_BLOCK, "a tar head is one block");

static const char long_link[] = "././@LongLink";

/* --- Names */

int tar_check_path(const char *path, struct err *e)
{
	unsigned depth = 0;

	if (!*path || strlen(path) >= TAR_PATH_MAX || !flat_is_utf8(path, strlen(path)))
		return err_set(e, EINVAL, "a path that is empty, too long or no UTF-8");
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\')
			return err_set(e, EINVAL, "a path with a control character or backslash");
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");
		if (n == 0 || n > 255 || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.'))))
			return err_set(e, EINVAL, "'%.100s': a part that is empty, '.', '..' or "
						  "over 255 bytes",
				       path);
		if (++depth > TAR_DEPTH_MAX)
			return err_set(e, EINVAL, "'%.100s': deeper than %d", path, TAR_DEPTH_MAX);
		p += n;
		if (!*p)
			return 0;
	}
}

/* Whole names, or (ending in /) directories anywhere in the path. */
static const char *const hooks[] = {
	".git/",	".hg/",		 ".svn/",	    ".github/",	     ".gitlab-ci.yml",
	".claude/",	".cursor/",	 ".vscode/",	    ".idea/",	     ".devcontainer/",
	".husky/",	".envrc",	 ".env",	    ".bashrc",	     ".bash_profile",
	".profile",	".zshrc",	 ".npmrc",	    ".yarnrc",	     ".pypirc",
	".gitconfig",	".gitattributes", ".gitmodules",    ".pre-commit-config.yaml",
	".mcp.json",	"AGENTS.md",	 "CLAUDE.md",	    "Makefile",	     "GNUmakefile",
	"makefile",	"package.json",	 "setup.py",	    "conftest.py",   "sitecustomize.py",
	"usercustomize.py", "pyproject.toml", "Dockerfile", "docker-compose.yml", "Jenkinsfile",
	"build.rs",	".cargo/",	 "CMakeLists.txt",  "configure",     ".ssh/",
};

bool tar_is_hook(const char *path)
{
	for (const char *p = path; *p;) {
		size_t n = strcspn(p, "/");
		for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
			size_t len = strlen(hooks[i]);
			bool is_dir = hooks[i][len - 1] == '/';
			if (is_dir && p[n] == '/' && n == len - 1 && memcmp(p, hooks[i], n) == 0)
				return true;
			if (!is_dir && !p[n] && n == len && memcmp(p, hooks[i], n) == 0)
				return true;
		}
		p += n + (p[n] == '/');
	}
	return false;
}

/* --- Reading */

/* Octal with blanks around, or GNU's base 256. False: neither, or beyond 2^63. */
static bool read_number(const char *field, size_t len, uint64_t *ret)
{
	const uint8_t *f = (const uint8_t *)field;
	uint64_t v = 0;
	size_t i = 0;

	if (f[0] & 0x80) {
		if (f[0] != 0x80)
			return false; /* negative or huge */
		for (i = 1; i < len; i++) {
			if (v >> 55)
				return false;
			v = v << 8 | f[i];
		}
		*ret = v;
		return true;
	}
	while (i < len && f[i] == ' ')
		i++;
	for (; i < len && f[i] >= '0' && f[i] <= '7'; i++) {
		if (v >> 60)
			return false;
		v = v << 3 | (uint64_t)(f[i] - '0');
	}
	if (i < len && f[i] != ' ' && f[i] != '\0')
		return false;
	*ret = v;
	return true;
}

static uint32_t sum_of(const struct head *h)
{
	const uint8_t *p = (const uint8_t *)h;
	uint32_t sum = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= offsetof(struct head, sum) && i < offsetof(struct head, type) ? ' ' :
											    p[i];
	return sum;
}

static bool is_zero(const uint8_t *block)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* Prefix and name, without "./" before and "/" behind. */
static int take_name(const char *text, size_t len, char ret[TAR_PATH_MAX], struct err *e)
{
	while (len >= 2 && text[0] == '.' && text[1] == '/') {
		text += 2;
		len -= 2;
	}
	while (len > 0 && text[len - 1] == '/')
		len--;
	if (len == 1 && text[0] == '.')
		len = 0;
	if (len >= TAR_PATH_MAX)
		return err_set(e, EINVAL, "tar: a path that is too long");
	memcpy(ret, text, len);
	ret[len] = '\0';
	if (strlen(ret) != len)
		return err_set(e, EINVAL, "tar: a path with a NUL");
	return len == 0 ? 0 : tar_check_path(ret, e);
}

static int name_of(const struct head *h, char ret[TAR_PATH_MAX], struct err *e)
{
	char whole[sizeof(h->prefix) + 1 + sizeof(h->name) + 1];
	int prefix = (int)strnlen(h->prefix, sizeof(h->prefix));
	/* GNU's own format keeps times where ustar has the prefix. */
	bool has_prefix = prefix > 0 && memcmp(h->magic, "ustar\0", 6) == 0;
	int n = snprintf(whole, sizeof(whole), "%.*s%s%.*s", has_prefix ? prefix : 0, h->prefix,
			 has_prefix ? "/" : "", (int)strnlen(h->name, sizeof(h->name)), h->name);

	return take_name(whole, (size_t)n, ret, e);
}

static const char *kind_of(char type)
{
	return type == '1' ? "a hard link" : type == '2' ? "a symbolic link" : "a special file";
}

int tar_long_name(const void *text, size_t len, char ret[TAR_PATH_MAX], struct err *e)
{
	if (len == 0 || len > TAR_PATH_MAX)
		return err_set(e, EINVAL, "tar: a long name is malformed");
	return take_name(text, strnlen(text, len), ret, e);
}

static int judge_entry(const struct head *h, const char *long_name, struct tar_entry *ret,
		       struct err *e)
{
	uint64_t mode;

	if (long_name)
		memcpy(ret->path, long_name, strlen(long_name) + 1);
	else if (name_of(h, ret->path, e) < 0)
		return -e->code;
	if (h->type != '0' && h->type != '\0' && h->type != '5')
		return err_set(e, EINVAL, "'%.150s' is %s", ret->path, kind_of(h->type));
	ret->is_directory = h->type == '5';
	if ((ret->is_directory && ret->size) || (!ret->is_directory && !ret->path[0]))
		return err_set(e, EINVAL, "tar: an entry is malformed");
	if (!read_number(h->mode, sizeof(h->mode), &mode))
		return err_set(e, EINVAL, "tar: a head is malformed");
	if (!ret->is_directory && (mode & 06000))
		return err_set(e, EINVAL, "'%.150s' has a set-id bit", ret->path);
	ret->is_executable = mode & 0100;
	return TAR_ENTRY;
}

int tar_judge(const uint8_t block[TAR_BLOCK], const char *long_name, struct tar_entry *ret,
	      struct err *e)
{
	struct head h;
	uint64_t sum;

	memset(ret, 0, sizeof(*ret));
	if (is_zero(block))
		return long_name ? err_set(e, EINVAL, "tar: cut off") : TAR_END;
	memcpy(&h, block, sizeof(h));
	if (!read_number(h.sum, sizeof(h.sum), &sum) || sum != sum_of(&h) ||
	    !read_number(h.size, sizeof(h.size), &ret->size))
		return err_set(e, EINVAL, "tar: a head is malformed");
	if (h.type != 'L')
		return judge_entry(&h, long_name, ret, e);
	if (long_name || ret->size == 0 || ret->size > TAR_PATH_MAX)
		return err_set(e, EINVAL, "tar: a long name is malformed");
	return TAR_LONG_NAME;
}

int tar_read(struct tar_reader *r, struct tar_entry *ret, struct err *e)
{
	char name[TAR_PATH_MAX];
	bool has_name = false;

	for (;;) {
		if (r->at == r->len && !has_name)
			return 0;
		if (r->len - r->at < TAR_BLOCK)
			return err_set(e, EINVAL, "tar: cut off");
		int kind = tar_judge(r->buf + r->at, has_name ? name : NULL, ret, e);
		if (kind <= 0)
			return kind;
		r->at += TAR_BLOCK;
		if (ret->size > r->len - r->at || tar_fill(ret->size) > r->len - r->at - ret->size)
			return err_set(e, EINVAL, "tar: cut off");
		ret->bytes = r->buf + r->at;
		r->at += ret->size + tar_fill(ret->size);
		if (kind == TAR_ENTRY)
			return 1;
		if (tar_long_name(ret->bytes, ret->size, name, e) < 0)
			return -e->code;
		has_name = true;
	}
}

/* --- Writing */

size_t tar_fill(uint64_t size)
{
	return (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

static void write_number(char *field, size_t len, uint64_t v)
{
	field[len - 1] = '\0';
	for (size_t i = len - 1; i-- > 0; v >>= 3)
		field[i] = (char)('0' + (v & 7));
}

static void put_head(uint8_t *out, const char *name, char type, bool is_executable, uint64_t size)
{
	struct head h = { 0 };

	memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	write_number(h.mode, sizeof(h.mode), type == '5' || is_executable ? 0755 : 0644);
	write_number(h.uid, sizeof(h.uid), 0);
	write_number(h.gid, sizeof(h.gid), 0);
	write_number(h.size, sizeof(h.size), size);
	write_number(h.mtime, sizeof(h.mtime), 0);
	h.type = type;
	memcpy(h.magic, "ustar  ", sizeof(h.magic)); /* GNU's, for its long names */
	write_number(h.sum, sizeof(h.sum) - 1, sum_of(&h));
	h.sum[7] = ' ';
	memcpy(out, &h, sizeof(h));
}

size_t tar_head(const char *path, bool is_directory, bool is_executable, uint64_t size,
		uint8_t out[TAR_HEAD_MAX])
{
	size_t n = 0, len = strlen(path);

	memset(out, 0, TAR_HEAD_MAX);
	if (len > 99) {
		put_head(out, long_link, 'L', false, len + 1);
		memcpy(out + TAR_BLOCK, path, len + 1);
		n = TAR_BLOCK + len + 1 + tar_fill(len + 1);
	}
	put_head(out + n, path, is_directory ? '5' : '0', is_executable, size);
	return n + TAR_BLOCK;
}
