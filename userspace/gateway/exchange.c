/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One plain HTTP request and its answer (E13): the head that goes upstream was
 * written anew, the bodies pass through byte for byte as far as their framing
 * says and not a byte further. The upstream connection serves this one request;
 * the client's may serve another, which is decided from the start.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/conn.h"

enum step { STEP_WAIT = 0, STEP_ON, STEP_OVER };

static void on_chore(struct chore *k)
{
	conn_step(CONTAINER_OF(k, struct conn, chore));
}

bool exchange_prepare(struct conn *c, const struct head *h, const struct request *r)
{
	size_t cap = h->len + 2 * HOST_TEXT_MAX;
	char *head = malloc(cap);
	size_t n = head ? request_render(h, r, head, cap) : 0;

	c->ex = n ? calloc(1, sizeof(*c->ex)) : NULL;
	if (!c->ex || !lane_hold(&c->out, head, n)) {
		free(head);
		return false;
	}
	free(head);
	body_init(&c->ex->request, r->framing, r->length, true);
	c->ex->is_head = r->is_head;
	c->ex->keep_alive = r->keep_alive;
	c->ex->minor = r->minor;
	return true;
}

void exchange_stop(struct conn *c)
{
	if (!c->ex)
		return;
	free(c->ex->head);
	free(c->ex);
	c->ex = NULL;
}

/* The connection is over, one way or the other. Always STEP_OVER: @c may be gone. */
static enum step fail(struct conn *c, enum egress_verdict v)
{
	struct target target;

	/* Once an answer has begun only a broken connection can say that it failed. */
	if (c->ex->has_response) {
		conn_close(c, true);
		return STEP_OVER;
	}
	target = c->dest->target;
	c->dest->open--;
	c->dest = NULL;
	conn_refuse(c, v, target.port ? &target : NULL);
	return STEP_OVER;
}

/* --- The request's body */

/* Sends what belongs to the body, keeps what lies behind it. */
static enum step pass_request(struct conn *c, const char *buf, size_t len)
{
	size_t used;

	if (!body_walk(&c->ex->request, buf, len, &used))
		return fail(c, EGRESS_BAD_REQUEST);
	room_charge(c->room, c->dest, used, true);
	if (!lane_send(&c->out, &c->upstream, buf, used))
		return fail(c, EGRESS_UPSTREAM_FAILED);
	if (!conn_keep(c, buf + used, len - used))
		return fail(c, EGRESS_UPSTREAM_FAILED);
	return STEP_ON;
}

/* Bytes that came with the head come first. */
static enum step pass_kept(struct conn *c)
{
	char *buf = c->in;
	uint32_t len = c->in_len;
	enum step s;

	if (len > room_allowance(c->room))
		return fail(c, EGRESS_BYTE_QUOTA_EXCEEDED);
	c->in = NULL;
	c->in_len = 0;
	s = pass_request(c, buf, len);
	free(buf);
	return s;
}

static enum step step_request(struct conn *c)
{
	int n;

	switch (lane_flush(&c->out, &c->upstream, &c->g->ground)) {
	case LANE_BUSY:
		break;
	case LANE_BROKEN:
		/* It may have answered before it closed: the answer's side will tell. */
	default:
		return STEP_WAIT;
	}
	if (body_is_done(&c->ex->request))
		return STEP_WAIT;
	if (c->in_len)
		return pass_kept(c);
	if (!c->client.is_readable)
		return STEP_WAIT;
	n = end_read(&c->client, c->room, c->g->ground.scratch, LANE_SCRATCH);
	if (n == -EAGAIN)
		return STEP_WAIT;
	if (n == -EDQUOT)
		return fail(c, EGRESS_BYTE_QUOTA_EXCEEDED);
	if (n <= 0) {
		conn_close(c, true);
		return STEP_OVER;
	}
	return pass_request(c, c->g->ground.scratch, (size_t)n);
}

/* --- The answer */

/* Whole bodies only: what the upstream sends behind the end is nobody's. */
static enum step pass_response(struct conn *c, const char *buf, size_t len)
{
	size_t used;

	if (!body_walk(&c->ex->response, buf, len, &used) ||
	    !lane_send(&c->back, &c->client, buf, used)) {
		conn_close(c, true);
		return STEP_OVER;
	}
	return STEP_ON;
}

/* The head in c->ex->head, of @len bytes, goes to the client; the rest is body. */
static enum step pass_response_head(struct conn *c, size_t len)
{
	struct exchange *x = c->ex;
	char out[HEAD_MAX + 256];
	enum framing framing;
	uint64_t length = 0;
	struct head h;
	size_t n;

