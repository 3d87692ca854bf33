/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sockets: asks for a socket of every family, type and protocol there could
 * be and prints those it got, one `FAMILY TYPE PROTOCOL` per line, once plainly
 * and once with the high halves of the registers set (`high ...`); then the
 * pairs of socketpair (`pair ...`). FIRST and LAST narrow the families.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FAMILIES = 47, TYPES = 16, PROTOCOLS = 264 };

static const unsigned long high = 0xdeadul << 32;

static void sweep(const char *word, unsigned long bits, int first, int last)
{
	for (int f = first; f <= last; f++)
		for (int t = 0; t < TYPES; t++)
			for (int p = -1; p < PROTOCOLS; p++) {
				long fd = syscall(SYS_socket, bits | (unsigned)f, bits | (unsigned)t,
						  bits | (unsigned)p);
				if (fd < 0)
					continue;
				printf("%s%d %d %d\n", word, f, t, p);
				close((int)fd);
			}
}

int main(int argc, char **argv)
{
	int first = argc > 1 ? atoi(argv[1]) : 0, last = argc > 2 ? atoi(argv[2]) : FAMILIES - 1;
	int fds[2];

	sweep("", 0, first, last);
	sweep("high ", high, first, last);
	for (int f = first; f <= last; f++)
		for (int t = 0; t < TYPES; t++) {
			if (syscall(SYS_socketpair, f, t, 0, fds) < 0)
				continue;
			printf("pair %d %d\n", f, t);
			close(fds[0]);
			close(fds[1]);
		}
	return 0;
}
