/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A streamed answer: frames of an 8-byte head (kind, three zero bytes, length
 * in network order) and a payload; first `accepted`, then output as it is
 * produced, last the result. The client pulls; what it does not pull stays in
 * the pipe, and the pipe holds the command.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/command.h"
#include "json/json.h"
#include "wire/frames.h"

static const char content_type[] = "application/vnd.cordon.stream";

void stream_done(struct stream *s)
{
	free(s->head);
	memset(s, 0, sizeof(*s));
}

/* Next to go out: a frame's head and @text (may be NULL) behind it. */
static bool put_head(struct stream *s, enum frame_kind kind, uint32_t len, const char *text)
{
	size_t n = FRAME_HEAD + (text ? len : 0);
	char *head = malloc(n);

	if (!head)
		return false;
	frame_head((uint8_t *)head, kind, len);
	if (text)
		memcpy(head + FRAME_HEAD, text, len);
	free(s->head);
	s->head = head;
	s->head_at = 0;
	s->head_len = n;
	return true;
}

/* Chooses what comes next. False: nothing is there (yet, or any more). */
static bool next_frame(struct command *c)
{
	struct stream *s = &c->stream;

	for (unsigned i = 0; i < OUT_STREAMS; i++) {
		size_t n = output_ready(&c->out[i]);
		if (n == 0)
			continue;
		n = n > FRAME_OUTPUT_MAX ? FRAME_OUTPUT_MAX : n;
		if (!put_head(s, i == OUT_STDOUT ? FRAME_STDOUT : FRAME_STDERR, (uint32_t)n, NULL))
			return false;
		s->payload_of = i;
		s->payload_left = n;
		return true;
	}
	if (!c->is_answered || s->has_result)
		return false;
	size_t len = 0;
	char *text = result_text(c, false, &len);
	s->has_result = text && put_head(s, FRAME_RESULT, (uint32_t)len, text);
	free(text);
	return s->has_result;
}

static size_t take(struct command *c, char *buf, size_t max)
{
	struct stream *s = &c->stream;
	size_t n = s->head_len - s->head_at;

	if (n > 0) {
		n = n < max ? n : max;
		memcpy(buf, s->head + s->head_at, n);
		s->head_at += n;
		return n;
	}
	n = s->payload_left < max ? s->payload_left : max;
	n = output_take(&c->out[s->payload_of], buf, n);
	s->payload_left -= n;
	return n;
}

static ssize_t on_pull(void *owner, char *buf, size_t max)
{
	struct command *c = owner;
	struct stream *s = &c->stream;
	size_t done = 0;

	while (done < max) {
		if (s->head_at == s->head_len && s->payload_left == 0 && !next_frame(c))
			break;
		done += take(c, buf + done, max - done);
	}
	if (done > 0) {
		run_pipes_resume(c);
		return (ssize_t)done;
	}
	if (!c->is_answered)
		return 0;
	/* The whole of it is read (or memory ran out: the missing result says so). */
	c->exchange->on_gone = NULL;
	c->exchange = NULL;
	if (c->phase == COMMAND_ENDED)
		command_free(c);
	return -1;
}

bool stream_is_full(const struct command *c)
{
	return c->stream.is_on && output_ready(&c->out[OUT_STDOUT]) +
						  output_ready(&c->out[OUT_STDERR]) >
					  STREAM_HIGH;
}

void stream_more(struct command *c)
{
	if (!c->exchange)
		return;
	if (c->is_answered)
		exchange_hurry(c->exchange);
	else
		exchange_go_on(c->exchange);
}

void stream_begin(struct command *c)
{
	if (c->stream.is_on || !c->exchange)
		return;
	auto_json json_t *accepted =
		json_pack("{s:s, s:s}", "jobId", c->job_id, "commandId", c->id);
	size_t len = 0;
	char *text = accepted ? json_dump_compact(accepted, &len) : NULL;

	c->stream.is_on = text && put_head(&c->stream, FRAME_ACCEPTED, (uint32_t)len, text);
	free(text);
	if (c->stream.is_on) /* else it answers as one object in the end */
		exchange_answer_stream(c->exchange, content_type, on_pull);
}
