/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that runs: the worker's events and the two pipes. The worker says
 * when it has ended; the broker then reads the pipes to their end, which comes
 * at once because every writer is dead. Judges the end (Q2), records nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/command.h"

enum {
	READS_AT_ONCE = 4,
	READS_TO_DRAIN = 64,  /* more than a pipe can hold */
	ACCEPT_AFTER_MS = 20, /* a streaming client hears of a silent command */
};

static void on_pipe(struct watch *w, uint32_t events);

/* --- Pipes */

static bool pipes_are_closed(const struct command *c)
{
	for (int i = 0; i < OUT_STREAMS; i++)
		if (c->pipes[i].fd >= 0)
			return false;
	return true;
}

static void pipe_close(struct command *c, int i)
{
	loop_unwatch(&c->broker->loop, &c->pipes[i].watch);
	scope_close(&c->pipes[i].fd);
	c->pipes[i].fd = -1;
}

void run_pipes_close(struct command *c)
{
	for (int i = 0; i < OUT_STREAMS; i++)
		pipe_close(c, i);
}

/* One read. False: nothing more now. */
static bool pipe_read(struct command *c, int i)
{
	struct broker *b = c->broker;
	ssize_t n;

	do {
		n = read(c->pipes[i].fd, b->scratch, BROKER_SCRATCH);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		pipe_close(c, i);
		return false;
	}
	if (!output_add(&c->out[i], b->scratch, (size_t)n) || c->has_done)
		return true;
	if (c->out[i].is_broken)
		run_kill(c, REASON_WORKER_ERROR, TERMINATION_WORKER_ERROR);
	else
		run_kill(c, REASON_NONE, TERMINATION_OUTPUT_CAP_EXCEEDED);
	return true;
}

static void pipe_watch(struct command *c, int i)
{
	struct err e = { 0 };

	if (c->pipes[i].fd < 0 || c->pipes[i].watch.fn)
		return;
	if (loop_watch(&c->broker->loop, &c->pipes[i].watch, c->pipes[i].fd, EPOLLIN, on_pipe,
		       &e) < 0) {
		log_error("pipe", "error=\"%s\"", e.msg);
		c->out[i].is_broken = true;
		pipe_close(c, i);
	}
}

/* A client that does not read stops its command's pipes, not the broker. */
static void pipes_pause(struct command *c)
{
	for (int i = 0; i < OUT_STREAMS; i++)
		loop_unwatch(&c->broker->loop, &c->pipes[i].watch);
}

void run_pipes_resume(struct command *c)
{
	if (c->phase != COMMAND_RUNNING || stream_is_full(c))
		return;
	for (int i = 0; i < OUT_STREAMS; i++)
		pipe_watch(c, i);
}

/* --- The end */

/* Bytes that never reached it, or never reached us, for want of memory. */
static bool is_broken(const struct command *c)
{
	return c->feed.is_broken || c->out[OUT_STDOUT].is_broken || c->out[OUT_STDERR].is_broken;
}

static void judge(struct command *c)
{
	const struct w_done *d = &c->done;
	bool is_plain;

	c->termination = d->termination;
	c->reason = d->reason;
	if (c->termination <= TERMINATION_NONE || c->termination >= TERMINATION_COUNT)
		c->termination = TERMINATION_WORKER_ERROR;
	if (c->reason < REASON_NONE || c->reason >= REASON_COUNT)
		c->reason = REASON_WORKER_ERROR;
	is_plain = c->termination == TERMINATION_EXITED && c->reason == REASON_NONE;
	if (is_plain && is_broken(c)) {
		c->termination = TERMINATION_WORKER_ERROR;
		c->reason = REASON_WORKER_ERROR;
	} else if (is_plain && (c->out[OUT_STDOUT].is_truncated || c->out[OUT_STDERR].is_truncated))
		c->termination = TERMINATION_OUTPUT_CAP_EXCEEDED; /* it ended before the kill came */
	else if (is_plain && d->workspace_over && !d->oom_killed)
		c->termination = TERMINATION_DISK_QUOTA_EXCEEDED;
	if (c->termination == TERMINATION_DISK_QUOTA_EXCEEDED && c->job)
		job_end(&c->broker->jobs, c->job, REASON_JOB_TERMINATED);
	if (!c->has_started) { /* it ended before it began */
		c->is_denied = true;
		c->termination = TERMINATION_NONE;
		if (c->reason == REASON_NONE)
			c->reason = REASON_WORKER_ERROR;
	}
}

