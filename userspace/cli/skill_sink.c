/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ways for one stream. Knows no skill: bytes in, an object or a refusal out.
 */
#include "cli/skill_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/scope.h"
#include "json/json.h"
#include "skill/store.h"

enum { ANSWER_MAX = 64 * 1024 };

/* --- The stager, for root */

static int spawn(const struct places *p, const char *const *args, struct skill_sink *ret,
		 struct err *e)
{
	char program[4096], store[PLACES_PATH_MAX + 16];
	const char *argv[8] = { "cordon-skills", args[0], store };
	int in[2], out[2];

	for (size_t i = 1; args[i]; i++)
		argv[i + 2] = args[i];
	snprintf(store, sizeof(store), "%s/%s", p->state, SKILL_STORE_NAME);
	if (places_program("cordon-skills", program, sizeof(program), e) < 0 ||
	    fd_mkdir_parents(p->state, 0755, e) < 0)
		return -e->code;
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return err_set(e, errno, "pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		return err_set(e, errno, "fork: %s", strerror(errno));
	if (pid == 0) {
		static char *const no_environment[] = { NULL };
		if (dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0)
			_exit(126);
		execve(program, (char *const *)(uintptr_t)argv, no_environment);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	ret->child = pid;
	ret->to = in[1];
	ret->from = out[0];
	return 0;
}

/* Its output; 0 where it ended well, else -errno with the output as message. */
static int collect(struct skill_sink *s, char **ret, struct err *e)
{
	autofree char *text = NULL;
	size_t len = 0;
	int status = 0, rc;

	close(s->to);
	s->to = -1;
	rc = fd_read_all(s->from, ANSWER_MAX, &text, &len, e);
	close(s->from);
	s->from = -1;
	waitpid(s->child, &status, 0);
	s->child = 0;
	if (rc < 0)
		return err_wrap(e, "cordon-skills");
	if (len > 0 && text[len - 1] == '\n')
		text[len - 1] = '\0';
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, EBADMSG, "%s", len ? text : "cordon-skills did not answer");
	*ret = take_ptr(text);
	return 0;
}

int skill_stager_call(const struct places *p, const char *const *args, char **ret, struct err *e)
{
	struct skill_sink s; /* its buffer is not used */
	s.child = 0;
	s.to = s.from = -1;
	int rc = spawn(p, args, &s, e);

	return rc < 0 ? rc : collect(&s, ret, e);
}

/* --- The sink */

int skill_sink_open(const struct places *p, struct skill_sink *ret, enum reason *ret_reason,
		    struct err *e)
{
	static const char *const args[] = { "stage", NULL };
	struct err why;
	int rc;

	memset(ret, 0, sizeof(*ret));
	ret->places = p;
	ret->to = ret->from = -1;
	*ret_reason = REASON_STAGING_FAILED;
	signal(SIGPIPE, SIG_IGN); /* a refusal may come before the end of the stream */
	rc = http_open_upload(p->socket, "/v1/skills", &ret->http, e);
	if (rc == 0 || (rc != -ENOENT && rc != -ECONNREFUSED))
		return rc;
	if (geteuid() == 0)
		return spawn(p, args, ret, e);
	*ret_reason = cli_unreachable(p, e, &why);
	*e = why;
	return -e->code;
}

static int send_out(struct skill_sink *s, const void *buf, size_t len, struct err *e)
{
	int rc = 0;

	if (s->is_cut || len == 0)
		return 0;
	rc = s->child ? fd_write_all(s->to, buf, len, e) : http_upload(&s->http, buf, len, e);
	if (rc == -EPIPE || rc == -ECONNRESET) {
		s->is_cut = true;
		rc = 0;
	}
	return rc;
}

static int flush(struct skill_sink *s, struct err *e)
{
	size_t n = s->held;

	s->held = 0;
	return send_out(s, s->buffer, n, e);
}

int skill_sink_write(struct skill_sink *s, const void *buf, size_t len, struct err *e)
{
	int rc = len > sizeof(s->buffer) - s->held ? flush(s, e) : 0;

	if (rc == 0 && len > sizeof(s->buffer))
		return send_out(s, buf, len, e);
	if (rc == 0) {
		memcpy(s->buffer + s->held, buf, len);
		s->held += len;
	}
	return rc;
}

static int parse(const char *text, size_t len, json_t **ret, struct err *e)
{
	*ret = json_parse_strict(text, len, 8, e);
	return *ret ? 0 : err_wrap(e, "the answer");
}

static int finish_http(struct skill_sink *s, json_t **ret, enum reason *ret_reason, struct err *e)
{
	autofree char *text = calloc(1, ANSWER_MAX + 1);
	size_t len = 0;
	ssize_t n = 0;

	if (!text)
		return err_set(e, ENOMEM, "out of memory");
	if (!s->is_cut && http_upload(&s->http, "", 0, e) < 0 && e->code != EPIPE)
		return -e->code;
	if (http_read_head(&s->http, e) < 0)
		return -e->code;
	while (len < ANSWER_MAX && (n = http_read(&s->http, text + len, ANSWER_MAX - len, e)) > 0)
		len += (size_t)n;
	auto_json json_t *v = NULL;
	if (n < 0 || parse(text, len, &v, e) < 0)
		return -e->code;
	if (s->http.head.status / 100 == 2) {
		*ret = take_ptr(v);
		return 0;
	}
	enum reason r = cli_text(v, "reason") ? reason_from_code(cli_text(v, "reason")) : REASON_NONE;
	*ret_reason = r == REASON_NONE ? REASON_STAGING_FAILED : r;
	const char *words = cli_text(v, "text");
	return err_set(e, EPERM, "%s", words ? words : reason_row(*ret_reason)->meaning);
}

int skill_sink_finish(struct skill_sink *s, json_t **ret, enum reason *ret_reason, struct err *e)
{
	autofree char *text = NULL;
	int rc;

	*ret_reason = REASON_STAGING_FAILED;
	rc = flush(s, e);
	if (rc < 0)
		return rc;
	if (!s->child)
		return finish_http(s, ret, ret_reason, e);
	rc = collect(s, &text, e);
	return rc < 0 ? rc : parse(text, strlen(text), ret, e);
}

void skill_sink_drop(struct skill_sink *s)
{
	char *text = NULL;
	struct err ignored;

	if (s->child)
		collect(s, &text, &ignored);
	free(text);
	http_close(&s->http);
}
