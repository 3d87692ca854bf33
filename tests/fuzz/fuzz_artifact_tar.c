/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of a sandbox's tar: whatever the bytes, an entry that is given lies
 * inside the stream and its path is one we would write; the same in pieces.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "artifact/scan.h"
#include "artifact/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hold(int what)
{
	if (!what)
		abort();
}

/* Piece by piece nothing passes that is refused whole, and what passes has the same files. */
static void scan(const uint8_t *data, size_t size, int is_good, size_t nfiles)
{
	struct artifact_scan *s = artifact_scan_new(size);
	size_t at = 0, step = size % 7 + 1;
	struct err e = { 0 };
	int rc = s ? 0 : -1;

	for (; rc == 0 && at < size; at += step, step = step * 3 % 601 + 1)
		rc = artifact_scan_add(s, data + at, size - at < step ? size - at : step, &e);
	if (rc == 0 && artifact_scan_end(s, &e) == 0)
		hold(is_good && json_array_size(artifact_scan_files(s)) == nfiles);
	artifact_scan_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tar_reader r = { .buf = data, .len = size };
	struct tar_entry t;
	struct err e = { 0 };
	size_t n = 0, nfiles = 0;
	int rc;

	while ((rc = tar_read(&r, &t, &e)) > 0) {
		hold(t.bytes >= data && t.size <= (size_t)(data + size - t.bytes));
		hold(!t.path[0] || tar_check_path(t.path, &e) == 0);
		hold(t.path[0] || t.is_directory);
		tar_is_hook(t.path);
		n++;
		nfiles += !t.is_directory;
	}
	hold(rc == 0 || e.msg[0]);
	scan(data, size, rc == 0 && n > 0, nfiles);
	return 0;
}
