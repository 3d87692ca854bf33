/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and decimals from a command line, and limits as a caller asks for them. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "policy/limits.h"

static void parse(const uint8_t *data, size_t size)
{
	char text[64];
	uint64_t v = 77, w = 77;

	if (size >= sizeof(text))
		size = sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	if (limits_parse_size(text, &v) < 0)
		assert(v == 77);
	else
		assert(strspn(text, "0123456789") >= strlen(text) - 1);
	if (limits_parse_milli(text, &w) < 0)
		assert(w == 77);
	else
		assert(strspn(text, "0123456789.") == strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct limits three[3], out = { 0 };
	struct err e = { 0 };

	parse(data, size);
	if (size < sizeof(three))
		return 0;
	memcpy(three, data, sizeof(three));
	const struct limits *asked = &three[0], *max = &three[2];
	if (limits_resolve(asked, &three[1], max, &out, &e) < 0) {
		assert(e.code && memchr(e.msg, '\0', sizeof(e.msg)));
		return 0;
	}
	assert(out.memory_bytes && out.memory_bytes <= max->memory_bytes);
	assert(out.workspace_bytes && out.workspace_bytes <= max->workspace_bytes);
	assert(out.output_bytes && out.output_bytes <= max->output_bytes);
	assert(out.timeout_ms && out.timeout_ms <= max->timeout_ms);
	assert(out.cpu_milli && out.cpu_milli <= max->cpu_milli);
	assert(out.pids && out.pids <= max->pids);
	assert(!asked->pids || asked->pids == out.pids);
	assert(limits_workspace_hard_bytes(out.workspace_bytes) > out.workspace_bytes ||
	       out.workspace_bytes == UINT64_MAX);
	assert(limits_workspace_inodes(out.workspace_bytes) >= 1024);
	return 0;
}