static void after_egress(struct command *c)
{
	if (!view_end(c))
		record_begin(c);
}

static void finish(struct command *c)
{
	loop_timer_clear(&c->broker->loop, &c->timer);
	for (int i = 0; i < OUT_STREAMS; i++)
		output_end(&c->out[i]);
	judge(c);
	egress_then(c, after_egress);
}

static void on_drain_limit(struct timer *t)
{
	struct command *c = CONTAINER_OF(t, struct command, timer);

	log_error("drain", "job=%s error=\"output pipes stay open\"", c->job_id);
	run_pipes_close(c);
	finish(c);
}

/* Everything that was written is in the pipes, and nothing more will be. */
static void drain(struct command *c)
{
	c->phase = COMMAND_DRAINING;
	c->has_done = true;
	feed_close(&c->feed);
	egress_unregister(c);
	for (int i = 0; i < OUT_STREAMS; i++)
		for (int n = 0; n < READS_TO_DRAIN && c->pipes[i].fd >= 0 && pipe_read(c, i); n++)
			;
	if (pipes_are_closed(c)) {
		finish(c);
		return;
	}
	for (int i = 0; i < OUT_STREAMS; i++)
		pipe_watch(c, i);
	loop_timer_set(&c->broker->loop, &c->timer, DRAIN_LIMIT_MS, on_drain_limit);
}

static void on_pipe(struct watch *w, uint32_t events)
{
	struct pipe_watch *p = CONTAINER_OF(w, struct pipe_watch, watch);
	struct command *c = p->command;
	int i = (int)(p - c->pipes);

	(void)events;
	for (int n = 0; n < READS_AT_ONCE && p->fd >= 0 && pipe_read(c, i); n++)
		;
	if (c->phase == COMMAND_DRAINING) {
		if (pipes_are_closed(c))
			finish(c);
		return;
	}
	if (c->request.is_stream && c->exchange) {
		stream_begin(c);
		if (stream_is_full(c))
			pipes_pause(c);
		stream_more(c);
	}
}

void run_kill(struct command *c, enum reason why, enum termination termination)
{
	if (c->phase != COMMAND_RUNNING || c->kill_termination != TERMINATION_NONE)
		return;
	c->kill_reason = why;
	c->kill_termination = termination;
	/* Output came before the word that it began: that word comes first, and then the end. */
	if (!c->has_started && termination != TERMINATION_EXITED)
		return;
	worker_kill(&c->broker->worker, &c->call, why, termination);
}

/* --- The worker's events */

static void on_slot(struct worker_call *call, const struct w_slot *s, const int fds[3])
{
	struct command *c = CONTAINER_OF(call, struct command, call);

	c->has_slot = c->has_image = true;
	c->slot = s->slot;
	c->cgroup_id = s->cgroup_id;
	c->host_uid = s->host_uid;
	memcpy(c->image, s->image_digest, sizeof(c->image));
	memcpy(c->slot_fds, fds, sizeof(c->slot_fds));
	command_go_on(c);
}

static void on_accept_time(struct timer *t)
{
	stream_begin(CONTAINER_OF(t, struct command, timer));
}

static void on_started(struct worker_call *call, const struct w_started *s)
{
	struct command *c = CONTAINER_OF(call, struct command, call);
	struct workspace *w = c->job->workspace;

	fault_hit("command.started");
	c->has_started = true;
	if (c->kill_termination > TERMINATION_EXITED)
		worker_kill(&c->broker->worker, call, c->kill_reason, c->kill_termination);
	c->started_ns = s->realtime_ns;
	if (s->workspace_bytes)
		c->limits.workspace_bytes = s->workspace_bytes;
	if (!w->is_used && !(c->job->is_oneshot && !w->is_run)) {
		w->is_used = true;
		if (c->job->is_kept && !w->is_run)
			job_keep(c->broker, c->job);
	}
	if (!c->request.is_stream || !c->exchange)
		return;
	/* Most commands end at once: then one answer serves for both. */
	if (c->request.stdin_kind == STDIN_STREAM)
		stream_begin(c);
	else
		loop_timer_set(&c->broker->loop, &c->timer, ACCEPT_AFTER_MS, on_accept_time);
}

