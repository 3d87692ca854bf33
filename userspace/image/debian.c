/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The L0 that commands run on (SPEC N1): the host's own Debian suite from the
 * host's own mirrors, by mmdebstrap, Debian's packages only. What the build
 * brought along and a sandbox has no use for (caches, logs, documentation,
 * mirror passwords) goes again.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "image/recipe.h"
#include "image/sources.h"
#include "image/spawn.h"
#include "image/tree.h"

enum { DEBIAN_VERSION = 2, OS_RELEASE_MAX = 16 * 1024, ARGS_MAX = 40 };

/* What a command may count on. Recommended packages are not installed. */
static const char PACKAGES[] =
	"bash,ca-certificates,coreutils,curl,diffutils,file,findutils,git,grep,gzip,jq,less,"
	"nodejs,npm,patch,procps,python-is-python3,python3,python3-pip,python3-venv,ripgrep,sed,"
	"tar,tzdata,unzip,xz-utils,zip";

/* Documentation is half of the files; licences stay. */
static const char *const OPTIONS[] = {
	"--dpkgopt=path-exclude=/usr/share/man/*",
	"--dpkgopt=path-exclude=/usr/share/doc/*",
	"--dpkgopt=path-include=/usr/share/doc/*/copyright",
	"--dpkgopt=path-exclude=/usr/share/info/*",
	"--dpkgopt=path-exclude=/usr/share/locale/*",
	"--dpkgopt=force-unsafe-io", /* nothing of it counts before the image is synced */
	"--aptopt=APT::Install-Recommends \"false\"",
};

/* Removed afterwards: glob patterns below the root. */
static const char *const DROPPED[] = {
	"etc/apt/apt.conf.d/99mmdebstrap", /* may carry the host's proxy */
	"etc/apt/sources.list.d/*",
	"etc/dpkg/dpkg.cfg.d/99mmdebstrap",
	"etc/machine-id",
	"etc/.pwd.lock",
	"etc/*-", /* passwd- and the like */
	"root/.??*",
	"run/*",
	"sys", /* B4: a sandbox has none */
	"usr/lib/python3*/EXTERNALLY-MANAGED",
	"var/cache/apt/*.bin",
	"var/cache/apt/archives/*.deb",
	"var/cache/apt/archives/lock",
	"var/cache/debconf/*-old",
	"var/cache/ldconfig/*",
	"var/lib/apt/lists/*",
	"var/lib/apt/extended_states",
	"var/lib/dpkg/*-old",
	"var/lib/systemd",
	"var/log/*.log",
	"var/log/apt/*",
	"var/log/?tmp",
	"var/log/faillog",
	"var/log/lastlog",
	"var/tmp/*",
};

/* VERSION_CODENAME of a Debian host. */
static int host_suite(char ret[SUITE_MAX], struct err *e)
{
	autofree char *text = NULL;
	const char *key = "\nVERSION_CODENAME=";
	size_t len;

	if (fd_read_file(AT_FDCWD, "/etc/os-release", OS_RELEASE_MAX, &text, &len, e) < 0)
		return -e->code;
	const char *at = strstr(text, key);
	at = at ? at + strlen(key) : "";
	at += *at == '"';
	size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz");
	if (!strstr(text, "\nID=debian\n") || n == 0 || n >= SUITE_MAX)
		return err_set(e, ENOTSUP, "the host is no Debian release (/etc/os-release)");
	snprintf(ret, SUITE_MAX, "%.*s", (int)n, at);
	return 0;
}

static int host_sources(const char *suite, struct sources *ret, struct err *e)
{
	static const char *const argv[] = { "/usr/bin/apt-get", "indextargets",		"--format",
					    SOURCES_FORMAT,	"Created-By: Packages", NULL };
	const struct spawn sp = { .argv = argv, .wants_output = true };
	autofree char *text = NULL;

	if (spawn_run(&sp, &text, e) < 0)
		return err_wrap(e, "ask apt for the host's sources");
	switch (sources_choose(text, suite, ret)) {
	case SOURCES_OK:
		return 0;
	case SOURCES_TOO_MANY:
		return err_set(e, E2BIG, "more than %d sources of Debian %s", SOURCES_MAX, suite);
	case SOURCES_TOO_LONG:
		return err_set(e, E2BIG, "a source of Debian %s has an address too long", suite);
	case SOURCES_NONE:
		break;
	}
	return err_set(e, ENOENT, "the host's apt knows no source of Debian %s, component main",
		       suite);
}

static int describe(char **ret, struct err *e)
{
	char suite[SUITE_MAX], text[RECIPE_TEXT_MAX];
	struct sources sources;
	struct utsname u;

	if (host_suite(suite, e) < 0 || host_sources(suite, &sources, e) < 0)
		return -e->code;
	uname(&u);
	size_t len = (size_t)snprintf(text, sizeof(text),
				      "debian %d\nsuite %s\nmachine %s\npackages %s\n",
				      DEBIAN_VERSION, suite, u.machine, PACKAGES);
	for (size_t i = 0; i < ARRAY_SIZE(OPTIONS); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "option %s\n", OPTIONS[i]);
	for (size_t i = 0; i < sources.n; i++) {
		char line[SOURCE_SIZE];

		sources_public(sources.entry[i], line);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", line);
	}
	_Static_assert(SOURCES_MAX * SOURCE_SIZE + 4096 < RECIPE_TEXT_MAX, "the text fits");
	*ret = strdup(text);
	return *ret ? 0 : err_set(e, ENOMEM, "out of memory");
}

