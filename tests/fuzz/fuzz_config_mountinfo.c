/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a line of mountinfo, as a mount's options and as /proc/PID/cgroup:
 * nothing is read or written beyond it, no field holds more than the line did,
 * what is kept of options is controllers only, and a path is one of the text's.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/mountinfo.h"

static void check_options(const char *options)
{
	char list[64], again[64];

	if (cgroup_controllers(options, list, sizeof(list)) < 0)
		return;
	assert(strlen(list) < sizeof(list) && strlen(list) <= strlen(options));
	assert(cgroup_controllers(list, again, sizeof(again)) == 0 && strcmp(list, again) == 0);
	for (char *p = list; *p;) {
		char word[64];
		size_t n = strcspn(p, ",");
		memcpy(word, p, n);
		word[n] = '\0';
		assert(n && cgroup_has_controller(options, word));
		p += n + (p[n] == ',');
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hierarchies[] = { "", "memory", "cpu,cpuacct", "name=systemd" };
	char *text = malloc(size + 1), own[64];
	struct mount_line m;

	memcpy(text, data, size);
	text[size] = '\0';
	check_options(text);
	for (size_t i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]); i++)
		if (cgroup_own_path(text, hierarchies[i], own, sizeof(own)) == 0)
			assert(strcmp(own, "/") == 0 || (strstr(text, own) && !strchr(own, '\n')));
	size_t whole = strlen(text);
	if (mount_line_parse(text, &m) == 0) {
		assert(m.target[0] && m.root[0] && m.type[0]);
		assert(strlen(m.root) + strlen(m.target) + strlen(m.type) + strlen(m.source) +
			       strlen(m.options) + 11 <= whole);
	}
	free(text);
	return 0;
}
