/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon skill: adding and removing; looking is skill_view.c's. What is added
 * is read here with the caller's own rights and leaves as data with digests.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/file_sets.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/skill_sink.h"
#include "cli/skill_source.h"
#include "cli/skill_view.h"
#include "json/json.h"

struct add_options {
	const char *slug;
};

static const struct option add_rows[] = {
	OPTION(struct add_options, slug, "slug", 0, OPTION_TEXT, "S",
	       "what it is called below /skills (default: the directory's name)"),
};

/* Options may stand before and behind the operand. */
static int read_operands(struct invocation *in, struct add_options *o, const char **ret,
			 int *ret_status)
{
	*ret = NULL;
	if (cli_options(in, add_rows, ARRAY_SIZE(add_rows), o, ret_status) ||
	    input_want(in, 1, "DIR, or - for JSON", ret_status))
		return 1;
	*ret = in->rest.argv[0];
	return 0;
}

/* A deep tree holds one descriptor per level. */
static void allow_descriptors(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

static int send_directory(const char *dir, const char *slug, struct skill_sink *to, struct err *e)
{
	char real[PATH_MAX];
	autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || !realpath(dir, real))
		return err_set(e, errno, "open '%s': %s", dir, strerror(errno));
	allow_descriptors();
	return skill_source_directory(fd, slug ? slug : strrchr(real, '/') + 1, to, NULL, NULL, e);
}

static int send_json(const char *slug, struct skill_sink *to, struct err *e)
{
	autofree char *text = NULL;
	size_t len;
	int rc = cli_read_input("-", SKILL_JSON_MAX, &text, &len, e);

	return rc < 0 ? rc : skill_source_json(text, len, slug, to, e);
}

/* What whoever staged it should know. */
static void say_advice(const struct places *p, const json_t *staged)
{
	const char *fault = cli_text(staged, "frontMatterFault");
	const char *advice =
		skill_advice(p, json_is_true(json_object_get(staged, "requiresExecution")));

	if (fault && *fault)
		fprintf(stderr, "cordon: warning: SKILL.md line %lld: %s\n",
			(long long)json_integer_value(json_object_get(staged, "frontMatterLine")),
			fault);
	if (advice)
		fprintf(stderr, "cordon: warning: %s\n", advice);
}

static int add(struct invocation *in)
{
	struct add_options o = { 0 };
	autofree struct skill_sink *to = malloc(sizeof(*to));
	auto_json json_t *staged = NULL;
	enum reason why = REASON_STAGING_FAILED;
	struct places p;
	const char *from;
	struct err e;
	int status;

	if (read_operands(in, &o, &from, &status))
		return status;
	status = cli_places(in, &p);
	if (status || !to)
		return status ? status : STATUS_FAILED;
	if (skill_sink_open(&p, to, &why, &e) < 0)
		return cli_refuse(why, &e);
	int rc = strcmp(from, "-") == 0 ? send_json(o.slug, to, &e) :
					  send_directory(from, o.slug, to, &e);
	if (rc == 0)
		rc = skill_sink_finish(to, &staged, &why, &e);
	skill_sink_drop(to);
	if (rc < 0)
		return cli_refuse(why, &e);
	say_advice(&p, staged);
	if (in->common.is_json)
		return cli_print_json(staged);
	printf("%s %s\n", cli_text(staged, "slug"), cli_text(staged, "digest"));
	return 0;
}

/* --- load: the same out of the configured roots, and from nowhere else (K6) */

static int judge_links(void *ctx, const struct stat *st, struct err *e)
{
	return files_check_links(ctx, st, e);
}

/* Outside is a refusal with its own reason, whether there is anything or not. */
static int load_refused(enum reason why, const struct err *e)
{
	return cli_refuse(e->code == EACCES ? REASON_CAPABILITY_DENIED : why, e);
}

static int load_one(const struct invocation *in, const struct places *p, struct files_set *set,
		    const char *path)
{
	autofree struct skill_sink *to = malloc(sizeof(*to));
	auto_json json_t *staged = NULL;
	enum reason why = REASON_STAGING_FAILED;
	struct files_place place;
	struct err e;
	autoclose int fd = files_open_directory(set, path, &place, &e);

	if (fd < 0)
		return load_refused(why, &e);
	if (!to)
		return STATUS_FAILED;
	if (skill_sink_open(p, to, &why, &e) < 0)
		return cli_refuse(why, &e);
	allow_descriptors();
	int rc = skill_source_directory(fd, strrchr(place.path, '/') + 1, to, judge_links, set, &e);
	if (rc == 0)
		rc = skill_sink_finish(to, &staged, &why, &e);
	skill_sink_drop(to);
	if (rc < 0)
		return load_refused(why, &e);
	say_advice(p, staged);
	if (in->common.is_json)
		return cli_print_json(staged);
	printf("%s %s\n", cli_text(staged, "slug"), cli_text(staged, "digest"));
	return 0;
}

struct found_skills {
	char **paths;
	size_t n;
};

