/* SPDX-License-Identifier: Apache-2.0 */
/* Front matter: all or nothing, whatever the bytes; texts end where they say. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "skill/frontmatter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct front_matter none;
	struct front_matter fm;
	uint32_t line = 0;
	const char *fault = front_matter_read((const char *)data, size, &fm, &line);

	if (fault || !fm.is_present) {
		assert(memcmp(&fm, &none, sizeof(fm)) == 0);
		assert(!fault || line > 0);
		return 0;
	}
	assert(memchr(fm.name, '\0', sizeof(fm.name)));
	assert(memchr(fm.description, '\0', sizeof(fm.description)));
	assert(memchr(fm.allowed_tools, '\0', sizeof(fm.allowed_tools)));
	assert(!fm.requires_execution || memmem(data, size, "requiresExecution", 17));
	return 0;
}
