/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The poll loop of one command. The upload never blocks: a command that does
 * not read must not keep its own output back.
 */
#include "cli/relay.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/scope.h"
#include "cli/cli.h"
#include "json/json.h"

/* --- Down: frames to descriptors */

static int write_out(int fd, const char *buf, size_t len, struct err *e)
{
	while (len > 0) {
		ssize_t n = write(fd, buf, len);
		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };
			poll(&p, 1, -1);
		} else if (n < 0 && errno != EINTR) {
			return err_set(e, errno, "standard %s: %s", fd == 1 ? "output" : "error",
				       strerror(errno));
		}
		if (n > 0)
			buf += n, len -= (size_t)n;
	}
	return 0;
}

static int keep(struct relay_buffer *b, const char *buf, size_t len, struct err *e)
{
	if (b->len + len > b->cap) {
		size_t cap = (b->len + len) * 2;
		char *more = cap > HTTP_ANSWER_MAX ? NULL : realloc(b->at, cap);
		if (!more)
			return err_set(e, ENOMEM, "no room for the command's output");
		b->at = more;
		b->cap = cap;
	}
	memcpy(b->at + b->len, buf, len);
	b->len += len;
	return 0;
}

/* The command has a name now: its standard input can be sent. */
static int on_accepted(struct relay *r, const char *text, size_t len, struct err *e)
{
	char path[HTTP_PATH_MAX] = "/v1/jobs/";

	r->accepted = json_parse_strict(text, len, 4, e);
	if (!r->accepted || r->stdin_fd < 0)
		return r->accepted ? 0 : -e->code;
	const char *job = cli_text(r->accepted, "jobId");
	const char *command = cli_text(r->accepted, "commandId");
	if (!job || !command || http_add_part(path, job, e) < 0)
		return err_set(e, EPROTO, "accepted without names");
	strcat(path, "/commands/"); /* http_add_part leaves room only for its own */
	if (http_add_part(path, command, e) < 0 || strlen(path) + 8 > sizeof(path))
		return err_set(e, EPROTO, "accepted without usable names");
	strcat(path, "/stdin");
	r->piece = malloc(RELAY_CHUNK_ROOM);
	if (!r->piece)
		return err_set(e, ENOMEM, "out of memory");
	if (http_open_upload(r->places.socket, path, &r->up, e) < 0)
		return err_wrap(e, "standard input");
	r->is_uploading = true;
	return 0;
}

static int on_frame(void *ctx, enum frame_kind kind, const char *buf, size_t len, struct err *e)
{
	struct relay *r = ctx;

	switch (kind) {
	case FRAME_ACCEPTED:
		return on_accepted(r, buf, len, e);
	case FRAME_RESULT:
		r->result = json_parse_strict(buf, len, 16, e);
		return r->result ? 0 : err_wrap(e, "the result");
	default:
		if (r->is_json || r->keeps)
			return keep(&r->kept[kind - FRAME_STDOUT], buf, len, e);
		return write_out(kind == FRAME_STDOUT ? STDOUT_FILENO : STDERR_FILENO, buf, len, e);
	}
}

/* 1: more to come, 0: the answer is over. */
static int read_down(struct relay *r, struct err *e)
{
	char buf[RELAY_CHUNK];
	ssize_t n = http_read(&r->down, buf, sizeof(buf), e);

	if (n < 0)
		return (int)n;
	if (n > 0 && frames_feed(&r->frames, buf, (size_t)n, e) < 0)
		return -e->code;
	if (n == 0 && !r->frames.is_over)
		return err_set(e, EPIPE, "the broker hung up");
	return !r->frames.is_over;
}

/* --- Up: standard input in chunks */

static void end_upload(struct relay *r)
{
	r->is_uploading = false;
	close(take_fd(&r->stdin_fd));
	/* The connection stays open: its closing before the answer might be taken for a loss. */
}

static void read_stdin(struct relay *r)
{
	enum { ROOM = 16 };
	ssize_t n = read(r->stdin_fd, r->piece + ROOM, RELAY_CHUNK);
	char size[ROOM + 1];

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) {
		/* An end the command would take for a whole input: let it see a loss instead. */
		http_close(&r->up);
		end_upload(r);
		return;
	}
	int len = snprintf(size, sizeof(size), "%zx\r\n", (size_t)n);
	r->piece_at = (size_t)(ROOM - len);
	memcpy(r->piece + r->piece_at, size, (size_t)len);
	memcpy(r->piece + ROOM + n, "\r\n", 2);
	r->piece_end = ROOM + (size_t)n + 2;
	r->is_last_piece = n == 0;
}

static void send_piece(struct relay *r)
{
	ssize_t n = send(r->up.fd, r->piece + r->piece_at, r->piece_end - r->piece_at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) { /* the command has ended or reads no more */
		end_upload(r);
		return;
	}
	r->piece_at += (size_t)n;
	if (r->piece_at == r->piece_end && r->is_last_piece)
		end_upload(r);
}

/* --- The loop */

