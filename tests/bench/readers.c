/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readers MODE PATH...: one pass over files, clocked from inside; prints the
 * nanoseconds of the whole pass. A bench of file systems wants no interpreter
 * between two calls.
 *
 *	open	open, read all, close every path on standard input (NUL-ended)
 *	stat	lstat every path on standard input
 *	seq	read PATH from begin to end, 128 KiB at a time
 *	random	5,000 reads of 4 KiB at places of PATH that no read-ahead finds
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RANDOM_READS = 5000 };

static char buf[1 << 20];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void read_whole(const char *path, size_t piece)
{
	int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		fail(path);
	while ((n = read(fd, buf, piece)) > 0)
		;
	if (n < 0)
		fail(path);
	close(fd);
}

static void read_random(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	uint64_t x = 88172645463325252u;

	if (fd < 0 || fstat(fd, &st) < 0)
		fail(path);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (int i = 0; i < RANDOM_READS; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (pread(fd, buf, 4096, (off_t)(x % ((uint64_t)st.st_size / 4096) * 4096)) != 4096)
			fail(path);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	static char names[8 << 20];
	size_t len = strcmp(mode, "open") == 0 || strcmp(mode, "stat") == 0 ?
			     fread(names, 1, sizeof(names) - 1, stdin) :
			     0;
	struct stat st;
	uint64_t begin = now_ns();

	for (size_t at = 0; at < len; at += strlen(names + at) + 1) {
		if (mode[0] == 'o')
			read_whole(names + at, 64 * 1024);
		else if (lstat(names + at, &st) < 0)
			fail(names + at);
	}
	if (strcmp(mode, "seq") == 0 && argc > 2)
		read_whole(argv[2], 128 * 1024);
	if (strcmp(mode, "random") == 0 && argc > 2)
		read_random(argv[2]);
	printf("%llu\n", (unsigned long long)(now_ns() - begin));
	return 0;
}
