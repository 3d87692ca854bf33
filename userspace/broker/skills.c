/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to cordon-skills, and what a job holds of it. What a skill is, the
 * broker does not know: slugs go in, digests come out.
 */
#include "broker/skills.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "digest/digest.h"
#include "json/json.h"

enum { STATE_NEW = 1u << 0, STATE_READY = 1u << 1 };

int skills_init(struct skills_link *k, struct loop *l, struct msg *buf, struct err *e)
{
	memset(k, 0, sizeof(*k));
	k->loop = l;
	k->buf = buf;
	k->fd = k->root_fd = -1;
	if (digest_random(&k->broker, sizeof(k->broker)) < 0)
		return err_set(e, EIO, "no random bytes");
	k->broker |= 1; /* never 0 */
	return 0;
}

const char skills_lost_text[] = "the skills server was restarted, or does not answer";

bool skills_are_up(const struct skills_link *k)
{
	return k->fd >= 0 && k->is_ready && !k->is_broken && !k->is_silent;
}

static void lose_calls(struct skills_link *k)
{
	while (k->calls) {
		struct skills_call *c = k->calls;
		k->calls = c->next;
		c->req = 0;
		c->next = NULL;
		c->events->lost(c);
	}
}

static void lose(struct skills_link *k)
{
	if (k->fd < 0)
		return;
	loop_unwatch(k->loop, &k->watch);
	close(k->fd);
	k->fd = -1;
	k->is_ready = k->is_silent = false;
	lose_calls(k);
}

/* --- Calls */

