/* SPDX-License-Identifier: Apache-2.0 */
/*
 * die: ends in the way its argument names, as a program on a host would.
 *   abort | segv | fpe | ill | bus | stack | signal N | exit N | trap
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int deeper(volatile int n)
{
	volatile char here[4096];

	here[0] = (char)n;
	return n < 0x7fffffff ? deeper(n + 1) + here[0] : 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "segv"))
		*(volatile int *)(uintptr_t)n = 1;
	if (!strcmp(how, "fpe")) {
		volatile int seven = 7, zero = n;
		return seven / zero;
	}
	if (!strcmp(how, "ill") || !strcmp(how, "trap"))
		__builtin_trap();
	if (!strcmp(how, "stack"))
		return deeper(0);
	if (!strcmp(how, "signal")) {
		kill(getpid(), n);
		sleep(5);
	}
	return n;
}