	if (!head_parse_response(x->head, len, &h) || h.status == 101)
		return fail(c, EGRESS_UPSTREAM_FAILED);
	framing = head_response_framing(&h, x->is_head, &length);
	/* Without chunks the client of 1.0 has no use for chunks. */
	if (framing == FRAMING_BAD || (framing == FRAMING_CHUNKED && x->minor == 0))
		return fail(c, EGRESS_UPSTREAM_FAILED);
	if (framing == FRAMING_UNTIL_CLOSE)
		x->keep_alive = false;
	n = response_render(&h, framing, x->keep_alive, out, sizeof(out));
	if (!n || !lane_send(&c->back, &c->client, out, n)) {
		conn_close(c, true);
		return STEP_OVER;
	}
	x->head_len -= (uint32_t)len;
	memmove(x->head, x->head + len, x->head_len);
	x->scanned = 0;
	if (h.status / 100 == 1)
		return STEP_ON; /* an interim one; the answer is still to come */
	x->has_response = true;
	body_init(&x->response, framing, length, false);
	return pass_response(c, x->head, x->head_len);
}

static enum step step_response_head(struct conn *c)
{
	struct exchange *x = c->ex;

	switch (x->head_len ? head_scan(x->head, x->head_len, &x->scanned) : HEAD_MORE) {
	case HEAD_DONE:
		return pass_response_head(c, x->scanned);
	case HEAD_MORE:
		return STEP_WAIT;
	default:
		return fail(c, EGRESS_UPSTREAM_FAILED);
	}
}

static bool keep_response(struct exchange *x, const char *buf, size_t len)
{
	char *all = realloc(x->head, x->head_len + len);

	if (!all)
		return false;
	memcpy(all + x->head_len, buf, len);
	x->head = all;
	x->head_len += (uint32_t)len;
	return true;
}

static enum step on_response_end(struct conn *c)
{
	struct exchange *x = c->ex;

	if (!x->has_response)
		return fail(c, EGRESS_UPSTREAM_FAILED);
	if (x->response.framing != FRAMING_UNTIL_CLOSE) {
		conn_close(c, true); /* cut short: the client must not take it for whole */
		return STEP_OVER;
	}
	body_init(&x->response, FRAMING_NONE, 0, false);
	return STEP_ON;
}

static enum step read_response(struct conn *c)
{
	char *buf = c->g->ground.scratch;
	int n;

	if (!c->upstream.is_readable)
		return STEP_WAIT;
	n = end_read(&c->upstream, c->room, buf, LANE_SCRATCH);
	if (n == -EAGAIN)
		return STEP_WAIT;
	if (n == -EDQUOT)
		return fail(c, EGRESS_BYTE_QUOTA_EXCEEDED);
	if (n == 0)
		return on_response_end(c);
	if (n < 0)
		return fail(c, EGRESS_UPSTREAM_FAILED);
	room_charge(c->room, c->dest, (uint64_t)n, false);
	if (c->ex->has_response)
		return pass_response(c, buf, (size_t)n);
	if (!keep_response(c->ex, buf, (size_t)n))
		return fail(c, EGRESS_UPSTREAM_FAILED);
	return STEP_ON;
}

static enum step finish(struct conn *c)
{
	if (c->ex->keep_alive && body_is_done(&c->ex->request) && !c->out.held)
		conn_next_request(c);
	else
		conn_linger(c);
	return STEP_OVER;
}

static enum step step_response(struct conn *c)
{
	enum step s;

	switch (lane_flush(&c->back, &c->client, &c->g->ground)) {
	case LANE_BUSY:
		break;
	case LANE_BROKEN:
		conn_close(c, true);
		return STEP_OVER;
	default:
		return STEP_WAIT;
	}
	if (c->ex->has_response && body_is_done(&c->ex->response))
		return finish(c);
	if (!c->ex->has_response) {
		s = step_response_head(c);
		if (s != STEP_WAIT)
			return s;
	}
	return read_response(c);
}

void exchange_step(struct conn *c)
{
	enum { TURNS = 16 };
	bool is_waiting = false;

	for (int turn = 0; turn < TURNS && !is_waiting; turn++) {
		enum step out = step_request(c), back;

		if (out == STEP_OVER)
			return;
		back = step_response(c);
		if (back == STEP_OVER)
			return;
		is_waiting = out == STEP_WAIT && back == STEP_WAIT;
		if (!is_waiting)
			loop_arm(&c->g->loop, &c->deadline, DEADLINE_IDLE, c->deadline.fn);
	}
	if (!is_waiting)
		loop_queue(&c->g->loop, &c->chore, on_chore);
}
