/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manifest that is accepted is written again byte by byte, becomes a tree
 * unless its names collide, and every node of that is found by its own path.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "skill/image.h"

static void check_text(const char *text, size_t len)
{
	static struct manifest_reader r;
	struct skill_entry entry;
	char *line = malloc(SKILL_LINE_MAX);
	size_t at;
	int rc;

	assert(line && manifest_begin(&r, text, len) == 0);
	at = manifest_write_begin(r.slug, line);
	assert(memcmp(text, line, at) == 0);
	while ((rc = manifest_next(&r, &entry)) == 1) {
		size_t n = manifest_write_entry(&entry, line);
		assert(n <= SKILL_LINE_MAX && at + n <= len && memcmp(text + at, line, n) == 0);
		assert(!skill_path_fault(entry.path, entry.path_len));
		at += n;
	}
	assert(rc == 0 && at + manifest_write_end(r.count, line) == len);
	assert(memcmp(text + at, line, len - at) == 0);
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct skill_image *image = NULL;
	char path[SKILL_PATH_MAX];
	struct err e;

	if (skill_image_parse((const char *)data, size, &image, &e) < 0) {
		assert(e.code == EBADMSG || e.code == ENOMEM);
		return 0;
	}
	check_text((const char *)data, size);
	for (uint32_t i = 0; i < image->nnodes; i++) {
		size_t n = skill_image_path(image, i, path);
		assert(skill_image_find(image, path, n) == (long)i);
	}
	skill_image_check_links(image, &e);
	skill_image_free(image);
	return 0;
}
