/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_WORKER_EGRESS_NFT_H
#define CORDON_WORKER_EGRESS_NFT_H

/*
 * The second line: nft/slot.nft, loaded into the calling thread's network
 * namespace in one transaction. Costs 0.2 to 1 ms: off the request path.
 */
#include <stddef.h>
#include <stdint.h>

#include "abi/egress_types.h"
#include "base/err.h"

enum { EGRESS_NFT_MAX = 4096 };

/* The whole text that is loaded, with a NUL. Gives its length. */
int egress_nft_render(uint32_t gateway, const uint16_t ports[EGRESS_PORTS],
		      char out[static EGRESS_NFT_MAX], struct err *e);

int egress_nft_load(uint32_t gateway, const uint16_t ports[EGRESS_PORTS], struct err *e);

#endif
