/* SPDX-License-Identifier: Apache-2.0 */
/* What server and stager share: how they die with the keeper. */
#include "roles.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

int role_tie(int life_line_fd, struct err *e)
{
	int flags = fcntl(life_line_fd, F_GETFL);
	char byte;

	if (fcntl(life_line_fd, F_SETOWN, getpid()) < 0 ||
	    fcntl(life_line_fd, F_SETSIG, SIGKILL) < 0 ||
	    fcntl(life_line_fd, F_SETFL, flags | O_ASYNC | O_NONBLOCK) < 0)
		return err_set(e, errno, "life line: %s", strerror(errno));
	/* Closed before it was armed? */
	if (read(life_line_fd, &byte, 1) == 0)
		return err_set(e, EPIPE, "the keeper is gone");
	return 0;
}
