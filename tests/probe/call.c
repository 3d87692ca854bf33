/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call: makes system calls by number and says what came of each. The tables
 * with what must come of them live in the tests, so that the same line runs
 * inside a sandbox and outside it, as the control.
 *
 *   call [LINE...]       lines from standard input where none is given
 *   LINE is  LABEL NR ARG...     NR decimal or 0x..; a leading `i` means int 0x80
 *   ARG is   a number (0x.., negative), =TEXT a string, &HEX bytes (padded with
 *            zeros to a page), % an empty page, ^ the page before (again)
 *
 * Prints `LABEL ok VALUE`, `LABEL errno N` or `LABEL signal N`. Every call is
 * made in a child of its own session, with two seconds to live.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS = 6, PAGE = 4096, LINE_LEN = 8192 };

static char *page(void)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (p == MAP_FAILED)
		exit(99);
	return p;
}

static void unhex(const char *text, char *to)
{
	for (; text[0] && text[1]; text += 2) {
		char pair[3] = { text[0], text[1], 0 };
		*to++ = (char)strtoul(pair, NULL, 16);
	}
}

static long argument(const char *word)
{
	static char *last;

	if (*word == '^')
		return (long)(uintptr_t)last;
	if (*word == '=' || *word == '&' || *word == '%') {
		last = page();
		if (*word == '=')
			strncpy(last, word + 1, PAGE - 1);
		if (*word == '&')
			unhex(word + 1, last);
		return (long)(uintptr_t)last;
	}
	return word[0] == '-' ? strtol(word, NULL, 0) : (long)strtoul(word, NULL, 0);
}

static long int80(long nr, const long *a)
{
	long ret = nr;

	__asm__ volatile("int $0x80"
			 : "+a"(ret)
			 : "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]), "D"(a[4])
			 : "memory", "r8", "r9", "r10", "r11");
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

struct answer {
	long value;
	int error;
};

/* In a child: makes the call, leaves the answer in shared memory. */
static void make(char *line, struct answer *ret)
{
	char *word = strtok(line, " ");
	int legacy = 0;
	long a[ARGS] = { 0 }, nr;
	pid_t me = getpid();

	word = strtok(NULL, " ");
	if (!word)
		_exit(98);
	if (*word == 'i') {
		legacy = 1;
		word++;
	}
	nr = (long)strtoul(word, NULL, 0);
	for (int i = 0; i < ARGS && (word = strtok(NULL, " ")); i++)
		a[i] = argument(word);
	alarm(2);
	errno = 0;
	long v = legacy ? int80(nr, a) : syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if ((long)getpid() != (long)me && v == 0)
		_exit(0); /* the child of a clone that succeeded */
	ret->value = v;
	ret->error = v == -1 ? errno : 0;
	_exit(0);
}

static void one(const char *line)
{
	static struct answer *shared;
	char copy[LINE_LEN];
	int status;

	if (!shared)
		shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared->value = -2;
	shared->error = -2;
	snprintf(copy, sizeof(copy), "%s", line);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		make(copy, shared);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		exit(97);
	printf("%.*s ", (int)strcspn(line, " "), line);
	if (WIFSIGNALED(status))
		printf("signal %d\n", WTERMSIG(status));
	else if (shared->error > 0)
		printf("errno %d\n", shared->error);
	else if (shared->error == 0)
		printf("ok %ld\n", shared->value);
	else
		printf("lost %d\n", WEXITSTATUS(status)); /* the call ended or replaced the process */
}

int main(int argc, char **argv)
{
	char line[LINE_LEN];

	for (int i = 1; i < argc; i++)
		one(argv[i]);
	while (argc < 2 && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line && *line != '#')
			one(line);
	}
	return 0;
}
