/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CLI_ARTIFACT_H
#define CORDON_CLI_ARTIFACT_H

/*
 * Artifacts on the caller's side (W3): a file or tree packed into a tar stream
 * in memory, and a stream from a sandbox unpacked, believed in nothing. Both
 * are bounded; links and special files are refused, whole.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "artifact/scan.h"
#include "base/err.h"

struct artifact_pack {
	int fd;	       /* a memory file with the stream, at its beginning */
	json_t *files; /* {"path", "size", "sha256"} each */
};

/*
 * Packs @path (its last part becomes the stream's top; "." packs what is in
 * it) up to @max bytes. Read with the caller's own rights, no link followed.
 */
int artifact_pack(const char *path, uint64_t max, struct artifact_pack *ret, struct err *e);
void artifact_pack_done(struct artifact_pack *p);

/*
 * Unpacks the stream, whose entries all begin with @top, as @to, which must not
 * exist; all of it appears at once or nothing does. Executable bits are dropped
 * unless @keeps_exec. Gives the array of {"path", "size", "sha256",
 * "executable", "hook"} (caller's).
 */
int artifact_unpack(const void *buf, size_t len, const char *top, const char *to, bool keeps_exec,
		    json_t **ret, struct err *e);

#endif
