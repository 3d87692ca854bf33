/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole staging out of any bytes. Digests in the input are made right first
 * (nobody finds one by chance), so that what is behind them is reached. What is
 * refused leaves no room and no catalog line; what is accepted verifies.
 */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "digest/digest.h"
#include "fuse-skills/stage.h"
#include "skill/stream.h"

static struct depot depot;
static char store[64];

static void remove_store(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", store);
	if (system(command) != 0)
		fprintf(stderr, "left: %s\n", store);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct err e;

	(void)argc;
	(void)argv;
	strcpy(store, "/dev/shm/cdn-fuzz-XXXXXX"); /* syncing costs nothing there */
	assert(mkdtemp(store));
	atexit(remove_store);
	assert(depot_open(AT_FDCWD, store, &depot, &e) == 0);
	return 0;
}

static void mend_digests(uint8_t *p, size_t size)
{
	size_t at = STREAM_BEGIN_LEN + (size >= STREAM_BEGIN_LEN ? p[9] : 0);
	struct stream_record r;

	while (at + STREAM_RECORD_LEN <= size) {
		bool is_end = p[at] == STREAM_END;
		if (stream_read_record(p + at, &r) || is_end)
			return;
		size_t content = at + STREAM_RECORD_LEN + r.path_len;
		if (content > size || r.size > size - content)
			return;
		digest_sha256(p + content, r.size, p + at + 16);
		at = content + r.size;
	}
}

static size_t count_rooms(void)
{
	DIR *d = opendir(store);
	struct dirent *entry;
	size_t n = 0;

	while ((entry = readdir(d)))
		n += strncmp(entry->d_name, "room.", 5) == 0;
	closedir(d);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("stream", MFD_CLOEXEC);
	uint8_t *copy = malloc(size + 1);
	struct k_staged staged;
	struct skill_image *image = NULL;
	struct err e;

	memcpy(copy, data, size);
	mend_digests(copy, size);
	assert(write(fd, copy, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	int rc = stage_stream(&depot, fd, &staged, &e);
	assert(count_rooms() == 0);
	if (rc == 0) {
		assert(skill_store_image(&depot.store, staged.digest, &image, &e) == 0);
		assert(strcmp(image->slug, staged.slug) == 0 && image->nfiles == staged.files);
		assert(skill_image_check_links(image, &e) == 0);
		assert(depot_remove(&depot, staged.slug, NULL, &e) == 0);
		skill_image_free(image);
	}
	free(copy);
	close(fd);
	return 0;
}
