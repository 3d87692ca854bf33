/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a daemon learns who it is. Decides nothing about privileges: the caller
 * opens what only root can open and then confines itself.
 */
#include "config/start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/scope.h"
#include "wire/msg.h"

static int read_config(int fd, struct config *ret, struct err *e)
{
	autofree char *text = NULL;
	size_t len;

	if (!fd_is_sealed(fd))
		return err_set(e, EPROTO, "configuration is not sealed");
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "configuration: %s", strerror(errno));
	if (fd_read_all(fd, CONFIG_TEXT_MAX, &text, &len, e) < 0 ||
	    config_parse(text, len, ret, e) < 0)
		return err_wrap(e, "configuration");
	return 0;
}

/* The struct, its strings ended and its count that of the descriptors. */
static int read_start(struct msg *m, uint16_t type, struct s_start *ret, struct err *e)
{
	if (m->type != type || m->len != sizeof(*ret))
		return err_set(e, EPROTO, "message %u of %u bytes where %u was due", m->type,
			       m->len, type);
	memcpy(ret, m->body, sizeof(*ret));
	if (ret->nfds != m->nfds || ret->nfds > ARRAY_SIZE(ret->kinds) ||
	    !memchr(ret->root, '\0', sizeof(ret->root)) ||
	    !memchr(ret->instance, '\0', sizeof(ret->instance)))
		return err_set(e, EPROTO, "malformed message %u", type);
	return 0;
}

int start_receive(struct start *ret, struct err *e)
{
	autofree struct msg *m = malloc(sizeof(*m));
	int rc;

	if (!m)
		return err_set(e, ENOMEM, "start: out of memory");
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < ARRAY_SIZE(ret->fds); i++)
		ret->fds[i] = -1;
	if (fcntl(SUPERVISOR_FD, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(e, errno, "not started by cordond: descriptor 3: %s",
			       strerror(errno));
	rc = msg_recv(SUPERVISOR_FD, m, e);
	if (rc == 0)
		return err_set(e, EPIPE, "cordond is gone");
	if (rc < 0)
		return err_wrap(e, "start");
	rc = read_start(m, S_START, &ret->s, e);
	for (unsigned i = 0; rc == 0 && i < m->nfds; i++)
		ret->fds[i] = msg_take_fd(m, i);
	msg_close_fds(m);
	if (rc < 0)
		return rc;
	autoclose int conf = start_take_fd(ret, SFD_CONFIG);
	if (read_config(conf, &ret->config, e) < 0)
		return -e->code;
	return fault_arm(ret->config.fault, e);
}

int start_take_fd(struct start *s, enum supervisor_fd kind)
{
	for (unsigned i = 0; i < s->s.nfds; i++)
		if (s->s.kinds[i] == kind && s->fds[i] >= 0)
			return take_fd(&s->fds[i]);
	return -1;
}

int start_peer(struct msg *m, enum supervisor_fd *ret_kind, struct err *e)
{
	struct s_start s;
	int rc = read_start(m, S_PEER, &s, e);

	if (rc < 0)
		return rc;
	if (s.nfds != 1)
		return err_set(e, EPROTO, "a peer with %u descriptors", s.nfds);
	*ret_kind = s.kinds[0];
	return msg_take_fd(m, 0);
}

int start_reload(struct msg *m, struct config *ret, struct err *e)
{
	struct s_start s;
	int rc = read_start(m, S_RELOAD, &s, e);

	if (rc < 0)
		return rc;
	if (s.nfds != 1 || s.kinds[0] != SFD_CONFIG)
		return err_set(e, EPROTO, "a reload without configuration");
	autoclose int fd = msg_take_fd(m, 0);
	return read_config(fd, ret, e) < 0 ? -e->code : fault_arm(ret->fault, e);
}

int start_ready(struct err *e)
{
	return msg_send(SUPERVISOR_FD, S_READY, NULL, 0, NULL, 0, e);
}

static struct s_result to_result(const struct err *why)
{
	struct s_result r = { .code = why ? (why->code ? why->code : EIO) : 0 };

	if (why)
		snprintf(r.text, sizeof(r.text), "%s", why->msg);
	return r;
}

int start_reloaded(const struct err *failed, struct err *e)
{
	struct s_result r = to_result(failed);

	return msg_send(SUPERVISOR_FD, S_RELOADED, &r, sizeof(r), NULL, 0, e);
}

void start_fatal(const struct err *why)
{
	struct s_result r = to_result(why);
	struct err ignored;

	msg_send(SUPERVISOR_FD, S_FATAL, &r, sizeof(r), NULL, 0, &ignored);
}
