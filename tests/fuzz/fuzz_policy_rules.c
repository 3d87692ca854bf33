/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as the configuration's ranges, exceptions, resolver and gateway
 * address: nothing is read beyond it, a fault points into it, and no range an
 * operator adds makes an address public.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "policy/rules.h"

static const char *const some[] = { "127.0.0.1", "10.1.2.3", "8.8.8.8", "::1", "fe80::1", "2001:4860:4860::8888" };

static void check_ranges(const char *text, size_t size)
{
	static struct address_rules r, none;
	struct rules_fault f;
	struct address a;

	memset(&r, 0, sizeof(r));
	if (!rules_add_ranges(&r, text, &f)) {
		assert(f.at >= text && f.at + f.len <= text + size);
		return;
	}
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		assert(address_parse(some[i], strlen(some[i]), &a));
		assert(address_classify_under(&a, &none) == ADDRESS_PUBLIC ||
		       address_classify_under(&a, &r) == ADDRESS_PROTECTED);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct address_rules r;
	struct rules_fault f;
	struct address server;
	char *text = malloc(size + 1);
	uint16_t port = 0;

	memcpy(text, data, size);
	text[size] = '\0';
	size = strlen(text);
	check_ranges(text, size);
	memset(&r, 0, sizeof(r));
	if (!rules_add_exceptions(&r, text, &f))
		assert(f.at >= text && f.at + f.len <= text + size);
	assert(!rules_resolver(text, "", &server, &port) || (server.family && port));
	assert(!rules_resolver("", text, &server, &port) || (server.family && port));
	uint32_t gateway = rules_gateway_address(text);
	struct address g = { .family = 4, .bytes = { (uint8_t)(gateway >> 24), (uint8_t)(gateway >> 16),
						     (uint8_t)(gateway >> 8), (uint8_t)gateway } };
	assert(!gateway || address_classify(&g) == ADDRESS_PROTECTED);
	free(text);
	return 0;
}
