/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linger MARK [keep]: leaves a process behind in every way there is and ends
 * with status 0: a child, a session of its own, a double fork, one that ignores
 * every signal, stops itself, or has cleared its death signal. Each writes a
 * line `MARK` to alive-N in the working directory every 20 ms as long as it lives.
 * Without `keep` the children give the output streams up, with it they hold them.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void stay(const char *mark, int n, int keep, int ready)
{
	char name[32];

	snprintf(name, sizeof(name), "alive-%d", n);
	prctl(PR_SET_PDEATHSIG, 0);
	if (!keep)
		for (int fd = 0; fd < 3; fd++) {
			close(fd);
			open("/dev/null", O_RDWR);
		}
	if (n >= 3)
		for (int s = 1; s < 65; s++)
			signal(s, SIG_IGN);
	int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (write(fd, mark, strlen(mark)) < 0 || write(ready, "r", 1) < 0)
		_exit(1);
	close(ready);
	for (;;) {
		usleep(20000);
		if (write(fd, mark, strlen(mark)) < 0)
			_exit(1);
	}
}

int main(int argc, char **argv)
{
	int keep = argc > 2, p[2];
	char c;

	if (argc < 2 || pipe(p) < 0)
		return 2;
	for (int n = 0; n < 6; n++) {
		if (fork() == 0) {
			if (n >= 1)
				setsid();
			/* A group that is orphaned while one of it is stopped is hung up. */
			signal(SIGHUP, SIG_IGN);
			if (n >= 2 && fork() != 0)
				_exit(0);
			if (n >= 4)
				setpgid(0, 0);
			if (n == 5 && fork() == 0)
				for (;;)
					kill(getpid(), SIGSTOP);
			stay(argv[1], n, keep, p[1]);
		}
	}
	close(p[1]);
	for (int n = 0; n < 6; n++)
		if (read(p[0], &c, 1) != 1)
			return 3;
	printf("left\n");
	return 0;
}
