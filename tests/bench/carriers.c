/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carriers: how long sealing and opening one carrier takes, on one core, with
 * the library the broker uses. Prints JSON: {"sealNs": N, "openNs": N}. Opening
 * is of a good carrier: the whole way of S3.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "session/carrier.h"

enum { ROUNDS = 200000 };

#define NOW 1700000000000u
#define TTL 900000u

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
	static const char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	const struct session_claim claim = { "organisation-1", "user-1", "agent_run", "run-7" };
	struct secret_set *set = NULL;
	struct session s, back;
	char text[CARRIER_MAX];
	size_t len = 0;
	int bad = 0;

	if (secrets_from_key(1, key, strlen(key), &set, NULL) < 0 ||
	    session_mint(&claim, 0, &s, NULL) != REASON_NONE)
		return 1;
	double start = now_ns();
	for (int i = 0; i < ROUNDS; i++)
		bad += carrier_seal(set, &s, NOW + (unsigned)i, TTL, text, &len) != REASON_NONE;
	double sealed = now_ns();
	for (int i = 0; i < ROUNDS; i++)
		bad += carrier_open(set, text, len, NOW + (unsigned)i, &back, NULL) != REASON_NONE;
	double opened = now_ns();
	secrets_free(set);
	if (bad)
		return 1;
	printf("{\"sealNs\": %.0f, \"openNs\": %.0f}\n", (sealed - start) / ROUNDS,
	       (opened - sealed) / ROUNDS);
	return 0;
}