static int pump(struct relay *r, struct err *e)
{
	int more = 1;

	while (more > 0) {
		bool has_piece = r->piece_at < r->piece_end;
		struct pollfd p[4] = {
			{ .fd = r->down.fd, .events = POLLIN },
			{ .fd = r->is_uploading && !has_piece ? r->stdin_fd : -1,
			  .events = POLLIN },
			{ .fd = r->is_uploading ? r->up.fd : -1,
			  .events = has_piece ? POLLOUT : 0 },
			{ .fd = r->cancel_fd, .events = POLLIN },
		};
		int wait = http_has_buffered(&r->down) ? 0 : -1;
		if (poll(p, 4, wait) < 0 && errno != EINTR)
			return err_set(e, errno, "poll: %s", strerror(errno));
		if (p[3].revents)
			return err_set(e, ECANCELED, "by a signal");
		if (p[1].revents)
			read_stdin(r);
		if (r->is_uploading && (p[2].revents & (POLLERR | POLLHUP)))
			end_upload(r);
		else if (r->is_uploading && (p[2].revents & POLLOUT))
			send_piece(r);
		if (p[0].revents || wait == 0)
			more = read_down(r, e);
	}
	return more;
}

/*
 * SIGINT and SIGTERM cancel at once (SPEC 16): the broker sees this connection
 * close. A handler and not a signalfd, because a write to a full pipe must not
 * hold the cancellation up.
 */
static void on_cancel(int sig)
{
	(void)sig;
	_exit(STATUS_CANCELLED);
}

/* With --json nothing is written until the end, and the end is to be told. */
static void arm_cancel(struct relay *r)
{
	struct sigaction a = { .sa_handler = on_cancel }, old;
	static const int signals[] = { SIGINT, SIGTERM };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		if (sigaction(signals[i], NULL, &old) < 0 || old.sa_handler == SIG_IGN)
			continue;
		sigaddset(&set, signals[i]);
		sigaction(signals[i], &a, NULL);
	}
	if (!r->is_json)
		return;
	r->cancel_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->cancel_fd >= 0)
		sigprocmask(SIG_BLOCK, &set, NULL);
}

/* The answer may be long in coming: the command may wait in a queue. */
static int wait_for_answer(struct relay *r, struct err *e)
{
	struct pollfd p[2] = { { .fd = r->down.fd, .events = POLLIN },
			       { .fd = r->cancel_fd, .events = POLLIN } };

	while (r->cancel_fd >= 0 && poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "poll: %s", strerror(errno));
	return p[1].revents ? err_set(e, ECANCELED, "by a signal") : 0;
}

/* --- The whole */

static int refuse(const struct relay *r, enum reason why, const struct err *e)
{
	if (r->is_json) {
		json_t *v = result_without(why, e->msg, r->accepted);
		result_print(v, r->kept);
		json_decref(v);
	}
	return cli_refuse(why, e);
}

/* An answer that is no stream is a refusal: the object says why. */
static int read_refusal(struct relay *r)
{
	char buf[RELAY_CHUNK];
	struct relay_buffer whole = { 0 };
	struct err e;
	ssize_t n;

	while ((n = http_read(&r->down, buf, sizeof(buf), &e)) > 0)
		if (keep(&whole, buf, (size_t)n, &e) < 0)
			break;
	autofree char *text = whole.at;
	auto_json json_t *v = json_parse_strict(text ? text : "", whole.len, 16, &e);
	if (!v || !cli_text(v, "reason")) {
		err_set(&e, EPROTO, "the broker answers %d without a reason", r->down.head.status);
		return refuse(r, REASON_WORKER_ERROR, &e);
	}
	if (r->is_json)
		result_print(v, r->kept);
	return result_status(v, r->is_verbose);
}

static int send_request(struct relay *r, const char *path, const json_t *body, struct err *e)
{
	size_t len;
	autofree char *text = json_dump_compact(body, &len);

	if (!text)
		return err_set(e, ENOMEM, "out of memory");
	int rc = http_request(&r->down, "POST", path, NULL, text, len, e);
	/* A refusal may come before the whole body went out. */
	return rc == -EPIPE ? 0 : rc;
}

static int finish(struct relay *r, int rc, const struct err *failed)
{
	if (rc < 0)
		return refuse(r, rc == -ECANCELED ? REASON_CANCELLED : REASON_BROKER_LOST, failed);
	if (r->is_json && result_print(r->result, r->kept))
		return STATUS_FAILED;
	return result_status(r->result, r->is_verbose);
}

int relay_run(struct relay *r, const char *path, const json_t *body)
{
	struct err e, why;

	r->frames = (struct frames){ .on_frame = on_frame, .ctx = r };
	if (http_connect(r->places.socket, &r->down, &e) < 0)
		return refuse(r, cli_unreachable(&r->places, &e, &why), &why);
	arm_cancel(r);
	if (send_request(r, path, body, &e) < 0 || wait_for_answer(r, &e) < 0 ||
	    http_read_head(&r->down, &e) < 0)
		return finish(r, -e.code, &e);
	if (r->down.head.status != 200 || !r->down.head.is_stream)
		return read_refusal(r);
	int rc = pump(r, &e);
	http_close(&r->up);
	http_close(&r->down);
	return finish(r, rc, &e);
}

void relay_done(struct relay *r)
{
	http_close(&r->up);
	http_close(&r->down);
	scope_close(&r->stdin_fd);
	scope_close(&r->cancel_fd);
	frames_done(&r->frames);
	json_decref(r->accepted);
	json_decref(r->result);
	free(r->kept[0].at);
	free(r->kept[1].at);
	free(r->piece);
}
