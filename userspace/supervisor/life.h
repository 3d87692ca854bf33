/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SUPERVISOR_LIFE_H
#define CORDON_SUPERVISOR_LIFE_H

/*
 * The life of an instance: boot until every daemon is ready, serve (restarting
 * what dies, answering the control socket), stop in order. One thread, one
 * poll.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/control.h"
#include "supervisor/daemons.h"
#include "supervisor/plane.h"
#include "wire/msg.h"

enum { CLIENTS_MAX = 8 };

enum life_phase {
	LIFE_BOOTING,
	LIFE_SERVING,
	LIFE_STOPPING,
	LIFE_OVER,
};

/* What a client of the control socket still waits for. */
enum client_wait { CLIENT_ASKS, CLIENT_RELOAD, CLIENT_DOWN };

struct client {
	int fd; /* -1: free */
	enum client_wait wait;
};

struct life {
	struct plane *plane;
	struct daemons daemons;
	int control_fd;
	int signal_fd;
	int report_fd; /* told once how the boot went; -1: nobody waits */
	enum life_phase phase;
	struct err failed; /* why the boot failed; code 0: it did not */
	uint64_t boot_deadline_ms;
	unsigned stop_step;
	uint32_t drain_ms;
	uint64_t stop_deadline_ms;
	char *new_text; /* a configuration being taken over; NULL: none */
	size_t new_len;
	struct config new_config;
	bool is_rolling_back;
	struct err reload_failed;
	uint64_t reload_deadline_ms;
	struct client clients[CLIENTS_MAX];
	struct msg msg;
};

/* Runs until everything is down. 0, or the boot's failure. Takes the descriptors. */
int life_run(struct life *l, struct err *e);

/* --- Orders, for signals and the control socket */

void life_stop(struct life *l, uint32_t drain_ms);
void life_reload(struct life *l);

/* --- Within the loop (control.c, reload.c) */

void control_accept(struct life *l);
void control_on_client(struct life *l, struct client *c);
/* Answers and lets go every client that waits for @wait. */
void control_answer(struct life *l, enum client_wait wait, const struct err *failed);
int reload_on_answer(struct life *l, enum daemon_id id, struct msg *m, struct err *e);
void reload_forget(struct life *l, enum daemon_id id);
void reload_check(struct life *l, uint64_t now_ms);

#endif
