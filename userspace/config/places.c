/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of an instance, by ROOT alone. Reads the configuration file for
 * those who may; makes nothing.
 */
#include "config/places.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"

struct place {
	size_t offset;
	const char *below;
};

static const struct place places[] = {
	{ offsetof(struct places, etc), "etc/cordon" },
	{ offsetof(struct places, conf), "etc/cordon/cordon.conf" },
	{ offsetof(struct places, secrets), "etc/cordon/secrets" },
	{ offsetof(struct places, run), "run/cordon" },
	{ offsetof(struct places, socket), "run/cordon/broker.sock" },
	{ offsetof(struct places, control), "run/cordon/cordond.sock" },
	{ offsetof(struct places, pid), "run/cordon/cordond.pid" },
	{ offsetof(struct places, state), "var/lib/cordon" },
	{ offsetof(struct places, logs), "var/log/cordon" },
};

int places_init(const char *root, struct places *ret, struct err *e)
{
	char real[PATH_MAX];

	if (!root || !*root)
		root = getenv("CORDON_ROOT");
	if (!root || !*root)
		root = "/";
	if (!realpath(root, real))
		return err_set(e, errno, "root '%s': %s", root, strerror(errno));
	if (strlen(real) >= PLACES_ROOT_MAX)
		return err_set(e, ENAMETOOLONG, "root '%.80s...' is longer than %d bytes", real,
			       PLACES_ROOT_MAX - 1);
	memset(ret, 0, sizeof(*ret));
	strcpy(ret->root, real); /* length checked above */
	const char *prefix = strcmp(real, "/") == 0 ? "" : real;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		snprintf((char *)ret + places[i].offset, PLACES_PATH_MAX, "%s/%s", prefix,
			 places[i].below);
	if (strlen(ret->control) > PLACES_SOCKET_MAX)
		return err_set(e, ENAMETOOLONG,
			       "root '%s': the socket's path would be %zu bytes, %d is the most",
			       real, strlen(ret->control), PLACES_SOCKET_MAX);
	return 0;
}

void places_image_store(const struct places *p, const struct config *c, char ret[PLACES_PATH_MAX])
{
	if (c->image_store[0])
		snprintf(ret, PLACES_PATH_MAX, "%s", c->image_store);
	else
		snprintf(ret, PLACES_PATH_MAX, "%.*s/images", PLACES_PATH_MAX - 10, p->state);
}

int places_program(const char *name, char *ret, size_t size, struct err *e)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		char *slash = strrchr(self, '/');
		if (slash)
			*slash = '\0';
		int len = snprintf(ret, size, "%s/%s", self, name);
		if (len > 0 && (size_t)len < size && access(ret, X_OK) == 0)
			return 0;
	}
	int len = snprintf(ret, size, "%s/%s", LIBEXECDIR, name);
	if (len > 0 && (size_t)len < size && access(ret, X_OK) == 0)
		return 0;
	return err_set(e, ENOENT, "program '%s' is neither beside this one nor in %s", name,
		       LIBEXECDIR);
}

bool places_rollout_is_on(const struct config *c)
{
	const char *env = getenv("CORDON_ROLLOUT");

	return env ? strcmp(env, "on") == 0 : c && c->rollout;
}

int places_read_config(const struct places *p, struct config *ret, char **ret_text,
		       size_t *ret_len, struct err *e)
{
	autofree char *text = NULL;
	size_t len = 0;
	int rc = fd_read_file(AT_FDCWD, p->conf, CONFIG_TEXT_MAX, &text, &len, e);

	if (rc == -ENOENT) {
		text = strdup("");
		rc = text ? 0 : err_set(e, ENOMEM, "configuration: out of memory");
	}
	if (rc < 0)
		return rc;
	if (config_parse(text, len, ret, e) < 0)
		return err_wrap(e, p->conf);
	if (ret_text)
		*ret_text = take_ptr(text);
	if (ret_len)
		*ret_len = len;
	return 0;
}
