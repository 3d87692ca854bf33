/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as /proc/self/mountinfo: judging it never reads beyond it, and a
 * table is accepted only when it names every mount of the plan that must be
 * there, once, and nothing else.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/launcher.h"
#include "launcher/plan.h"

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static unsigned due(bool has_view)
{
	unsigned n = 0;

	for (unsigned i = 0; i < plan_mounts_count; i++)
		n += plan_mounts[i].kind == PLAN_FIXED || plan_mounts[i].kind == PLAN_READONLY ||
		     plan_mounts[i].kind == PLAN_RUN || (plan_mounts[i].kind == PLAN_VIEW && has_view);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *table = malloc(size + 1), *copy = malloc(size + 1);
	bool has_view = size && data[0] % 2;
	struct failure f = { 0 };

	memcpy(table, data, size);
	table[size] = '\0';
	memcpy(copy, table, size + 1);
	if (plan_judge(table, has_view, &f) == 0) {
		unsigned n = count_lines(copy);
		assert(n >= due(has_view) && n <= plan_mounts_count);
		for (unsigned i = 0; i < plan_mounts_count; i++)
			if (plan_mounts[i].kind == PLAN_RUN)
				assert(strstr(copy, plan_mounts[i].target));
	} else {
		assert(f.code && f.step);
	}
	free(table);
	free(copy);
	return 0;
}
