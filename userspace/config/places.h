/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CONFIG_PLACES_H
#define CORDON_CONFIG_PLACES_H

/*
 * Where an instance lives (SPEC 16): every path below ROOT, and its name.
 * Nothing is made here; ROOT has to exist.
 */
#include "base/err.h"
#include "config/config.h"

enum {
	PLACES_ROOT_MAX = 200,
	PLACES_PATH_MAX = PLACES_ROOT_MAX + 60,
	PLACES_SOCKET_MAX = 107, /* sun_path, with its NUL to spare */
	INSTANCE_MAX = 24,
};

struct places {
	char root[PLACES_ROOT_MAX];   /* real path; "/" or without a trailing slash */
	char etc[PLACES_PATH_MAX];    /* ROOT/etc/cordon */
	char conf[PLACES_PATH_MAX];   /* ROOT/etc/cordon/cordon.conf */
	char secrets[PLACES_PATH_MAX]; /* ROOT/etc/cordon/secrets */
	char run[PLACES_PATH_MAX];    /* ROOT/run/cordon */
	char socket[PLACES_PATH_MAX]; /* ROOT/run/cordon/broker.sock */
	char control[PLACES_PATH_MAX]; /* ROOT/run/cordon/cordond.sock */
	char pid[PLACES_PATH_MAX];    /* ROOT/run/cordon/cordond.pid */
	char state[PLACES_PATH_MAX];  /* ROOT/var/lib/cordon */
	char logs[PLACES_PATH_MAX];   /* ROOT/var/log/cordon */
};

/*
 * Fills *ret for @root (NULL or "": the environment's CORDON_ROOT, else "/").
 * -ENAMETOOLONG where the socket's path would not fit an address.
 */
int places_init(const char *root, struct places *ret, struct err *e);

/* cordon-XXXXXXXX: 8 hex digits of the SHA-256 of the real path of ROOT. */
void places_instance(const struct places *p, char ret[INSTANCE_MAX]);

/* The directory of image files: the configured one, else the instance's own. */
void places_image_store(const struct places *p, const struct config *c,
			char ret[PLACES_PATH_MAX]);

/*
 * The path of another program of the suite: beside the running one, else in
 * LIBEXECDIR. -ENOENT names it.
 */
int places_program(const char *name, char *ret, size_t size, struct err *e);

/* R1: on is exactly `on`. The environment decides where it speaks, else @c (NULL: nothing does). */
bool places_rollout_is_on(const struct config *c);

/* Reads and parses ROOT's configuration; an absent file is the presets. Gives *ret_text too. */
int places_read_config(const struct places *p, struct config *ret, char **ret_text,
		       size_t *ret_len, struct err *e);

#endif
