/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_RELAY_H
#define CORDON_CLI_RELAY_H

/*
 * One command's streams between this process and the broker: what comes back
 * goes to descriptors 1 and 2 byte for byte (or, for --json, into the result),
 * what is streamed in goes up on a second connection. A command whose relay
 * ends early is cancelled by that.
 */
#include <jansson.h>

#include "cli/http.h"
#include "config/places.h"
#include "policy/reason.h"
#include "wire/frames.h"

enum { RELAY_CHUNK = 64 * 1024, RELAY_CHUNK_ROOM = RELAY_CHUNK + 32 };

struct relay_buffer { /* --json: a stream as kept */
	char *at;
	size_t len, cap;
};

struct relay {
	struct places places;
	bool is_json, is_verbose;
	bool keeps; /* streams and result stay here for the caller; only refusals are printed */
	int stdin_fd; /* to be streamed; -1: none */
	int cancel_fd; /* --json: a signalfd, so that a cancelled command has its object; -1: none */
	struct http down, up;
	bool is_uploading;
	char *piece; /* a chunk on its way up; RELAY_CHUNK_ROOM bytes while uploading */
	size_t piece_at, piece_end;
	bool is_last_piece;
	struct relay_buffer kept[2];
	json_t *accepted, *result; /* owned; NULL: not come */
	struct frames frames;
};

/* Sends @body to @path and relays until the result. Gives SPEC 16's exit status. */
int relay_run(struct relay *r, const char *path, const json_t *body);

/* Frees what it holds; the descriptors of a fresh one are -1. */
void relay_done(struct relay *r);

/* result.c: the exit status of a result, with its line where it has one. */
int result_status(const json_t *result, bool is_verbose);

/* --json: puts the kept streams into the result, as text or base64, and prints it. */
int result_print(json_t *result, const struct relay_buffer kept[2]);

/*
 * --json for a command without a result: refused before it reached the plane
 * (@accepted NULL), or lost with the broker after it was accepted.
 */
json_t *result_without(enum reason why, const char *text, const json_t *accepted);

#endif
