/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: its head, the decision, its tunnel, its end. Every
 * path out of a state ends in exactly one of: another state, conn_close.
 */
#include "gateway/conn.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "gateway/door.h"

enum { DRAIN_MAX = 64 * 1024 };

static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

static void on_deadline(struct deadline *d)
{
	struct conn *c = CONTAINER_OF(d, struct conn, deadline);

	/* A way that leads nowhere is not the end: there may be another. */
	if (c->state == CONN_RESOLVING || c->state == CONN_DIALLING)
		dial_next(c);
	else
		conn_close(c, c->state == CONN_TUNNEL || c->state == CONN_EXCHANGE);
}

static void arm(struct conn *c, enum deadline_kind kind)
{
	loop_arm(&c->g->loop, &c->deadline, kind, on_deadline);
}

static void note_events(struct end *x, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		x->is_readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		x->has_ended = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		x->is_writable = true;
}

static void on_client(struct watch *w, uint32_t events)
{
	struct conn *c = CONTAINER_OF(CONTAINER_OF(w, struct end, w), struct conn, client);

	note_events(&c->client, events);
	/* Gone both ways: nobody is left to answer to. A tunnel sees it as it carries. */
	if ((events & (EPOLLHUP | EPOLLERR)) && c->state != CONN_TUNNEL)
		conn_close(c, true);
	else
		conn_step(c);
}

bool conn_open(struct gateway *g, struct room *room, int fd)
{
	struct conn *c = fault_hit("gateway.conn") ? NULL : calloc(1, sizeof(*c));
	struct err ignored;

	if (!c || loop_watch(&g->loop, &c->client.w, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
			     on_client, &ignored) < 0) {
		free(c);
		close(fd);
		return false;
	}
	c->g = g;
	c->room = room;
	c->upstream.w.fd = -1;
	c->client.is_writable = true;
	lane_init(&c->out);
	lane_init(&c->back);
	c->next = room->conns;
	if (c->next)
		c->next->prev = c;
	room->conns = c;
	room->nconns++;
	arm(c, DEADLINE_HEAD);
	return true;
}

void conn_count_wire(struct room *room, int fd, bool reset)
{
	enum { TCP_CLOSED = 7 };
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (fault_hit("gateway.count"))
		return; /* as if these bytes had not come this way */
	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	room->wire_bytes += info.tcpi_bytes_acked + info.tcpi_bytes_received;
	if (info.tcpi_bytes_sent > info.tcpi_bytes_acked)
		room->wire_slack += info.tcpi_bytes_sent - info.tcpi_bytes_acked;
	room->wire_slack += info.tcpi_notsent_bytes; /* the kernel goes on sending after a close */
	if (reset || info.tcpi_state == TCP_CLOSED)
		room->wire_slack += EGRESS_CUT_SLACK;
}

