/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: what parses also slices, and a slice parses to the same values. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c, worker;
	struct err e;
	char *slice = NULL;

	if (config_parse((const char *)data, size, &c, &e) < 0) {
		if (!e.code || !memchr(e.msg, '\0', sizeof(e.msg)))
			abort();
		return 0;
	}
	config_resolve_ids(&c, "cordon-0badcafe");
	if (c.host_ids.count < 16 || c.dflt.pids > c.max.pids || !c.dflt.memory_bytes)
		abort();
	if (config_slice((const char *)data, size, FOR_WORKER, "cordon-0badcafe", &slice, &e) < 0 ||
	    config_parse(slice, strlen(slice), &worker, &e) < 0)
		abort();
	if (worker.pool != c.pool || strcmp(worker.image, c.image) != 0 ||
	    memcmp(&worker.host_ids, &c.host_ids, sizeof(c.host_ids)) != 0)
		abort();
	free(slice);
	return 0;
}
