/* SPDX-License-Identifier: Apache-2.0 */
/* cordon down, reload, health: the plane as a whole. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/http.h"
#include "cli/input.h"
#include "cli/table.h"
#include "json/json.h"
#include "proto/control.h"
#include "proto/supervisor.h"
#include "wire/msg.h"

enum {
	RELOAD_MS = 20000, /* for an answer */
	DOWN_MS = 60000,   /* beyond the drain, for an answer; and as much for its end */
};

/* Waits for C_RESULT. 0, or its code with its words. */
static int control_result(int fd, struct msg *m, int patience_ms, struct err *e)
{
	struct s_result r;
	struct pollfd answer = { .fd = fd, .events = POLLIN };

	if (poll(&answer, 1, patience_ms) == 0)
		return err_set(e, ETIMEDOUT, "cordond does not answer within %d s",
			       patience_ms / 1000);
	int rc = msg_recv(fd, m, e);

	if (rc <= 0)
		return rc < 0 ? rc : err_set(e, EPIPE, "cordond hung up");
	if (m->type != C_RESULT || m->len != sizeof(r))
		return err_set(e, EPROTO, "cordond's answer is malformed");
	memcpy(&r, m->body, sizeof(r));
	r.text[sizeof(r.text) - 1] = '\0';
	return r.code ? err_set(e, r.code, "%s", r.text) : 0;
}

/*
 * Sends one order and waits for its end, and with @until_gone for cordond's own.
 * -ENOENT or -ECONNREFUSED: it does not run.
 */
static int order(const struct places *p, enum control_msg what, const void *body, size_t len,
		 int patience_ms, bool until_gone, struct err *e)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	autofree struct msg *m = malloc(sizeof(*m));
	/* Not blocking: a queue at its door is an answer too. */
	autoclose int fd = m ? fd_dial(p->control, SOCK_SEQPACKET | SOCK_NONBLOCK, e) :
			       err_set(e, ENOMEM, "out of memory");

	if (fd < 0)
		return fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return err_set(e, errno, "peer: %s", strerror(errno));
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	if (pidfd < 0)
		return err_set(e, errno, "cordond's process: %s", strerror(errno));
	if (msg_send(fd, (uint16_t)what, body, len, NULL, 0, e) < 0 ||
	    control_result(fd, m, patience_ms, e) < 0)
		return -e->code;
	struct pollfd gone = { .fd = pidfd, .events = POLLIN };
	if (until_gone && poll(&gone, 1, DOWN_MS) == 0)
		return err_set(e, ETIMEDOUT, "cordond has answered and does not end");
	return 0;
}

static bool is_down(const struct err *e)
{
	return e->code == ENOENT || e->code == ECONNREFUSED;
}

struct down_options {
	struct option_number drain;
};

static const struct option down_rows[] = {
	OPTION(struct down_options, drain, "drain", 0, OPTION_MILLI, "S",
	       "let running commands end for so many seconds"),
};

int verb_down(struct invocation *in)
{
	struct down_options o = { 0 };
	struct places p;
	struct err e;
	int status;

	if (cli_options(in, down_rows, ARRAY_SIZE(down_rows), &o, &status) ||
	    input_no_more(in, &status))
		return status;
	if (o.drain.value > 86400000) {
		err_set(&e, EINVAL, "'--drain' is more than a day");
		return cli_refuse_options(&e);
	}
	struct c_down d = { .drain_ms = (uint32_t)o.drain.value };
	status = cli_places(in, &p);
	if (status)
		return status;
	if (order(&p, C_DOWN, &d, sizeof(d), DOWN_MS + (int)d.drain_ms, true, &e) == 0)
		return 0;
	if (!is_down(&e))
		return cli_fail(STATUS_FAILED, &e);
	fputs("cordon: not up\n", stderr);
	return 0;
}

int verb_reload(struct invocation *in)
{
	struct places p;
	struct err e;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_no_more(in, &status))
		return status;
	status = cli_places(in, &p);
	if (status)
		return status;
	if (order(&p, C_RELOAD, NULL, 0, RELOAD_MS, false, &e) == 0)
		return 0;
	if (is_down(&e))
		err_set(&e, e.code, "not up");
	return cli_fail(STATUS_FAILED, &e);
}

/* --- Health (R3): works without a daemon */

static json_t *state_object(const char *state, const char *text)
{
	json_t *v = json_object();

	json_add_text(v, "state", state);
	json_add_text(v, "text", text);
	return v;
}

static int print_health(const struct invocation *in, const json_t *v)
{
	if (in->common.is_json)
		cli_print_json(v);
	else
		table_print_object(v);
	if (cli_is(v, "state", "ready"))
		return 0;
	return cli_is(v, "state", "disabled") ? STATUS_OFF : STATUS_FAILED;
}

int verb_health(struct invocation *in)
{
	autofree char *text = NULL;
	struct places p;
	struct err e, why;
	size_t len;
	int status;

	if (cli_options(in, NULL, 0, NULL, &status) || input_no_more(in, &status))
		return status;
	status = cli_places(in, &p);
	if (status)
		return status;
	int rc = http_call(p.socket, "GET", "/v1/health", NULL, 0, &text, &len, &e);
	if (rc < 0) {
		enum reason r = cli_unreachable(&p, &e, &why);
		auto_json json_t *v = state_object(
			r == REASON_PLANE_DISABLED ? "disabled" : "unavailable", why.msg);
		return print_health(in, v);
	}
	auto_json json_t *v = json_parse_strict(text, len, 16, &e);
	if (!v)
		return cli_fail(STATUS_FAILED, &e);
	return print_health(in, v);
}
