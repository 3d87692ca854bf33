/* SPDX-License-Identifier: Apache-2.0 */
/* An answer's head: a length within the buffer, and prefixes agree with the whole. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_head h, again;
	char *copy = malloc(size ? size : 1); /* exact, so that ASan sees one byte too far */

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	int n = http_parse_head(copy, size, &h);
	if (n > (int)size || (n > 0 && (h.status < 100 || h.status > 999 || h.length < -1)))
		abort();
	if (n > 0 && (http_parse_head(copy, (size_t)n, &again) != n ||
		      http_parse_head(copy, (size_t)n - 1, &again) != 0))
		abort();
	free(copy);
	return 0;
}
