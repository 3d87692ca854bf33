/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SUPERVISOR_GROUND_H
#define CORDON_SUPERVISOR_GROUND_H

/*
 * What an instance stands on before any daemon runs: its lock, directories
 * with their modes and owners, secrets, the listening socket.
 */
#include "base/err.h"
#include "supervisor/plane.h"

/*
 * Takes ROOT/run/cordon/cordond.pid for this instance's life. Gives the
 * descriptor that holds the lock, or -EALREADY with *e naming the holder.
 */
int ground_lock(const struct plane *p, struct err *e);

/* Writes this process's id into the locked file. */
int ground_write_pid(int lock_fd, struct err *e);

/* Makes directories, or sets mode and owner of those that exist. */
int ground_make_directories(const struct plane *p, struct err *e);

/*
 * Makes the secrets of a new instance; refuses one that is missing, empty or
 * readable by others where the instance has state. Names the file.
 */
int ground_secrets(const struct plane *p, struct err *e);

/* The version of the state; 0: none yet. A newer one than this program knows is refused. */
int ground_read_schema(const struct plane *p, struct err *e);

/* Says that the instance now has state (F8): after this a missing secret is an error. */
int ground_seal_schema(const struct plane *p, struct err *e);

/*
 * A mount namespace of cordond's own, which the daemons inherit: the plane's
 * mounts never show on the host and end with the last of its processes (B10).
 */
int ground_own_mounts(struct err *e);

/*
 * A bpffs of the instance's own at ROOT/run/cordon/bpf: what the worker pins
 * there enforces on whichever daemon dies (E6), and ends with the last of them,
 * when no sandbox is alive either.
 */
int ground_mount_pins(const struct plane *p, struct err *e);

/* The API's socket: 0660, root and the configured group, listening. Gives the descriptor. */
int ground_listen(const struct plane *p, struct err *e);

/* cordond's own socket: 0600, SEQPACKET, listening. Gives the descriptor. */
int ground_listen_control(const struct plane *p, struct err *e);

#endif
