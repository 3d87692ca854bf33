/* SPDX-License-Identifier: Apache-2.0 */
/* Catalogs: what is rendered is read again, and rendering that changes nothing more. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "skill/catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct catalog *c = NULL, *again = NULL;
	struct catalog_entry add = { .slug = "added", .added_s = UINT32_MAX };
	char *text = NULL, *twice = NULL;
	size_t len, len2;
	struct err e;

	if (catalog_parse((const char *)data, size, &c, &e) < 0)
		return 0;
	if (c->n == 0 || c->entries[c->n - 1].added_s < add.added_s) {
		assert(catalog_render(c, &add, NULL, NULL, &text, &len, &e) == 0);
		if (catalog_parse(text, len, &again, &e) == 0) {
			assert(catalog_find(again, "added"));
			assert(catalog_render(again, NULL, NULL, NULL, &twice, &len2, &e) == 0);
			assert(len == len2 && memcmp(text, twice, len) == 0);
		}
	}
	catalog_free(c);
	catalog_free(again);
	free(text);
	free(twice);
	return 0;
}