static void on_done(struct worker_call *call, const struct w_done *d)
{
	struct command *c = CONTAINER_OF(call, struct command, call);

	fault_hit("command.done");
	c->done = *d;
	drain(c);
}

static void on_fail(struct worker_call *call, const struct w_fail *f)
{
	struct command *c = CONTAINER_OF(call, struct command, call);
	enum reason why = f->reason > REASON_NONE && f->reason < REASON_COUNT ? f->reason :
										REASON_WORKER_ERROR;

	if (c->kill_reason != REASON_NONE)
		why = c->kill_reason;
	c->has_slot = false; /* the worker has done away with it */
	if (c->has_started) {
		c->done = (struct w_done){ .termination = TERMINATION_WORKER_ERROR,
					   .reason = REASON_WORKER_ERROR,
					   .exit_code = -1 };
		drain(c);
		return;
	}
	command_refuse(c, why, f->text[0] ? f->text : NULL);
}

static void on_lost(struct worker_call *call)
{
	struct command *c = CONTAINER_OF(call, struct command, call);

	c->has_slot = false;
	if (c->phase == COMMAND_BEFORE) {
		command_refuse(c, REASON_WORKER_UNAVAILABLE, "the worker died");
		return;
	}
	c->text = c->text ? c->text : strdup("the worker died");
	c->done = (struct w_done){ .termination = TERMINATION_WORKER_ERROR,
				   .reason = c->has_started ? REASON_WORKER_ERROR :
							      REASON_OUTCOME_UNKNOWN,
				   .exit_code = -1 };
	/* It was let run, and may have, though nobody was left to say so (A3). */
	c->has_started = true;
	drain(c);
}

const struct worker_events run_events = {
	.slot = on_slot,
	.started = on_started,
	.done = on_done,
	.fail = on_fail,
	.lost = on_lost,
};

/* --- Dispatch */

static void fill_run(const struct command *c, struct w_run *r)
{
	const struct job *j = c->job;
	const struct workspace *w = j->workspace;

	r->slot = c->slot;
	r->limits = c->limits;
	r->argc = c->request.argc;
	r->workspace = j->is_oneshot && !w->is_run ? WORKSPACE_EPHEMERAL : WORKSPACE_KEYED;
	r->workspace_expect = w->is_used;
	memcpy(r->workspace_key, w->key, sizeof(r->workspace_key));
	/* For people who collect (W2): never parsed, so a cut one is fine. */
	int n = snprintf(r->workspace_label, sizeof(r->workspace_label), "%s/%s", j->org_id,
			 j->run_id ? j->run_id : j->id);
	(void)n;
	snprintf(r->cwd, sizeof(r->cwd), "%s", c->request.cwd);
	if (c->request.asked.workspace_bytes)
		r->flags |= RUN_WORKSPACE_SIZE_ASKED;
	egress_fill_run(c, r);
}

enum reason run_begin(struct command *c, const char **ret_text)
{
	struct broker *b = c->broker;
	struct w_run run = { 0 };
	struct err e = { 0 };

	fill_run(c, &run);
	autoclose int argv = fault_step("run.argv", &e) < 0 ?
				     -1 :
				     fd_sealed("argv", c->request.args, c->request.args_len, &e);
	if (argv < 0 || fault_hit("run.output") ||
	    !output_begin(&c->out[OUT_STDOUT], c->limits.output_bytes) ||
	    !output_begin(&c->out[OUT_STDERR], c->limits.output_bytes)) {
		*ret_text = "out of memory";
		return REASON_WORKER_ERROR;
	}
	retain_begin(c);
	const struct skills_view *view = c->job->view;
	const int fds[] = { argv, view ? view->fd : -1 };
	if (view) {
		run.flags |= RUN_HAS_SKILLS;
		view_bind(view, c->host_uid);
	}
	if (worker_run(&b->worker, &c->call, &run, fds, view ? 2 : 1) < 0) {
		*ret_text = "the worker died";
		return REASON_WORKER_UNAVAILABLE;
	}
	c->phase = COMMAND_RUNNING;
	feed_start(&c->feed, take_fd(&c->slot_fds[0]));
	for (int i = 0; i < OUT_STREAMS; i++) {
		c->pipes[i].fd = take_fd(&c->slot_fds[i + 1]);
		pipe_watch(c, i);
	}
	return REASON_NONE;
}
