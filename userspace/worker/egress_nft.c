/* SPDX-License-Identifier: Apache-2.0 */
/* Renders and loads the slot's ruleset. What it says is nft/slot.nft's business. */
#include "worker/egress_nft.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nftables/libnftables.h>

/* The text travels inside the program: nothing on the host can swap it. */
__asm__(".section .rodata\n"
	"slot_nft:\n"
	".incbin \"nft/slot.nft\"\n"
	"slot_nft_end:\n"
	".byte 0\n"
	".previous\n");
extern const char slot_nft[], slot_nft_end[];

static int render_ports(const uint16_t ports[EGRESS_PORTS], char *out, size_t size)
{
	int n = 0;

	for (int i = 0; i < EGRESS_PORTS; i++)
		if (ports[i])
			n += snprintf(out + n, size - (size_t)n, "%s%u", n ? ", " : "", ports[i]);
	return n;
}

int egress_nft_render(uint32_t gateway, const uint16_t ports[EGRESS_PORTS],
		      char out[static EGRESS_NFT_MAX], struct err *e)
{
	char list[32];
	int n;

	if (!gateway || render_ports(ports, list, sizeof(list)) == 0)
		return err_set(e, EINVAL, "a door without an address or a port");
	n = snprintf(out, EGRESS_NFT_MAX, "define gateway = %u.%u.%u.%u\ndefine ports = { %s }\n%.*s",
		     gateway >> 24, gateway >> 16 & 255, gateway >> 8 & 255, gateway & 255, list,
		     (int)(slot_nft_end - slot_nft), slot_nft);
	return n < EGRESS_NFT_MAX ? n : err_set(e, E2BIG, "nft/slot.nft has outgrown its buffer");
}

int egress_nft_load(uint32_t gateway, const uint16_t ports[EGRESS_PORTS], struct err *e)
{
	char text[EGRESS_NFT_MAX];
	struct nft_ctx *ctx;
	int rc = egress_nft_render(gateway, ports, text, e);

	if (rc < 0)
		return rc;
	ctx = nft_ctx_new(NFT_CTX_DEFAULT);
	if (!ctx)
		return err_set(e, ENOMEM, "open nftables");
	nft_ctx_buffer_error(ctx);
	nft_ctx_buffer_output(ctx);
	rc = nft_run_cmd_from_buffer(ctx, text);
	if (rc != 0)
		rc = err_set(e, EIO, "load nft/slot.nft: %.120s", nft_ctx_get_error_buffer(ctx));
	nft_ctx_free(ctx);
	return rc;
}
