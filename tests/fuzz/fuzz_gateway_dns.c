/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a DNS answer: bounded, never more addresses than fit, of the asked kind only. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum dns_type types[] = { DNS_A, DNS_AAAA };
	uint8_t *buf = malloc(size ? size : 1);

	memcpy(buf, data, size);
	for (int i = 0; i < 2; i++) {
		struct address out[DNS_ADDRESSES_MAX];
		int n = dns_read_answer(buf, size, types[i], "a.example", out);

		assert(n >= -1 && n <= DNS_ADDRESSES_MAX);
		for (int k = 0; k < n; k++)
			assert(out[k].family == (types[i] == DNS_A ? 4 : 6));
	}
	free(buf);
	return 0;
}
