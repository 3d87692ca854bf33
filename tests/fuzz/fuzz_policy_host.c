/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any two texts as entry and target: what parses formats and parses back to
 * itself; a match is exact or at a dot; the meet of two entries allows a target
 * exactly when both do.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "policy/host.h"

static void check_target(const struct target *t)
{
	char text[HOST_TEXT_MAX];
	struct target again;
	size_t n = target_format(t, 0, text);

	assert(n == strlen(text) && n < sizeof(text));
	assert(target_parse(text, n, 0, &again));
	assert(again.port == t->port && strcmp(again.host.name, t->host.name) == 0);
	assert(t->host.name[0] || address_equal(&again.host.address, &t->host.address));
	for (const char *c = t->host.name; *c; c++)
		assert(*c > 0x20 && *c < 0x7f && *c != '"' && *c != '\\' && *c != '/' && *c != '@');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *one = memchr(data, '\n', size);
	const uint8_t *two = one ? memchr(one + 1, '\n', size - (size_t)(one + 1 - data)) : NULL;
	struct host_entry a, b, m;
	struct target t;

	if (!two)
		return 0;
	const char *text = (const char *)two + 1;
	bool is_target = target_parse(text, size - (size_t)(two + 1 - data), 80, &t);
	host_entry_parse((const char *)data, (size_t)(one - data), &a);
	host_entry_parse((const char *)one + 1, (size_t)(two - one - 1), &b);
	if (!is_target)
		return 0;
	check_target(&t);
	bool in_a = host_entry_matches(&a, &t.host, t.port);
	bool in_b = host_entry_matches(&b, &t.host, t.port);
	bool in_m = host_entry_meet(&a, &b, &m) && host_entry_matches(&m, &t.host, t.port);
	assert(in_m == (in_a && in_b));
	if (in_a && a.host.name[0]) {
		size_t n = strlen(t.host.name), s = strlen(a.host.name);
		assert(n >= s && strcmp(t.host.name + n - s, a.host.name) == 0);
		assert(n == s || t.host.name[n - s - 1] == '.');
	}
	return 0;
}