static int note_skill(void *ctx, int fd, const char *path, const struct stat *st, struct err *e)
{
	struct found_skills *f = ctx;
	struct stat md;
	char below[PATH_MAX + 16];

	(void)fd;
	snprintf(below, sizeof(below), "%s/SKILL.md", path);
	if (!S_ISDIR(st->st_mode) || lstat(below, &md) < 0 || !S_ISREG(md.st_mode))
		return 0;
	char **more = realloc(f->paths, (f->n + 1) * sizeof(*more));
	if (!more)
		return err_set(e, ENOMEM, "out of memory");
	f->paths = more;
	f->paths[f->n] = strdup(path);
	return f->paths[f->n++] ? 0 : err_set(e, ENOMEM, "out of memory");
}

/* Every directory right below a root that holds a SKILL.md. */
static int load_all(const struct invocation *in, const struct places *p, struct files_set *set)
{
	struct found_skills f = { 0 };
	struct err e;
	int status = 0;

	for (size_t i = 0; status == 0 && i < set->nallow; i++)
		if (files_walk(set, set->allow[i].path, FILES_ONE_LEVEL, note_skill, &f, &e) < 0)
			status = load_refused(REASON_STAGING_FAILED, &e);
	for (size_t i = 0; i < f.n; i++) {
		if (status == 0)
			status = load_one(in, p, set, f.paths[i]);
		free(f.paths[i]);
	}
	free(f.paths);
	return status;
}

/* The operand behind the working directory, as it was written. */
static int absolute(const char *dir, char ret[PATH_MAX], struct err *e)
{
	char cwd[PATH_MAX] = "";

	if (dir[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		return err_set(e, errno, "working directory: %s", strerror(errno));
	return snprintf(ret, PATH_MAX, "%s%s%s", cwd, dir[0] == '/' ? "" : "/", dir) < PATH_MAX ?
		       0 :
		       err_set(e, ENAMETOOLONG, "path too long");
}

static int load(struct invocation *in)
{
	char path[PATH_MAX];
	struct files_set set;
	struct places p;
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) ||
	    (in->rest.argc > 1 && input_want(in, 1, "[DIR]", &status)))
		return status;
	status = cli_places(in, &p);
	if (status)
		return status;
	const char *dir = in->rest.argc ? in->rest.argv[0] : NULL;
	if (dir && absolute(dir, path, &e) < 0)
		return cli_refuse_options(&e);
	if (file_set_of_skills(&p, &set, &e) < 0)
		return load_refused(REASON_STAGING_FAILED, &e);
	status = dir ? load_one(in, &p, &set, path) : load_all(in, &p, &set);
	files_set_done(&set);
	return status;
}

/* --- remove */

struct remove_options {
	const char *digest;
};

static const struct option remove_rows[] = {
	OPTION(struct remove_options, digest, "digest", 0, OPTION_TEXT, "SHA256",
	       "this version only (default: all of the skill's)"),
};

static const char *bare_digest(const char *digest)
{
	return digest && strncmp(digest, "sha256:", 7) == 0 ? digest + 7 : digest;
}

static bool plane_is_down(const struct places *p)
{
	struct http h;
	struct err e;
	int rc = http_connect(p->socket, &h, &e);

	http_close(&h);
	return rc == -ENOENT || rc == -ECONNREFUSED;
}

static int remove_directly(const struct places *p, const char *slug, const char *digest)
{
	const char *const args[] = { "remove", slug, digest, NULL };
	autofree char *text = NULL;
	struct err e;

	return skill_stager_call(p, args, &text, &e) < 0 ? cli_refuse(REASON_STAGING_FAILED, &e) : 0;
}

static int drop(struct invocation *in)
{
	char path[HTTP_PATH_MAX] = "/v1/skills/";
	struct remove_options o = { 0 };
	auto_json json_t *answer = NULL;
	struct places p;
	struct err e;
	int status;

	if (cli_options(in, remove_rows, ARRAY_SIZE(remove_rows), &o, &status) ||
	    input_want(in, 1, "SLUG", &status))
		return status;
	status = cli_places(in, &p);
	if (status)
		return status;
	if (geteuid() == 0 && plane_is_down(&p))
		return remove_directly(&p, in->rest.argv[0], bare_digest(o.digest));
	if (http_add_part(path, in->rest.argv[0], &e) < 0)
		return cli_refuse_options(&e);
	if (o.digest)
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "?digest=%.64s",
			 bare_digest(o.digest));
	status = cli_call(in, "DELETE", path, NULL, &answer);
	if (!status && in->common.is_json)
		status = cli_print_json(answer);
	return status;
}

const struct verb skill_verbs[] = {
	{ "add", "DIR [--slug S] | --json -", "stage a skill, or a new version of one", add, NULL,
	  NULL },
	{ "load", "[DIR]", "stage skills out of the configured roots", load, NULL, NULL },
	{ "list", "[--all]", "list the catalog", skill_list, NULL, NULL },
	{ "show", "SLUG", "say what a skill holds", skill_show_one, NULL, NULL },
	{ "read", "SLUG PATH", "print one file of a skill", skill_read, NULL, NULL },
	{ "verify", "[SLUG]", "hash everything again", skill_verify, NULL, NULL },
	{ "remove", "SLUG [--digest SHA256]", "take a skill out of the catalog", drop, NULL, NULL },
	{ 0 },
};
