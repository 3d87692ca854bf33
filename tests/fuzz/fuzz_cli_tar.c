/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of a sandbox's tar: whatever the bytes, an entry that is given lies
 * inside the stream and its path is one we would write.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hold(int what)
{
	if (!what)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tar_reader r = { .buf = data, .len = size };
	struct tar_entry t;
	struct err e = { 0 };
	int rc;

	while ((rc = tar_read(&r, &t, &e)) > 0) {
		hold(t.bytes >= data && t.size <= (size_t)(data + size - t.bytes));
		hold(!t.path[0] || tar_check_path(t.path, &e) == 0);
		hold(t.path[0] || t.is_directory);
		tar_is_hook(t.path);
	}
	hold(rc == 0 || e.msg[0]);
	return 0;
}
