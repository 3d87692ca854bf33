/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database of any bytes, with or without a log beside it, as an auditor may be
 * brought one: no crash, no endless walk, nothing left beside it, and never a
 * good chain with a row in it, because no input holds the key.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/fuzz-copy-XXXXXX", db[64], wal[64], shm[64], key[64];

static void remove_dir(void)
{
	unlink(db);
	unlink(wal);
	unlink(key);
	rmdir(dir);
}

static void put(const char *path, const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	/* long ago: a file just written is looked at twice */
	static const struct timespec past[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	assert(fd >= 0 && write(fd, data, size) == (ssize_t)size && futimens(fd, past) == 0);
	close(fd);
}

/* The first two bytes, as pages of 512 bytes: where the log begins; 0xffff: no log. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct audit_result r;
	struct err e;

	if (!key[0]) {
		assert(mkdtemp(dir));
		snprintf(key, sizeof(key), "%s/key", dir);
		snprintf(db, sizeof(db), "%s/db", dir);
		snprintf(wal, sizeof(wal), "%s/db-wal", dir);
		snprintf(shm, sizeof(shm), "%s/db-shm", dir);
		put(key, (const uint8_t *)"another key than the seeds'", 27);
		atexit(remove_dir);
	}
	if (size < 2)
		return 0;
	size_t at = (size_t)(data[0] << 8 | data[1]) * 512;
	data += 2;
	size -= 2;
	unlink(wal);
	put(db, data, at < size ? at : size);
	if (at < size)
		put(wal, data + at, size - at);
	auto_(audit_files) f = NULL;
	assert(audit_files_open(db, key, NULL, &f, &e) == 0);
	audit_files_verify(f, NULL, &r);
	assert(r.verdict != VERDICT_OK || r.rows == 0);
	for (const char *p = r.text; *p; p++)
		assert(*p >= ' ' && *p <= '~');
	assert(access(shm, F_OK) < 0);
	return 0;
}
