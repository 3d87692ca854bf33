/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a liveness probe sends, cut anywhere: an answer that is taken is one
 * whole line with the id asked for, no beginning of it is taken or refused for
 * want of its end, and nobody's run lives for another.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char id[] = "0123456789abcdef";
	struct liveness_record r = { 0 }, again;
	struct err e = { 0 };
	json_t *v = NULL, *none = NULL;

	if (size > 2 * PROBE_ANSWER_MAX)
		return 0;
	char *text = malloc(size ? size : 1);
	memcpy(text, data, size);
	int rc = probe_line_read(text, size, id, &v, &r, &e);
	assert((rc < 0) == (e.code != 0) && (rc == 1) == (v != NULL));
	if (rc == 1) {
		assert(size <= PROBE_ANSWER_MAX && memchr(text, '\n', size) == text + size - 1);
		assert(memmem(text, size, id, sizeof(id) - 1) || memchr(text, '\\', size));
		for (size_t n = 0; n < size; n++) {
			struct err f = { 0 };
			assert(probe_line_read(text, n, id, &none, &again, &f) == 0);
		}
		assert(liveness_judge(&r, "o", "u") != LIVENESS_ALIVE ||
		       (strcmp(r.org_id, "o") == 0 && strcmp(r.user_id, "u") == 0));
		assert(liveness_judge(&r, "o", "u") != LIVENESS_ALIVE ||
		       liveness_judge(&r, "p", "u") == LIVENESS_FOREIGN);
	}
	json_decref(v);
	free(text);
	return 0;
}