static void close_end(struct conn *c, struct end *x, bool reset)
{
	/* The client's sockets are born to reset, so that our death does: an end is asked for. */
	const struct linger linger = { .l_onoff = reset };

	if (x->w.fd < 0)
		return;
	if (reset || x == &c->client)
		setsockopt(x->w.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	loop_unwatch_close(&c->g->loop, &x->w);
}

static void drop_upstream(struct conn *c, bool reset)
{
	close_end(c, &c->upstream, reset);
	memset(&c->upstream, 0, sizeof(c->upstream));
	c->upstream.w.fd = -1;
	lane_done(&c->out, &c->g->ground);
	lane_init(&c->out);
	if (c->dest)
		c->dest->open--;
	c->dest = NULL;
}

void conn_close(struct conn *c, bool reset)
{
	conn_count_wire(c->room, c->client.w.fd, reset);
	dial_stop(c);
	exchange_stop(c);
	drop_upstream(c, reset);
	close_end(c, &c->client, reset);
	lane_done(&c->back, &c->g->ground);
	loop_disarm(&c->deadline);
	loop_unqueue(&c->g->loop, &c->chore);
	if (c->prev)
		c->prev->next = c->next;
	else
		c->room->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->room->nconns--;
	door_resume(c->g, c->room);
	free(c->in);
	free(c);
}

/* --- Bytes before their time */

bool conn_keep(struct conn *c, const char *buf, size_t len)
{
	char *all;

	if (!len)
		return true;
	all = realloc(c->in, c->in_len + len);
	if (!all)
		return false;
	memmove(all + len, all, c->in_len);
	memcpy(all, buf, len);
	c->in = all;
	c->in_len += (uint32_t)len;
	c->in_scanned = 0;
	return true;
}

/* --- The decision */

static enum egress_verdict decide(const struct conn *c, const struct request *r, bool is_sound)
{
	struct egress_flow f = {
		.target = is_sound ? &r->target : NULL,
		.has_credential = r->has_credential,
		.policy = r->has_credential ? room_policy(c->room, r->token) : NULL,
		.used_bytes = fault_hit("gateway.ceiling") ? 0 : c->room->used_bytes,
	};

	return egress_decide(&f);
}

/* A whole head is in @buf, which is wiped: it holds the credential. @rest bytes came behind it. */
static void on_head(struct conn *c, char *buf, size_t len, size_t rest)
{
	struct head h;
	struct request r = { 0 };
	bool is_sound = head_parse_request(buf, len, &h) && request_read(&h, &r);
	enum egress_verdict v = decide(c, &r, is_sound);

	bool is_ready = v == EGRESS_ALLOW && (r.is_connect || exchange_prepare(c, &h, &r));

	explicit_bzero(r.token, sizeof(r.token));
	explicit_bzero(buf, len); /* nothing points into it any more */
	if (v != EGRESS_ALLOW) {
		conn_refuse(c, v, r.has_target ? &r.target : NULL);
		return;
	}
	c->is_connect = r.is_connect;
	if (!is_ready) {
		conn_close(c, true);
		return;
	}
	/* A request that alone would cross the ceiling is not begun. */
	if (!r.is_connect && c->out.held_len > room_allowance(c->room)) {
		conn_refuse(c, EGRESS_BYTE_QUOTA_EXCEEDED, &r.target);
		return;
	}
	if (!conn_keep(c, buf + len, rest)) {
		conn_close(c, true);
		return;
	}
	dial_start(c, &r.target);
}

/* Looks for a head in what has come so far. True: it was taken, or refused. */
static bool try_head(struct conn *c, char *buf, size_t len, size_t *scanned)
{
	switch (head_scan(buf, len, scanned)) {
	case HEAD_MORE:
		return false;
	case HEAD_DONE:
		on_head(c, buf, *scanned, len - *scanned);
		return true;
	default:
		explicit_bzero(buf, len);
		conn_refuse(c, EGRESS_BAD_REQUEST, NULL);
		return true;
	}
}

/* The same for bytes that are already ours. */
static bool try_kept_head(struct conn *c)
{
	char *buf = c->in;
	size_t len = c->in_len, scanned = c->in_scanned;
	bool is_taken;

	if (!len)
		return false;
	/* on_head keeps what is behind the head: it must find the place empty. */
	c->in = NULL;
	c->in_len = 0;
	c->in_scanned = 0;
	if (head_scan(buf, len, &scanned) == HEAD_MORE) {
		c->in = buf;
		c->in_len = (uint32_t)len;
		c->in_scanned = scanned;
		return false;
	}
	scanned = 0;
	is_taken = try_head(c, buf, len, &scanned);
	free(buf);
	return is_taken;
}

static bool append_in(struct conn *c, const char *buf, size_t len)
{
	char *all = realloc(c->in, c->in_len + len);

	if (!all)
		return false;
	memcpy(all + c->in_len, buf, len);
	c->in = all;
	c->in_len += (uint32_t)len;
	return true;
}

/* Reads heads; what has come is either a whole one in the shared buffer, or kept. */
static void step_head(struct conn *c)
{
	char *buf = c->g->ground.scratch;

	while (c->client.is_readable) {
		ssize_t n = recv(c->client.w.fd, buf, LANE_SCRATCH, 0);
		size_t scanned = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			c->client.is_readable = false;
			return;
		}
		if (n <= 0) {
			conn_close(c, n < 0);
			return;
		}
		if (c->in_len == 0) {
			arm(c, DEADLINE_HEAD); /* a kept-alive connection had a longer one */
			if (try_head(c, buf, (size_t)n, &scanned))
				return;
			c->in_scanned = scanned;
		}
		bool is_kept = append_in(c, buf, (size_t)n), is_first = c->in_len == (uint32_t)n;
		explicit_bzero(buf, (size_t)n); /* it may hold a credential, and others read here next */
		if (!is_kept)
			conn_close(c, true);
		if (!is_kept || (!is_first && try_kept_head(c)))
			return;
	}
}

void conn_next_request(struct conn *c)
{
	exchange_stop(c);
	drop_upstream(c, false);
	c->state = CONN_HEAD;
	arm(c, c->in_len ? DEADLINE_HEAD : DEADLINE_IDLE);
	if (!try_kept_head(c))
		step_head(c);
}

