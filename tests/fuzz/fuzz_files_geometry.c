/* SPDX-License-Identifier: Apache-2.0 */
/* Joining by letters gives a normal path; what is denied is never inside. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "files/geometry.h"

static void check_normal(const char *p)
{
	assert(p[0] == '/');
	assert(!strstr(p, "//") && !strstr(p, "/./") && !strstr(p, "/../"));
	size_t n = strlen(p);
	assert(n < FILES_PATH_MAX && (n == 1 || p[n - 1] != '/'));
	assert(n < 2 || strcmp(p + n - 2, "/.") != 0);
	assert(n < 3 || strcmp(p + n - 3, "/..") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), joined[FILES_PATH_MAX], root[FILES_PATH_MAX];

	memcpy(text, data, size);
	text[size] = '\0';
	char *rest = strchr(text, '\n');
	if (rest)
		*rest++ = '\0';
	if (files_join("/", text, root)) {
		check_normal(root);
		if (rest && files_join(root, rest, joined)) {
			const char *allow[] = { "/" }, *deny[] = { root };
			check_normal(joined);
			enum files_verdict v = files_judge(allow, 1, deny, 1, joined);
			assert((v == FILES_DENIED) == files_is_below(root, joined));
			assert(files_judge(NULL, 0, deny, 1, joined) != FILES_INSIDE);
		}
	}
	free(text);
	return 0;
}
