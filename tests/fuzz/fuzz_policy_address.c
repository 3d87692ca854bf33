/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as an address: what parses is what the C library reads, prints and
 * parses back, and no spelling of a protected address is public.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "abi/address_match.h"
#include "policy/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), out[ADDRESS_TEXT_MAX];
	struct address a, b;
	struct address_range r;
	uint8_t want[16];

	memcpy(text, data, size);
	text[size] = '\0';
	if (address_parse(text, size, &a)) {
		assert(strlen(text) == size);
		assert(inet_pton(a.family == 4 ? AF_INET : AF_INET6, text, want) == 1);
		assert(memcmp(want, a.bytes, a.family == 4 ? 4 : 16) == 0);
		size_t n = address_format(&a, out);
		assert(address_parse(out, n, &b) && address_equal(&a, &b));
		b = address_unmapped(&a);
		assert(address_classify(&a) == address_classify(&b));
	}
	if (address_parse_range(text, size, &r))
		assert(address_in_range(&r.net, &r));
	free(text);
	if (size >= 16) {
		/* Numbers: every embedding of a protected address is protected. */
		struct address six = { .family = 6 };
		uint32_t v4[ADDRESS_EMBEDDED_MAX] = { 0 };
		memcpy(six.bytes, data, 16);
		int n = address6_embedded(six.bytes, v4);
		for (int i = 0; i < n; i++)
			if (address4_protected(v4[i]))
				assert(address_classify(&six) == ADDRESS_PROTECTED);
	}
	return 0;
}
