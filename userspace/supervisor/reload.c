/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking over a changed configuration, all or nothing (F8): checked here,
 * offered to every daemon, and taken back from all where one refuses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/scope.h"
#include "supervisor/life.h"

enum { RELOAD_MS = 5000 };

static void finish(struct life *l)
{
	struct err *failed = l->reload_failed.code ? &l->reload_failed : NULL, ignored;

	if (failed) {
		log_error("reload", "%s", failed->msg);
		free(l->new_text);
	} else {
		log_info("reload", "done");
		free(l->plane->text);
		l->plane->text = l->new_text;
		l->plane->text_len = l->new_len;
		l->plane->config = l->new_config;
		fault_arm(l->plane->config.fault, &ignored); /* every daemon has read it */
	}
	l->new_text = NULL;
	l->reload_deadline_ms = 0;
	l->is_rolling_back = false;
	control_answer(l, CLIENT_RELOAD, failed);
}

static bool is_awaited(const struct life *l)
{
	for (int i = 0; i < D_COUNT; i++)
		if (l->daemons.of[i].answers_due)
			return true;
	return false;
}

/* Offers @text to every daemon that is ready; one that starts later reads what is in force. */
static int offer(struct life *l, const char *text, size_t len, struct err *e)
{
	for (int i = 0; i < D_COUNT; i++) {
		if (l->daemons.of[i].state != DAEMON_READY)
			continue;
		if (daemons_send_config(&l->daemons, l->plane, (enum daemon_id)i, text, len, e) < 0)
			return err_wrap(e, daemon_rows[i].name);
		l->daemons.of[i].answers_due++;
	}
	l->reload_deadline_ms = clock_monotonic_ms() + RELOAD_MS;
	return 0;
}

static void refuse(struct life *l, const struct err *why)
{
	struct err e;

	if (!l->reload_failed.code)
		l->reload_failed = *why;
	if (l->is_rolling_back)
		return;
	l->is_rolling_back = true;
	if (offer(l, l->plane->text, l->plane->text_len, &e) < 0)
		log_error("reload", "roll back: %s", e.msg);
}

static int read_new(struct life *l, struct err *e)
{
	autofree char *text = NULL;
	size_t len;

	if (places_read_config(&l->plane->places, &l->new_config, &text, &len, e) < 0)
		return -e->code;
	const char *fixed = config_fixed_difference(&l->plane->config, &l->new_config);
	/* The environment may have decided the rollout; the file's line is then no change. */
	if (fixed && strcmp(fixed, "rollout") != 0)
		return err_set(e, EINVAL, "'%s' takes effect at a start only: down and up",
			       fixed);
	l->new_text = take_ptr(text);
	l->new_len = len;
	return 0;
}

void life_reload(struct life *l)
{
	struct err e;

	if (l->phase != LIFE_SERVING || l->new_text)
		return;
	l->reload_failed = (struct err){ 0 };
	if (read_new(l, &e) < 0) {
		log_error("reload", "%s", e.msg);
		control_answer(l, CLIENT_RELOAD, &e);
		return;
	}
	if (offer(l, l->new_text, l->new_len, &e) < 0)
		refuse(l, &e);
	if (!is_awaited(l))
		finish(l);
}

int reload_on_answer(struct life *l, enum daemon_id id, struct msg *m, struct err *e)
{
	struct s_result r;
	struct err why;

	(void)e;
	if (!l->daemons.of[id].answers_due)
		return 0; /* later than RELOAD_MS: that reload has been called failed */
	memcpy(&r, m->body, sizeof(r));
	r.text[sizeof(r.text) - 1] = '\0';
	l->daemons.of[id].answers_due--;
	if (r.code) {
		err_set(&why, r.code, "%s: %s", daemon_rows[id].name, r.text);
		refuse(l, &why);
	}
	if (!is_awaited(l))
		finish(l);
	return 0;
}

void reload_forget(struct life *l, enum daemon_id id)
{
	struct err why;

	if (!l->new_text || !l->daemons.of[id].answers_due)
		return;
	l->daemons.of[id].answers_due = 0;
	err_set(&why, ECHILD, "%s: died", daemon_rows[id].name);
	refuse(l, &why);
	if (!is_awaited(l))
		finish(l);
}

void reload_check(struct life *l, uint64_t now_ms)
{
	struct err why = { .code = ETIMEDOUT };

	if (!l->reload_deadline_ms || now_ms < l->reload_deadline_ms)
		return;
	for (int i = 0; i < D_COUNT; i++) {
		if (!l->daemons.of[i].answers_due)
			continue;
		l->daemons.of[i].answers_due = 0;
		err_set(&why, ETIMEDOUT, "%s: does not answer", daemon_rows[i].name);
	}
	refuse(l, &why);
	if (!is_awaited(l))
		finish(l);
}