void skills_forget(struct skills_link *k, struct skills_call *c)
{
	for (struct skills_call **p = &k->calls; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	c->req = 0;
	c->next = NULL;
}

static int send_message(struct skills_link *k, uint16_t type, const void *body, size_t len, int fd)
{
	struct err e = { 0 };
	bool is_there = k->fd >= 0 && k->is_ready && !k->is_broken; /* silence is no reason */
	int rc = is_there ? msg_send(k->fd, type, body, len, &fd, fd >= 0, &e) : -ENOTCONN;

	if (rc < 0 && rc != -ENOTCONN) {
		log_error("skills_send", "message=%u error=\"%s\"", type, e.msg);
		/* The loop finds the end and tells the others: never out of a caller's call. */
		k->is_broken = true;
		shutdown(k->fd, SHUT_RDWR);
	}
	return rc;
}

static void on_patience(struct timer *t)
{
	struct skills_link *k = CONTAINER_OF(t, struct skills_link, patience);
	uint64_t quiet_ms = clock_monotonic_ms() - k->heard_ms;
	uint64_t until_ms = k->ping.req ? 2 * SKILLS_PATIENCE_MS : SKILLS_PATIENCE_MS;

	if (!k->calls)
		return;
	if (quiet_ms < until_ms) {
		loop_timer_set(k->loop, t, until_ms - quiet_ms, on_patience);
	} else if (!k->ping.req) {
		loop_timer_set(k->loop, t, SKILLS_PATIENCE_MS, on_patience);
		skills_ping(k);
	} else {
		log_error("skills_silent", "quiet_ms=%llu", (unsigned long long)quiet_ms);
		k->is_silent = true;
		lose_calls(k);
	}
}

static void heard(struct skills_link *k)
{
	k->heard_ms = clock_monotonic_ms();
	if (k->is_silent)
		log_info("skills", "heard again");
	k->is_silent = false;
}

/* @body begins with the request's number. */
static int send_call(struct skills_link *k, struct skills_call *c,
		     const struct skills_events *events, uint16_t type, void *body, size_t len,
		     int fd)
{
	if (k->is_silent)
		return -ENOTCONN;
	if (!k->calls)
		k->heard_ms = clock_monotonic_ms();
	if (!k->patience.is_set)
		loop_timer_set(k->loop, &k->patience, SKILLS_PATIENCE_MS, on_patience);
	c->req = ++k->last_req;
	c->events = events;
	c->next = k->calls;
	k->calls = c;
	memcpy(body, &c->req, sizeof(c->req));
	int rc = send_message(k, type, body, len, fd);
	if (rc < 0)
		skills_forget(k, c);
	return rc;
}

int skills_stage(struct skills_link *k, struct skills_call *c, const struct skills_events *events,
		 int stream_fd)
{
	struct k_stage m = { 0 };

	return send_call(k, c, events, K_STAGE, &m, sizeof(m), stream_fd);
}

int skills_remove(struct skills_link *k, struct skills_call *c, const struct skills_events *events,
		  const char *slug, const char *hex)
{
	struct k_remove m = { .has_digest = hex != NULL };

	if (strlen(slug) > K_SLUG_MAX || (hex && digest_unhex(hex, m.digest, sizeof(m.digest)) < 0))
		return -EINVAL;
	memcpy(m.slug, slug, strlen(slug));
	return send_call(k, c, events, K_REMOVE, &m, sizeof(m), -1);
}

int skills_show(struct skills_link *k, struct skills_call *c, const struct skills_events *events,
		const char *slug, bool wants_all)
{
	struct k_show m = { .wants_all = wants_all };

	if (strlen(slug) > K_SLUG_MAX)
		return -EINVAL;
	memcpy(m.slug, slug, strlen(slug));
	return send_call(k, c, events, K_SHOW, &m, sizeof(m), -1);
}

int skills_read(struct skills_link *k, struct skills_call *c, const struct skills_events *events,
		const char *slug, const char *path)
{
	struct k_read m = { 0 };

	if (strlen(slug) > K_SLUG_MAX || strlen(path) >= sizeof(m.path))
		return -EINVAL;
	memcpy(m.slug, slug, strlen(slug));
	memcpy(m.path, path, strlen(path));
	return send_call(k, c, events, K_READ, &m, sizeof(m), -1);
}

/* --- Views */

static struct skills_view *view_alloc(struct skills_link *k, size_t count)
{
	struct skills_view *v = calloc(1, sizeof(*v) + count * sizeof(v->skills[0]));

	if (v) {
		v->link = k;
		v->fd = -1;
		v->count = (uint32_t)count;
	}
	return v;
}

enum reason view_new(struct skills_link *k, const json_t *slugs, struct skills_view **ret,
		     const char **text)
{
	size_t n = json_array_size(slugs);
	struct skills_view *v = n && n <= K_SKILLS_MAX ? view_alloc(k, n) : NULL;
	bool is_fine = v != NULL;

	for (size_t i = 0; is_fine && i < n; i++) {
		const char *slug = json_string_value(json_array_get(slugs, i));
		/* What a slug looks like is judged by skills; only what names a version is not theirs. */
		is_fine = slug && *slug && strlen(slug) <= K_SLUG_MAX && !strchr(slug, '@');
		v->skills[i].slug = is_fine ? strdup(slug) : NULL;
	}
	if (!is_fine) {
		view_free(v);
		*text = "'skills' is a list of 1 to 64 slugs";
		return REASON_INVALID_REQUEST;
	}
	*ret = v;
	return REASON_NONE;
}

struct kept_skill {
	const char *slug, *digest;
	bool requires_execution;
};

struct skills_view *view_from_json(struct skills_link *k, const json_t *skills)
{
	static const struct json_field fields[] = {
		FIELD(struct kept_skill, slug, "slug", FIELD_PTR, FIELD_REQUIRED, K_SLUG_MAX),
		FIELD(struct kept_skill, digest, "digest", FIELD_PTR, FIELD_REQUIRED, 0),
		FIELD(struct kept_skill, requires_execution, "requiresExecution", FIELD_BOOL, 0, 0),
	};
	size_t n = json_array_size(skills);
	struct skills_view *v = n && n <= K_SKILLS_MAX ? view_alloc(k, n) : NULL;

	for (size_t i = 0; v && i < n; i++) {
		struct kept_skill s = { 0 };
		struct err e;
		if (json_fields_read(json_array_get(skills, i), fields, ARRAY_SIZE(fields), &s, &e) < 0 ||
		    strncmp(s.digest, "sha256:", 7) != 0 ||
		    digest_unhex(s.digest + 7, v->skills[i].digest, DIGEST_LEN) < 0) {
			view_free(v);
			return NULL;
		}
		v->skills[i].slug = strdup(s.slug);
		v->skills[i].requires_execution = s.requires_execution;
	}
	return v;
}

json_t *view_to_json(const struct skills_view *v)
{
	json_t *all = json_array();

	for (uint32_t i = 0; v && i < v->count; i++) {
		char digest[7 + DIGEST_HEX_MAX] = "sha256:";
		digest_hex(v->skills[i].digest, DIGEST_LEN, digest + 7);
		json_array_append_new(all, json_pack("{s:s, s:s, s:b}", "slug", v->skills[i].slug,
						     "digest", digest, "requiresExecution",
						     v->skills[i].requires_execution));
	}
	return all;
}

static void close_number(struct skills_link *k, uint64_t number)
{
	struct k_view_ref m = { .req = ++k->last_req, .view = number }; /* answered to nobody */

	send_message(k, K_VIEW_CLOSE, &m, sizeof(m), -1);
}

static void view_close(struct skills_view *v)
{
	if (v->number)
		close_number(v->link, v->number);
	if (v->fd >= 0)
		close(v->fd);
	v->number = 0;
	v->fd = -1;
}

bool view_is_open(const struct skills_view *v)
{
	return v->number && v->generation == v->link->generation;
}

void view_free(struct skills_view *v)
{
	if (!v)
		return;
	view_close(v);
	for (uint32_t i = 0; i < v->count; i++)
		free(v->skills[i].slug);
	free(v);
}

static bool has_digest(const struct view_skill *s)
{
	static const uint8_t none[DIGEST_LEN];

	return memcmp(s->digest, none, sizeof(none)) != 0;
}

/* "SLUG" or, for a version that is known already, "SLUG@HEX". */
static size_t put_name(const struct view_skill *s, char *out)
{
	size_t n = strlen(s->slug);

	memcpy(out, s->slug, n);
	if (has_digest(s)) {
		out[n++] = '@';
		digest_hex(s->digest, DIGEST_LEN, out + n);
		n += 2 * DIGEST_LEN;
	}
	out[n] = '\0';
	return n + 1;
}

int view_open(struct skills_view *v, struct skills_call *c, const struct skills_events *events)
{
	autofree struct k_view_open *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	view_close(v);
	v->generation = v->link->generation;
	m->count = v->count;
	for (uint32_t i = 0; i < v->count; i++)
		m->bytes += (uint32_t)put_name(&v->skills[i], m->slugs + m->bytes);
	return send_call(v->link, c, events, K_VIEW_OPEN, m,
			 offsetof(struct k_view_open, slugs) + m->bytes, -1);
}

void view_opened(struct skills_view *v, const struct k_view *k, int fd)
{
	v->number = k->view;
	v->fd = fd;
	v->counted = (struct k_counts){ 0 };
	for (uint32_t i = 0; i < v->count && i < k->count; i++) {
		memcpy(v->skills[i].digest, k->skills[i].digest, DIGEST_LEN);
		v->skills[i].requires_execution = k->skills[i].requires_execution;
	}
}

void view_bind(const struct skills_view *v, uint32_t uid)
{
	struct k_view_bind m = { .view = v->number, .uid = uid };

	send_message(v->link, K_VIEW_BIND, &m, sizeof(m), -1);
}

void view_unbind(const struct skills_view *v, uint32_t uid)
{
	struct k_view_bind m = { .uid = uid };

	send_message(v->link, K_VIEW_BIND, &m, sizeof(m), -1);
}

int view_count(const struct skills_view *v, struct skills_call *c,
	       const struct skills_events *events)
{
	struct k_view_ref m = { .view = v->number };

	return send_call(v->link, c, events, K_VIEW_COUNT, &m, sizeof(m), -1);
}

/* --- Whether anybody is there */

static void pinged(struct skills_call *c)
{
	struct skills_link *k = CONTAINER_OF(c, struct skills_link, ping);

	if (k->on_pinged)
		k->on_pinged(k);
}

static void on_ping_counts(struct skills_call *c, const struct k_counts *n)
{
	(void)n;
	pinged(c);
}

static void on_ping_refused(struct skills_call *c, enum reason why, const char *text)
{
	(void)why;
	(void)text;
	pinged(c);
}

void skills_ping(struct skills_link *k)
{
	static const struct skills_events events = { .counts = on_ping_counts,
						     .refused = on_ping_refused,
						     .lost = pinged };
	struct k_view_ref m = { .view = 0 }; /* nobody's: refused, which is an answer */

	if (!k->ping.req && skills_are_up(k))
		send_call(k, &k->ping, &events, K_VIEW_COUNT, &m, sizeof(m), -1);
}

/* --- Answers */

static struct skills_call *take_call(struct skills_link *k, uint64_t req)
{
	for (struct skills_call *c = k->calls; c; c = c->next)
		if (c->req == req) {
			skills_forget(k, c);
			return c;
		}
	return NULL;
}

static void send_root(struct skills_link *k)
{
	struct k_root m = { .broker = k->broker };

	if (k->root_fd >= 0)
		send_message(k, K_ROOT, &m, sizeof(m), k->root_fd);
}

static int on_ready(void *ctx, struct msg *m, struct err *e)
{
	struct skills_link *k = ctx;

	(void)m;
	(void)e;
	k->is_ready = true;
	log_info("skills", "up");
	send_root(k);
	return 0;
}

static int on_view(void *ctx, struct msg *m, struct err *e)
{
	const struct k_view *v = (const void *)m->body; /* aligned */
	struct skills_call *c = take_call(ctx, v->req);

	(void)e;
	if (v->count > K_SKILLS_MAX ||
	    m->len != offsetof(struct k_view, skills) + v->count * sizeof(v->skills[0]))
		return err_set(e, EPROTO, "a view of %u skills", v->count);
	if (c && c->events->view)
		c->events->view(c, v, msg_take_fd(m, 0));
	else /* whoever asked has given up meanwhile */
		close_number(ctx, v->view);
	return 0;
}

static int on_counts(void *ctx, struct msg *m, struct err *e)
{
	struct k_counts n;

	(void)e;
	memcpy(&n, m->body, sizeof(n));
	struct skills_call *c = take_call(ctx, n.req);
	if (c && c->events->counts)
		c->events->counts(c, &n);
	return 0;
}

static int on_staged(void *ctx, struct msg *m, struct err *e)
{
	struct k_staged s;

	(void)e;
	memcpy(&s, m->body, sizeof(s));
	s.slug[K_SLUG_MAX] = '\0';
	s.front_matter_fault[sizeof(s.front_matter_fault) - 1] = '\0';
	struct skills_call *c = take_call(ctx, s.req);
	if (c && c->events->staged)
		c->events->staged(c, &s);
	return 0;
}

static int on_removed(void *ctx, struct msg *m, struct err *e)
{
	struct k_removed r;

	(void)e;
	memcpy(&r, m->body, sizeof(r));
	struct skills_call *c = take_call(ctx, r.req);
	if (c && c->events->removed)
		c->events->removed(c);
	return 0;
}

static int on_text(void *ctx, struct msg *m, struct err *e)
{
	struct k_text t;

	(void)e;
	memcpy(&t, m->body, sizeof(t));
	struct skills_call *c = take_call(ctx, t.req);
	if (c && c->events->text)
		c->events->text(c, msg_take_fd(m, 0), t.len);
	return 0;
}

static int on_refused(void *ctx, struct msg *m, struct err *e)
{
	struct k_refused r;

	(void)e;
	memcpy(&r, m->body, sizeof(r));
	r.text[sizeof(r.text) - 1] = '\0';
	struct skills_call *c = take_call(ctx, r.req);
	if (c)
		c->events->refused(c, r.reason > REASON_NONE && r.reason < REASON_COUNT ?
					      r.reason :
					      REASON_STAGING_FAILED,
				   r.text);
	return 0;
}

#define EXACT(type) sizeof(type), sizeof(type)

static const struct msg_permit permits[] = {
	/* type, states, length, descriptors, handler */
	{ K_READY, STATE_NEW, 0, 0, 0, 0, on_ready },
	{ K_VIEW, STATE_READY, offsetof(struct k_view, skills), sizeof(struct k_view), 1, 1, on_view },
	{ K_COUNTS, STATE_READY, EXACT(struct k_counts), 0, 0, on_counts },
	{ K_STAGED, STATE_READY, EXACT(struct k_staged), 0, 0, on_staged },
	{ K_REMOVED, STATE_READY, EXACT(struct k_removed), 0, 0, on_removed },
	{ K_TEXT, STATE_READY, EXACT(struct k_text), 1, 1, on_text },
	{ K_REFUSED, STATE_READY, EXACT(struct k_refused), 0, 0, on_refused },
};

static void on_readable(struct watch *watch, uint32_t events)
{
	struct skills_link *k = CONTAINER_OF(watch, struct skills_link, watch);

	(void)events;
	while (k->fd >= 0) {
		struct err e = { 0 };
		int rc = msg_recv(k->fd, k->buf, &e);
		if (rc == -EAGAIN)
			return;
		if (rc > 0)
			heard(k);
		if (rc > 0)
			rc = msg_dispatch(permits, ARRAY_SIZE(permits),
					  k->is_ready ? STATE_READY : STATE_NEW, k, k->buf, &e) < 0 ?
				     -EPROTO :
				     1;
		if (rc <= 0) {
			log_error("skills_lost", "error=\"%s\"", rc ? e.msg : "they are gone");
			lose(k);
		}
	}
}

int skills_connect(struct skills_link *k, int fd, struct err *e)
{
	lose(k);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		close(fd);
		return err_set(e, errno, "skills: %s", strerror(errno));
	}
	if (loop_watch(k->loop, &k->watch, fd, EPOLLIN, on_readable, e) < 0) {
		close(fd);
		return -e->code;
	}
	k->fd = fd;
	k->is_ready = k->is_broken = k->is_silent = false;
	return 0;
}

void skills_set_root(struct skills_link *k, int root_fd)
{
	if (k->root_fd >= 0)
		close(k->root_fd);
	k->root_fd = root_fd;
	k->generation++;
	send_root(k);
}
