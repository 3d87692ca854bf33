/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inside: says what a program was started with, without a shell or a directory
 * handle in between: `fd N TARGET`, `cwd PATH`, `tty N` for a terminal, `env`
 * entries, `arg` entries, `sid`/`pgid`/`ppid`, supplementary groups. Values are printed
 * with non-printing bytes escaped, so that a line is a value.
 */
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

static void put(const char *word, const char *s)
{
	printf("%s ", word);
	for (; *s; s++)
		if (*s > ' ' && *s < 127 && *s != '\\')
			putchar(*s);
		else if (*s == ' ')
			putchar(' ');
		else
			printf("\\x%02x", (unsigned char)*s);
	putchar('\n');
}

static void descriptors(void)
{
	char path[32], target[512];

	for (int fd = 0; fd < 65536; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		printf("fd %d %s\n", fd, target);
		if (isatty(fd))
			printf("tty %d\n", fd);
	}
}

int main(int argc, char **argv)
{
	char cwd[4096];
	gid_t groups[64];

	descriptors();
	if (getcwd(cwd, sizeof(cwd)))
		put("cwd", cwd);
	for (char **e = environ; *e; e++)
		put("env", *e);
	for (int i = 0; i < argc; i++)
		put("arg", argv[i]);
	int n = getgroups(64, groups);
	for (int i = 0; i < n; i++)
		printf("group %u\n", groups[i]);
	printf("ids %u %u %u %u\n", getuid(), geteuid(), getgid(), getegid());
	printf("pid %d ppid %d sid %d pgid %d\n", getpid(), getppid(), getsid(0), getpgrp());
	printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
	return 0;
}
