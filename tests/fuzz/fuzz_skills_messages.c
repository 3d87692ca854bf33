/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the broker may ask for: the list of a K_VIEW_OPEN, of any bytes and any
 * counts, over a store with one skill. A view that opens shows what was asked.
 */
#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuse-skills/depot.h"
#include "fuse-skills/stage.h"
#include "fuse-skills/views.h"
#include "skill/stream.h"

static struct views views;
static char store[64];

static void remove_store(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", store);
	if (system(command) != 0)
		fprintf(stderr, "left: %s\n", store);
}

static void stage(const char *slug)
{
	struct stream_record file = { .kind = STREAM_FILE, .path_len = 1 };
	struct stream_record end = { .kind = STREAM_END, .size = 1 };
	uint8_t head[STREAM_RECORD_LEN], begin[STREAM_BEGIN_LEN];
	int fd = memfd_create("stream", MFD_CLOEXEC);
	struct k_staged staged;
	struct depot depot;
	struct err e;
	static const uint8_t empty[32] = { 0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
					   0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
					   0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55 };

	memcpy(file.sha256, empty, sizeof(empty));
	stream_write_begin(strlen(slug), begin);
	assert(write(fd, begin, sizeof(begin)) == sizeof(begin));
	assert(write(fd, slug, strlen(slug)) == (ssize_t)strlen(slug));
	stream_write_record(&file, head);
	assert(write(fd, head, sizeof(head)) == sizeof(head) && write(fd, "f", 1) == 1);
	stream_write_record(&end, head);
	assert(write(fd, head, sizeof(head)) == sizeof(head) && lseek(fd, 0, SEEK_SET) == 0);
	assert(depot_open(AT_FDCWD, store, &depot, &e) == 0);
	if (stage_stream(&depot, fd, &staged, &e) < 0)
		fprintf(stderr, "%s\n", e.msg), abort();
	depot_close(&depot);
	close(fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct state *state = NULL;
	struct err e;

	(void)argc;
	(void)argv;
	strcpy(store, "/dev/shm/cdn-fuzz-XXXXXX"); /* syncing costs nothing there */
	assert(mkdtemp(store));
	atexit(remove_store);
	stage("a");
	stage("b.c");
	assert(state_open(memfd_create("state", MFD_CLOEXEC), &state, &e) == 0);
	assert(views_open(&views, state, store, &e) == 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct k_view_open in;
	static struct k_view out;
	struct err e = { 0 };

	if (size < offsetof(struct k_view_open, slugs) || size > sizeof(in))
		return 0;
	memset(&in, 0, sizeof(in));
	memcpy(&in, data, size);
	uint32_t count = in.count;
	int rc = views_add(&views, &in, size, &out, &e);
	assert(rc <= 0 && (rc == 0) == (e.code == 0));
	if (rc == 0) {
		assert(out.count == count && out.view != 0);
		uint32_t list[K_SKILLS_MAX];
		assert(state_view_list(views.state, out.view, list) == (int)count);
		views_drop(&views, out.view);
	}
	assert(views.open == 0);
	return 0;
}
