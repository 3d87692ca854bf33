/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small L0, for tests and quick starts: the host's static busybox with a link
 * per applet, and a real bash (command strings are `bash -c`). No package is
 * fetched.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "digest/digest.h"
#include "image/recipe.h"
#include "image/spawn.h"
#include "image/tree.h"

enum { BUSYBOX_VERSION = 1 };

static const char BUSYBOX[] = "/usr/bin/busybox";
static const char BASH[] = "/usr/bin/bash-static";

static const struct tree_entry LAYOUT[] = {
	{ "etc", 0755, NULL },
	{ "root", 0700, NULL },
	{ "usr", 0755, NULL },
	{ "usr/bin", 0755, NULL },
	{ "usr/local", 0755, NULL },
	{ "usr/local/bin", 0755, NULL },
	{ "var", 0755, NULL },
};

static int digest_of(const char *path, const char *package, char hex[DIGEST_HEX_MAX], struct err *e)
{
	uint8_t digest[DIGEST_LEN];
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set(e, errno, "'%s': %s (Debian package %s)", path, strerror(errno),
			       package);
	int r = digest_fd(fd, digest, NULL, e);
	if (r < 0)
		return err_wrap(e, path);
	digest_hex(digest, sizeof(digest), hex);
	return 0;
}

static int describe(char **ret, struct err *e)
{
	char busybox[DIGEST_HEX_MAX], bash[DIGEST_HEX_MAX];

	if (digest_of(BUSYBOX, "busybox-static", busybox, e) < 0 ||
	    digest_of(BASH, "bash-static", bash, e) < 0)
		return -e->code;
	if (asprintf(ret, "busybox %d\nbusybox %s\nbash %s\n", BUSYBOX_VERSION, busybox, bash) < 0)
		return err_set(e, ENOMEM, "out of memory");
	return 0;
}

static int link_applets(int rootfd, struct err *e)
{
	const char *const argv[] = { BUSYBOX, "--list", NULL };
	const struct spawn sp = { .argv = argv, .wants_output = true };
	autofree char *applets = NULL;
	char *rest;

	if (spawn_run(&sp, &applets, e) < 0)
		return -e->code;
	for (char *a = strtok_r(applets, "\n", &rest); a; a = strtok_r(NULL, "\n", &rest)) {
		char path[64];

		if (strcmp(a, "busybox") == 0 || strchr(a, '/') || strlen(a) > 40)
			continue;
		snprintf(path, sizeof(path), "usr/bin/%s", a);
		if (symlinkat("busybox", rootfd, path) < 0)
			return err_set(e, errno, "link '/%s': %s", path, strerror(errno));
	}
	return 0;
}

static int assemble(const char *path, void (*on_line)(const char *line, void *arg), void *arg,
		    struct err *e)
{
	static const char *const merged[] = { "bin", "sbin", "usr/sbin" };
	autoclose int rootfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)on_line;
	(void)arg;
	if (rootfd < 0)
		return err_set(e, errno, "open '%s': %s", path, strerror(errno));
	int r = tree_make(rootfd, LAYOUT, ARRAY_SIZE(LAYOUT), e);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(merged); i++)
		if (symlinkat(strchr(merged[i], '/') ? "bin" : "usr/bin", rootfd, merged[i]) < 0)
			r = err_set(e, errno, "link '/%s': %s", merged[i], strerror(errno));
	if (r == 0)
		r = tree_copy(rootfd, BUSYBOX, "usr/bin/busybox", 0755, e);
	if (r == 0)
		r = tree_copy(rootfd, BASH, "usr/bin/bash", 0755, e);
	return r < 0 ? r : link_applets(rootfd, e);
}

const struct recipe recipe_busybox = {
	.name = "busybox",
	.about = "static busybox and bash of the host, for tests",
	.needs_bytes = 32u << 20,
	.describe = describe,
	.assemble = assemble,
};
