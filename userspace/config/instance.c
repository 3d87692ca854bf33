/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instance's name. A file of its own, so that a program which needs only
 * paths does not carry a hash.
 */
#include <stdio.h>
#include <string.h>

#include "config/places.h"
#include "digest/digest.h"

void places_instance(const struct places *p, char ret[INSTANCE_MAX])
{
	uint8_t sum[DIGEST_LEN];

	digest_sha256(p->root, strlen(p->root), sum);
	memcpy(ret, "cordon-", 7);
	digest_hex(sum, 4, ret + 7);
}
