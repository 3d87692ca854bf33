/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any registration as the broker's: it is taken whole or not at all, what is
 * taken is a valid policy of a tier that has a gateway, and its token alone
 * opens the room, until it is unregistered.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/room.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rooms rs;
	struct g_register g;
	struct room *r = NULL;
	struct err e = { 0 };

	if (size < sizeof(g))
		return 0;
	memcpy(&g, data, sizeof(g));
	size -= sizeof(g);
	char *text = malloc(size + 1);
	memcpy(text, data + sizeof(g), size);
	if (rooms_add(&rs, 7, &r, &e) < 0) {
		free(text);
		return 0;
	}
	if (room_register(&rs, r, &g, text, size, &e) == 0) {
		char token[sizeof(g.token) + 1] = { 0 };
		memcpy(token, g.token, sizeof(g.token));
		/* A host said twice is one. */
		assert(r->policy && r->policy->tier != EGRESS_TIER_NONE);
		assert(r->policy->nhosts <= g.nhosts && !r->policy->nhosts == !g.nhosts);
		assert(egress_token_valid(token, strlen(token)));
		assert(room_policy(r, token) == r->policy && rooms_know_token(&rs, token));
		assert(room_register(&rs, r, &g, text, size, &e) < 0);
		token[0] = token[0] == 'a' ? 'b' : 'a';
		assert(!room_policy(r, token));
		token[0] = g.token[0];
		room_unregister(r);
		assert(!room_policy(r, token) && !rooms_know_token(&rs, token));
	} else {
		assert(e.code && !r->policy && !r->is_registered);
	}
	rooms_remove(&rs, r);
	free(text);
	return 0;
}
