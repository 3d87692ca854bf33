/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CONFIG_START_H
#define CORDON_CONFIG_START_H

/*
 * A daemon's side of include/proto/supervisor.h: what it is started with, and
 * what it tells cordond. Its working directory at exec is ROOT/var/lib/cordon
 * (opened by cordond as root: paths relative to it work whatever the modes of
 * the directories above).
 */
#include "base/err.h"
#include "config/config.h"
#include "proto/supervisor.h"

struct start {
	struct s_start s;
	int fds[8]; /* -1: none; s.kinds[i] says what fds[i] is */
	struct config config;
};

/*
 * Waits for S_START on SUPERVISOR_FD, checks it and parses the configuration's
 * slice. The descriptors are the caller's: take them with start_take_fd().
 */
int start_receive(struct start *ret, struct err *e);

/* The descriptor of @kind, ownership to the caller; -1 where there is none. */
int start_take_fd(struct start *s, enum supervisor_fd kind);

/* A restarted peer out of an S_PEER message (struct msg): its kind in *ret_kind, gives the fd. */
struct msg;
int start_peer(struct msg *m, enum supervisor_fd *ret_kind, struct err *e);

/* A new configuration out of S_RELOAD. Parses into *ret; answer with start_reloaded(). */
int start_reload(struct msg *m, struct config *ret, struct err *e);

/* S_READY; S_RELOADED with the outcome (e NULL: it is in force); S_FATAL. */
int start_ready(struct err *e);
int start_reloaded(const struct err *failed, struct err *e);
void start_fatal(const struct err *why);

#endif
