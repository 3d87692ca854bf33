/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk: fills, deepens and shuffles the working directory.
 *   write FILE MB     data until it is refused      sparse FILE MB  one byte at the end
 *   keep FILE MB      fallocate(KEEP_SIZE)          alloc FILE MB   fallocate
 *   deleted MB        data in a file without a name inodes N        N empty files
 *   files N KB        N files of KB each            punch FILE MB   fill, punch, fill again
 *   deep N            N directories, each in the last (beyond PATH_MAX)
 *   hardlinks N       N names of one file           fifos N
 *   swap N            renames two trees over each other for N milliseconds, then ends
 *   symlinks          links in circles, to / and to /proc
 *   closed            directories of mode 000 with files in them
 * Prints `held` or `errno N at BYTES-OR-COUNT`; ends 0 or 3. SIGXFSZ is ignored.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static int refused(unsigned long long at)
{
	printf("errno %d at %llu\n", errno, at);
	return 3;
}

/* Writes until it is done or refused; gives how much went in. */
static unsigned long long pour(int fd, unsigned long long bytes)
{
	static char block[MIB];
	unsigned long long done = 0;

	memset(block, 0x5a, sizeof(block));
	while (done < bytes) {
		size_t want = bytes - done < MIB ? (size_t)(bytes - done) : MIB;
		ssize_t n = write(fd, block, want);
		if (n <= 0)
			break;
		done += (unsigned long long)n;
	}
	return done;
}

static int fill(int fd, unsigned long long bytes)
{
	unsigned long long done = pour(fd, bytes);

	return done < bytes || fsync(fd) < 0 ? refused(done) : 0;
}

static int make(const char *name)
{
	return open(name, O_RDWR | O_CREAT, 0644);
}

static int sparse(const char *name, unsigned long long bytes)
{
	int fd = make(name);

	if (fd < 0 || pwrite(fd, "x", 1, (off_t)bytes - 1) != 1)
		return refused(0);
	return 0;
}

static int punch(const char *name, unsigned long long bytes)
{
	int fd = make(name);

	for (int i = 0; i < 3; i++)
		if (lseek(fd, 0, SEEK_SET) < 0 || fill(fd, bytes) ||
		    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) < 0)
			return refused((unsigned long long)i);
	return 0;
}

static int deleted(unsigned long long bytes)
{
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);

	if (fd < 0) {
		fd = make("gone");
		unlink("gone");
	}
	return fill(fd, bytes);
}

static int many(const char *prefix, unsigned long long n, unsigned long long kb, int kind)
{
	char name[64];

	for (unsigned long long i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s%llu", prefix, i);
		if (kind == 'p') {
			if (mkfifo(name, 0644) < 0)
				return refused(i);
			continue;
		}
		if (kind == 'l') {
			if (link("first", name) < 0)
				return refused(i);
			continue;
		}
		int fd = make(name);
		if (fd < 0)
			return refused(i);
		if (pour(fd, kb << 10) < kb << 10)
			return refused(i);
		close(fd);
	}
	return 0;
}

static int deep(unsigned long long n)
{
	for (unsigned long long i = 0; i < n; i++) {
		if (mkdir("deeper-than-any-path-may-be", 0755) < 0 ||
		    chdir("deeper-than-any-path-may-be") < 0)
			return refused(i);
	}
	int fd = make("bottom");
	return fd < 0 ? refused(n) : fill(fd, MIB);
}

static int swap(unsigned long long ms)
{
	struct timespec a, b;

	mkdir("one", 0755);
	mkdir("two", 0755);
	mkdir("one/inner", 0755);
	mkdir("two/inner", 0755);
	if (symlink("/proc/self/root", "link") < 0)
		return refused(0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	do {
		renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_EXCHANGE);
		renameat2(AT_FDCWD, "one/inner", AT_FDCWD, "link", RENAME_EXCHANGE);
		renameat2(AT_FDCWD, "link", AT_FDCWD, "two/inner", RENAME_EXCHANGE);
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while ((unsigned long long)((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000) < ms);
	return 0;
}

static int symlinks(void)
{
	static const char *const links[][2] = {
		{ "a", "b" },	      { "b", "a" },	      { "self", "self" },
		{ "root", "/" },      { "up", "../../../.." }, { "proc", "/proc/self/root/proc/1/root" },
		{ "dangling", "gone" }, { "dir", "." },	      { "fd", "/proc/self/fd/0" },
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (symlink(links[i][1], links[i][0]) < 0)
			return refused(i);
	return 0;
}

static int closed(void)
{
	if (mkdir("shut", 0755) < 0 || mkdir("shut/inner", 0755) < 0 || chdir("shut") < 0)
		return refused(0);
	int fd = make("hidden");
	if (fd < 0 || fill(fd, 4 * MIB) || chmod("inner", 0) < 0 || chmod("hidden", 0) < 0 ||
	    chmod(".", 0) < 0)
		return refused(1);
	return chdir("..") < 0 || chmod(".", 0) < 0 ? refused(2) : 0;
}

static int by_name(const char *how, const char *name, unsigned long long bytes)
{
	int fd = make(name);

	if (fd < 0)
		return refused(0);
	if (!strcmp(how, "write"))
		return fill(fd, bytes);
	int flags = !strcmp(how, "keep") ? FALLOC_FL_KEEP_SIZE : 0;
	return fallocate(fd, flags, 0, (off_t)bytes) < 0 ? refused(0) : 0;
}

static int run(const char *how, const char *a, const char *b)
{
	unsigned long long na = strtoull(a, NULL, 0), nb = strtoull(b, NULL, 0);

	if (!strcmp(how, "write") || !strcmp(how, "keep") || !strcmp(how, "alloc"))
		return by_name(how, a, nb * MIB);
	if (!strcmp(how, "sparse"))
		return sparse(a, nb * MIB);
	if (!strcmp(how, "punch"))
		return punch(a, nb * MIB);
	if (!strcmp(how, "deleted"))
		return deleted(na * MIB);
	if (!strcmp(how, "inodes") || !strcmp(how, "files"))
		return many("n", na, nb, 'f');
	if (!strcmp(how, "fifos"))
		return many("fifo", na, 0, 'p');
	if (!strcmp(how, "hardlinks")) {
		int fd = make("first");
		return fill(fd, 8 * MIB) ? 3 : many("name", na, 0, 'l');
	}
	if (!strcmp(how, "deep"))
		return deep(na);
	if (!strcmp(how, "swap"))
		return swap(na);
	if (!strcmp(how, "symlinks"))
		return symlinks();
	if (!strcmp(how, "closed"))
		return closed();
	return 2;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	signal(SIGXFSZ, SIG_IGN);
	int rc = run(argv[1], argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "");
	if (rc == 0)
		printf("held\n");
	return rc;
}
