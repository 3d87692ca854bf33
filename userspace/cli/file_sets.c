/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From configuration to roots. A plugin is a directory the operator names; the
 * directories of skills it declares in its cordon-plugin.json count only where
 * they really lie inside it.
 */
#include "cli/file_sets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/scope.h"
#include "json/json.h"
#include "skill/store.h"

enum { PLUGIN_MAX = 64 * 1024 };

static const char plugin_file[] = "cordon-plugin.json";

struct plugin {
	const char *name;
	const json_t *skills;
};

static const struct json_field plugin_fields[] = {
	FIELD(struct plugin, name, "name", FIELD_PTR, 0, 256),
	FIELD(struct plugin, skills, "skills", FIELD_ARRAY, FIELD_REQUIRED, 0),
};

static int add_declared(const struct files_set *plugin, const char *dir, const json_t *declared,
			struct files_set *ret, struct err *e)
{
	const char *rest = json_string_value(declared);
	struct files_place place;
	char path[FILES_PATH_MAX];

	if (!rest || !*rest || rest[0] == '/' || !files_join(dir, rest, path))
		return err_set(e, EINVAL, "plugin '%.150s': 'skills' names directories inside it", dir);
	/* Judged as it is written: files_join() by letters would hide where a link leads. */
	if (snprintf(path, sizeof(path), "%s/%s", dir, rest) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "plugin '%.150s': too long", dir);
	int rc = files_find(plugin, path, &place, e);
	if (rc < 0)
		return err_wrap(e, "plugin");
	return files_allow(ret, place.path, e);
}

static int add_plugin(const char *dir, struct files_set *ret, struct err *e)
{
	struct files_set own = { 0 };
	struct plugin plugin = { 0 };
	struct files_place place;
	char path[FILES_PATH_MAX + 32];
	autofree char *text = NULL;
	size_t len;
	int rc = files_allow(&own, dir, e);

	snprintf(path, sizeof(path), "%s/%s", dir, plugin_file);
	autoclose int fd = rc < 0 ? rc : files_open(&own, path, &place, e);
	if (fd >= 0)
		rc = fd_read_all(fd, PLUGIN_MAX, &text, &len, e);
	else
		rc = -e->code;
	auto_json json_t *v = rc < 0 ? NULL : json_parse_strict(text, len, 4, e);
	if (rc == 0 && (!v || json_fields_read(v, plugin_fields, ARRAY_SIZE(plugin_fields), &plugin, e) < 0))
		rc = err_wrap(e, path);
	for (size_t i = 0; rc == 0 && i < json_array_size(plugin.skills); i++)
		rc = add_declared(&own, own.allow[0].path, json_array_get(plugin.skills, i), ret, e);
	files_set_done(&own);
	return rc;
}

/* Calls @add for every part of a ':'-separated list. */
static int for_each(const char *list, int (*add)(const char *path, struct files_set *s, struct err *e),
		    struct files_set *s, struct err *e)
{
	char path[FILES_PATH_MAX];
	int rc = 0;

	while (rc == 0 && *list) {
		size_t n = strcspn(list, ":");
		memcpy(path, list, n); /* a value is shorter */
		path[n] = '\0';
		list += n + (list[n] == ':');
		rc = n > 0 ? add(path, s, e) : 0;
	}
	return rc;
}

_Static_assert((int)CONFIG_VALUE_MAX < (int)FILES_PATH_MAX, "a part fits");

int file_set_of_skills(const struct places *p, struct files_set *ret, struct err *e)
{
	autofree struct config *c = malloc(sizeof(*c));
	int rc = c ? places_read_config(p, c, NULL, NULL, e) : err_set(e, ENOMEM, "out of memory");

	*ret = (struct files_set){ 0 };
	if (rc == 0)
		rc = files_allow_list(ret, c->skill_roots, e);
	if (rc == 0)
		rc = for_each(c->skill_plugins, add_plugin, ret, e);
	if (rc < 0)
		files_set_done(ret);
	return rc;
}

static int deny(const char *path, struct files_set *s, struct err *e)
{
	return files_deny(s, path, e);
}

int file_set_of_model(const struct places *p, struct files_set *ret, struct err *e)
{
	const char *const own[] = { p->etc, p->run, p->state, p->logs };
	autofree struct config *c = malloc(sizeof(*c));
	int rc = c ? places_read_config(p, c, NULL, NULL, e) : err_set(e, ENOMEM, "out of memory");

	*ret = (struct files_set){ 0 };
	if (rc == 0)
		rc = files_allow_list(ret, c->file_allow, e);
	if (rc == 0)
		rc = files_deny_list(ret, c->file_deny, e);
	/* All of a plugin, not only what it declares: what it declares must not be written either. */
	if (rc == 0)
		rc = for_each(c->skill_roots, deny, ret, e);
	if (rc == 0)
		rc = for_each(c->skill_plugins, deny, ret, e);
	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(own); i++)
		rc = files_deny(ret, own[i], e);
	if (rc < 0)
		files_set_done(ret);
	return rc;
}