/* --- Refusing */

void conn_linger(struct conn *c)
{
	dial_stop(c);
	exchange_stop(c);
	drop_upstream(c, true);
	c->state = CONN_REFUSING;
	free(c->in);
	c->in = NULL;
	c->in_len = 0;
	arm(c, DEADLINE_HEAD);
	conn_step(c);
}

void conn_refuse(struct conn *c, enum egress_verdict v, const struct target *target)
{
	char text[1024];
	size_t n = refusal_render(v, target, text, sizeof(text));

	room_count(c->room, target, v);
	if (!n || !lane_send(&c->back, &c->client, text, n)) {
		conn_close(c, true);
		return;
	}
	conn_linger(c);
}

/*
 * The answer is on its way. Closing while the client still sends would reset
 * the connection and take the answer with it: so read on, and throw away.
 */
static void step_refusing(struct conn *c)
{
	enum lane_result r = lane_flush(&c->back, &c->client, &c->g->ground);

	if (r == LANE_BROKEN) {
		conn_close(c, true);
		return;
	}
	if (r == LANE_BUSY && !c->back.is_shut) {
		shutdown(c->client.w.fd, SHUT_WR);
		c->back.is_shut = true;
	}
	while (c->client.is_readable) {
		ssize_t n = recv(c->client.w.fd, c->g->ground.scratch, LANE_SCRATCH, 0);

		if (n < 0 && errno == EAGAIN) {
			c->client.is_readable = false;
			return;
		}
		c->drained += n > 0 ? (uint32_t)n : 0;
		if ((n <= 0 && (n == 0 || errno != EINTR)) || c->drained > DRAIN_MAX) {
			conn_close(c, false);
			return;
		}
	}
}

/* --- Tunnels */

static void on_chore(struct chore *k)
{
	conn_step(CONTAINER_OF(k, struct conn, chore));
}

static void step_tunnel(struct conn *c)
{
	struct lane_ground *g = &c->g->ground;
	uint64_t moved = 0;
	enum lane_result out = lane_pump(&c->out, &c->client, &c->upstream, c->room, c->dest, true,
					 c->back.is_shut, g, &moved);
	enum lane_result back = out;

	if (out > LANE_CUT)
		back = lane_pump(&c->back, &c->upstream, &c->client, c->room, c->dest, false,
				 c->out.is_shut, g, &moved);

	if (out <= LANE_CUT || back <= LANE_CUT) {
		conn_close(c, true);
		return;
	}
	if (out == LANE_ENDED && back == LANE_ENDED) {
		conn_close(c, false);
		return;
	}
	if (moved)
		arm(c, DEADLINE_IDLE);
	if (out == LANE_BUSY || back == LANE_BUSY)
		loop_queue(&c->g->loop, &c->chore, on_chore);
}

/* What came behind CONNECT's head is the tunnel's first bytes, now and not before. */
static bool start_tunnel(struct conn *c)
{
	uint64_t early = c->in_len;

	c->state = CONN_TUNNEL;
	if (!lane_send(&c->back, &c->client, established, sizeof(established) - 1))
		return false;
	if (early > room_allowance(c->room))
		return false;
	room_charge(c->room, c->dest, early, true);
	c->out.held = c->in;
	c->out.held_at = 0;
	c->out.held_len = (uint32_t)early;
	c->in = NULL;
	c->in_len = 0;
	return true;
}

void conn_connected(struct conn *c)
{
	static const int one = 1;

	setsockopt(c->upstream.w.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->dest = room_count(c->room, &c->dial->target, EGRESS_ALLOW);
	c->dest->open++;
	dial_stop(c);
	arm(c, DEADLINE_IDLE);
	if (c->is_connect) {
		if (!start_tunnel(c)) {
			conn_close(c, true);
			return;
		}
	} else {
		c->state = CONN_EXCHANGE;
		room_charge(c->room, c->dest, c->out.held_len, true);
	}
	conn_step(c);
}

void conn_step(struct conn *c)
{
	switch ((enum conn_state)c->state) {
	case CONN_HEAD:
		step_head(c);
		break;
	case CONN_RESOLVING:
	case CONN_DIALLING:
		break; /* the client's bytes wait in its socket */
	case CONN_TUNNEL:
		step_tunnel(c);
		break;
	case CONN_EXCHANGE:
		exchange_step(c);
		break;
	case CONN_REFUSING:
		step_refusing(c);
		break;
	}
}