static int bootstrap(const char *path, const char *suite, const struct sources *sources,
		     void (*on_line)(const char *line, void *arg), void *arg, struct err *e)
{
	char include[sizeof("--include=") + sizeof(PACKAGES)], scratch[PATH_MAX];
	char tmpdir[PATH_MAX + 8];
	const char *const env[] = { tmpdir, NULL };
	const char *argv[ARGS_MAX];
	size_t n = 0;

	snprintf(include, sizeof(include), "--include=%s", PACKAGES);
	snprintf(scratch, sizeof(scratch), "%s.scratch", path);
	if (mkdir(scratch, 0700) < 0)
		return err_set(e, errno, "make '%s': %s", scratch, strerror(errno));
	snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", scratch);
	argv[n++] = "/usr/bin/mmdebstrap";
	argv[n++] = "--mode=root";
	argv[n++] = "--variant=apt";
	argv[n++] = "--format=directory";
	argv[n++] = "--components=main";
	argv[n++] = include;
	for (size_t i = 0; i < ARRAY_SIZE(OPTIONS); i++)
		argv[n++] = OPTIONS[i];
	argv[n++] = suite;
	argv[n++] = path;
	for (size_t i = 0; i < sources->n; i++)
		argv[n++] = sources->entry[i];
	argv[n] = NULL;
	_Static_assert(ARRAY_SIZE(OPTIONS) + SOURCES_MAX + 9 < ARGS_MAX, "the arguments fit");
	const struct spawn sp = {
		.argv = argv, .apart = true, .env = env, .on_line = on_line, .arg = arg
	};
	return spawn_run(&sp, NULL, e);
}

static int drop(const char *path, const char *pattern, struct err *e)
{
	char full[PATH_MAX];
	glob_t g;
	int r = 0;

	snprintf(full, sizeof(full), "%s/%s", path, pattern);
	int found = glob(full, GLOB_NOSORT, NULL, &g);
	if (found == GLOB_NOMATCH)
		return 0;
	if (found != 0)
		return err_set(e, ENOMEM, "look for '%s'", full);
	for (size_t i = 0; r == 0 && i < g.gl_pathc; i++)
		r = tree_remove(path, g.gl_pathv[i] + strlen(path) + 1, e);
	globfree(&g);
	return r;
}

/* What the image keeps to know of its sources: a layer build installs from them. */
static int write_sources(int rootfd, const struct sources *sources, struct err *e)
{
	char text[SOURCES_MAX * SOURCE_SIZE];
	const struct tree_entry entries[] = { { "etc/apt/sources.list", 0644, text },
					      { "etc/machine-id", 0444, "" } };
	size_t len = 0;

	for (size_t i = 0; i < sources->n; i++) {
		char line[SOURCE_SIZE];

		sources_public(sources->entry[i], line);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", line);
	}
	return tree_make(rootfd, entries, ARRAY_SIZE(entries), e);
}

/*
 * The day each password last changed is the day of the build: a constant instead
 * (18628 is 2021-01-01).
 */
static int settle_shadow(int rootfd, struct err *e)
{
	autofree char *text = NULL;
	autofree char *out = NULL;
	size_t len = 0, room, rest;
	char *line;

	if (fd_read_file(rootfd, "etc/shadow", OS_RELEASE_MAX, &text, &len, e) < 0)
		return err_wrap(e, "etc/shadow");
	room = 2 * len + 1;
	if (!(out = calloc(1, room)))
		return err_set(e, ENOMEM, "out of memory");
	rest = 0;
	for (char *save, *from = text; (line = strtok_r(from, "\n", &save)); from = NULL) {
		int name_and_password = 0, day = 0;

		sscanf(line, "%*[^:]:%*[^:]:%n%*d%n", &name_and_password, &day);
		if (day == 0)
			return err_set(e, EBADMSG, "etc/shadow: a line without a day");
		rest += (size_t)snprintf(out + rest, room - rest, "%.*s18628%s\n",
					 name_and_password, line, line + day);
	}
	autoclose int fd = fd_open_beneath(rootfd, "etc/shadow", O_WRONLY | O_TRUNC, 0, e);
	return fd < 0 ? fd : fd_write_all(fd, out, rest, e);
}

static int assemble(const char *path, void (*on_line)(const char *line, void *arg), void *arg,
		    struct err *e)
{
	char suite[SUITE_MAX];
	struct sources sources;

	if (geteuid() != 0)
		return err_set(e, EPERM, "a root file system has owners: needs root");
	if (host_suite(suite, e) < 0 || host_sources(suite, &sources, e) < 0 ||
	    bootstrap(path, suite, &sources, on_line, arg, e) < 0)
		return -e->code;
	for (size_t i = 0; i < ARRAY_SIZE(DROPPED); i++)
		if (drop(path, DROPPED[i], e) < 0)
			return -e->code;
	autoclose int rootfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rootfd < 0)
		return err_set(e, errno, "open '%s': %s", path, strerror(errno));
	if (settle_shadow(rootfd, e) < 0)
		return -e->code;
	return write_sources(rootfd, &sources, e);
}

const struct recipe recipe_debian = {
	.name = "debian",
	.about = "the host's Debian suite with Python, Node, git and what a shell needs",
	.needs_bytes = 1500ull << 20,
	.describe = describe,
	.assemble = assemble,
};
