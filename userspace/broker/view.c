/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command and its job's view: the step that opens it, the handle and the id
 * it is dispatched with, what the server counted for it afterwards. A job runs
 * one command at a time, so the difference between two counts is one command's.
 */
#include "broker/broker.h"
#include "broker/command.h"

static struct command *of(struct skills_call *call)
{
	return CONTAINER_OF(call, struct command, skills_call);
}

static void on_view(struct skills_call *call, const struct k_view *v, int fd)
{
	struct command *c = of(call);

	view_opened(c->job->view, v, fd);
	command_go_on(c);
}

static void on_refused(struct skills_call *call, enum reason why, const char *text)
{
	command_refuse(of(call), why, text);
}

static void on_lost(struct skills_call *call)
{
	command_refuse(of(call), REASON_WORKER_UNAVAILABLE, skills_lost_text);
}

static const struct skills_events opening = {
	.view = on_view,
	.refused = on_refused,
	.lost = on_lost,
};

enum reason view_begin(struct command *c, bool *ret_wait, const char **ret_text)
{
	struct job *j = c->job;
	enum reason why = REASON_NONE;

	*ret_wait = false;
	if (!j->view && c->request.skills)
		why = view_new(&c->broker->skills, c->request.skills, &j->view, ret_text);
	if (why != REASON_NONE || !j->view || view_is_open(j->view))
		return why;
	if (view_open(j->view, &c->skills_call, &opening) < 0) {
		*ret_text = "no skills server";
		return REASON_WORKER_UNAVAILABLE;
	}
	*ret_wait = true;
	return REASON_NONE;
}

/* --- Counts */

static void over(struct command *c)
{
	if (c->host_uid)
		view_unbind(c->job->view, c->host_uid);
	record_begin(c);
}

static void on_counts(struct skills_call *call, const struct k_counts *n)
{
	struct command *c = of(call);
	struct skills_view *v = c->job->view;

	c->skills_files = n->files_looked_up - v->counted.files_looked_up;
	c->skills_bytes = n->bytes_served - v->counted.bytes_served;
	c->has_skills_counts = true;
	v->counted = *n;
	over(c);
}

static void on_not_counted(struct skills_call *call, enum reason why, const char *text)
{
	(void)why;
	(void)text;
	over(of(call));
}

static void on_lost_count(struct skills_call *call)
{
	over(of(call));
}

static const struct skills_events counting = {
	.counts = on_counts,
	.refused = on_not_counted,
	.lost = on_lost_count,
};

bool view_end(struct command *c)
{
	return c->job && c->job->view && c->job->view->number &&
	       view_count(c->job->view, &c->skills_call, &counting) == 0;
}
