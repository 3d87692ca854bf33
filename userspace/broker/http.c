/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd inside the broker's loop: it has an epoll descriptor of its
 * own, which stands in ours. A request that waits is suspended, which takes its
 * connection out of libmicrohttpd's sight; so each connection also stands in
 * our epoll with no event asked for but the hang-up, which epoll always tells.
 */
#include "broker/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"

enum {
	FDS_RESERVED = 256,
	ACCEPTS_AT_ONCE = 32,
	SWEEP_MS = 5000,
	SKIP_MAX = 64 * 1024, /* of a refused request's body */
};

/* --- Answers */

/* How long nothing may pass; 0: for ever. */
static void set_patience(struct exchange *x, unsigned seconds)
{
	MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

static const char *const fault_format =
	"{\"reason\":\"%s\",\"text\":\"%s\",\"decision\":\"denied\"}\n";

/* A refusal of the door itself; @text is ours and needs no escaping. */
static void answer_fault(struct exchange *x, unsigned status, const char *reason, const char *text)
{
	char *body = NULL;
	int n = asprintf(&body, fault_format, reason, text);

	exchange_answer(x, status, "application/json", n < 0 ? NULL : body, n < 0 ? 0 : (size_t)n);
}

static void resume(struct exchange *x)
{
	if (!x->is_suspended)
		return;
	x->is_suspended = false;
	x->http->wants_run = true;
	MHD_resume_connection(x->connection);
}

static void suspend(struct exchange *x)
{
	if (x->is_suspended)
		return;
	x->is_suspended = true;
	MHD_suspend_connection(x->connection);
}

static void answer_with(struct exchange *x, unsigned status, const char *type,
			struct MHD_Response *r)
{
	if (x->response || !r) {
		if (r)
			MHD_destroy_response(r);
		else
			x->is_gone = true; /* out of memory: the connection is closed */
		resume(x);
		return;
	}
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	x->response = r;
	x->status = status;
	resume(x);
}

void exchange_answer(struct exchange *x, unsigned status, const char *type, char *body, size_t len)
{
	struct MHD_Response *r =
		body ? MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE) : NULL;

	if (body && !r)
		free(body);
	if (r) {
		x->held += len;
		x->http->held += len;
	}
	answer_with(x, status, type, r);
}

void exchange_add_field(struct exchange *x, const char *name, const char *value)
{
	if (x->response)
		MHD_add_response_header(x->response, name, value);
}

void exchange_answer_static(struct exchange *x, unsigned status, const char *type,
			    const char *body, size_t len)
{
	answer_with(x, status, type,
		    MHD_create_response_from_buffer(len, (void *)(uintptr_t)body,
						    MHD_RESPMEM_PERSISTENT));
}

static ssize_t on_pull(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct exchange *x = cls;

	(void)pos;
	if (x->is_gone || !x->pull)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	ssize_t n = x->pull(x->owner, buf, max);
	if (n < 0) {
		x->pull = NULL; /* its owner may be gone */
		return MHD_CONTENT_READER_END_OF_STREAM;
	}
	if (n == 0)
		suspend(x);
	return n;
}

void exchange_answer_stream(struct exchange *x, const char *type,
			    ssize_t (*pull)(void *owner, char *buf, size_t max))
{
	x->pull = pull;
	x->is_streaming = true;
	set_patience(x, 0); /* a command may be silent as long as it runs */
	answer_with(x, MHD_HTTP_OK, type,
		    MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, HTTP_POOL_BYTES, on_pull, x,
						      NULL));
}

void exchange_go_on(struct exchange *x)
{
	resume(x);
}

void exchange_hurry(struct exchange *x)
{
	set_patience(x, HTTP_IDLE_S);
	resume(x);
}

const char *exchange_query(struct exchange *x, const char *key)
{
	return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, key);
}

struct known_keys {
	const char *const *known;
	bool is_strange;
};

static enum MHD_Result check_key(void *cls, enum MHD_ValueKind kind, const char *key,
				 const char *value)
{
	struct known_keys *k = cls;

	(void)kind;
	(void)value;
	for (const char *const *p = k->known; *p; p++)
		if (strcmp(*p, key) == 0)
			return MHD_YES;
	k->is_strange = true;
	return MHD_NO;
}

bool exchange_query_is(struct exchange *x, const char *const *known)
{
	struct known_keys k = { .known = known };

	MHD_get_connection_values(x->connection, MHD_GET_ARGUMENT_KIND, check_key, &k);
	return !k.is_strange;
}

/* --- Routes */

/* Fills the parameters of @x where @url fits @path. */
static bool path_fits(const char *path, const char *url, struct exchange *x)
{
	unsigned nparams = 0;

	while (*path) {
		if (*path != '{') {
			if (*path++ != *url++)
				return false;
			continue;
		}
		size_t n = strcspn(url, "/");
		if (n == 0 || n >= HTTP_PARAM_MAX || nparams == HTTP_PARAMS)
			return false;
		memcpy(x->param[nparams], url, n);
		x->param[nparams++][n] = '\0';
		url += n;
		path += strcspn(path, "}") + 1;
	}
	return *url == '\0';
}

static void find_route(struct exchange *x, const char *method, const char *url)
{
	bool is_known = false;

	for (size_t i = 0; i < x->http->nroutes; i++) {
		const struct route *r = &x->http->routes[i];
		if (!path_fits(r->path, url, x))
			continue;
		is_known = true;
		if (strcmp(r->method, method) == 0) {
			x->route = r;
			return;
		}
	}
	if (is_known)
		answer_fault(x, MHD_HTTP_METHOD_NOT_ALLOWED, "invalid_request",
			     "this path does not take that method");
	else
		answer_fault(x, MHD_HTTP_NOT_FOUND, "invalid_request", "no such path");
}

static bool announces_too_much(struct exchange *x)
{
	const char *len = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND,
						      MHD_HTTP_HEADER_CONTENT_LENGTH);

	return len && !x->route->chunk && strtoull(len, NULL, 10) > x->route->body_max;
}

static void start_exchange(struct exchange *x, const char *method, const char *url)
{
	find_route(x, method, url);
	if (!x->route)
		return;
	if (x->route->roles && !(x->route->roles & x->peer->roles))
		answer_fault(x, MHD_HTTP_FORBIDDEN, "capability_denied",
			     "this peer does not have the role");
	else if (announces_too_much(x))
		answer_fault(x, MHD_HTTP_CONTENT_TOO_LARGE, "invalid_request",
			     "the body is too large");
	else if (x->route->begin)
		x->route->begin(x->http->broker, x);
	if (!x->response && x->route->chunk)
		set_patience(x, 0); /* somebody types it */
}

/* --- Bodies */

static void body_drop(struct exchange *x)
{
	x->http->held -= x->body_cap;
	x->held -= x->body_cap;
	free(x->body);
	x->body = NULL;
	x->body_len = x->body_cap = 0;
}

static void body_add(struct exchange *x, const char *buf, size_t len)
{
	size_t need = x->body_len + len + 1;

	if (x->is_too_large)
		return;
	if (need > x->route->body_max + 1 || (need > x->body_cap && http_is_full(x->http))) {
		x->is_too_large = true;
		body_drop(x);
		return;
	}
	if (need > x->body_cap) {
		size_t cap = x->body_cap ? x->body_cap * 2 : 1024;
		while (cap < need)
			cap *= 2;
		char *more = realloc(x->body, cap);
		if (!more) {
			x->is_too_large = true;
			body_drop(x);
			return;
		}
		x->http->held += cap - x->body_cap;
		x->held += cap - x->body_cap;
		x->body = more;
		x->body_cap = cap;
	}
	memcpy(x->body + x->body_len, buf, len);
	x->body_len += len;
	x->body[x->body_len] = '\0';
}

/* --- libmicrohttpd's callbacks */

static enum MHD_Result queue(struct exchange *x)
{
	return MHD_queue_response(x->connection, x->status, x->response);
}

static struct exchange *exchange_new(struct http *h, struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct client *client = info ? info->socket_context : NULL;
	struct exchange *x = client ? calloc(1, sizeof(*x)) : NULL;

	if (!x)
		return NULL;
	x->http = h;
	x->client = client;
	x->peer = &client->peer;
	x->connection = c;
	client->exchange = x;
	return x;
}

static enum MHD_Result take_chunk(struct exchange *x, const char *buf, size_t *len)
{
	if (!x->route->chunk) {
		body_add(x, buf, *len);
		*len = 0;
		return MHD_YES;
	}
	*len -= x->route->chunk(x, buf, *len);
	if (*len)
		suspend(x);
	return MHD_YES;
}

/* A refused request's body is read to its end where it is small: who still writes would miss why. */
static bool has_big_body(struct exchange *x)
{
	const char *len = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND,
						      MHD_HTTP_HEADER_CONTENT_LENGTH);

	return len && strtoull(len, NULL, 10) > SKIP_MAX;
}

static enum MHD_Result skip_chunk(struct exchange *x, size_t *len)
{
	x->received += *len;
	*len = 0;
	return x->received > SKIP_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **con_cls)
{
	struct exchange *x = *con_cls;

	(void)version;
	if (!x) {
		x = *con_cls = exchange_new(cls, c);
		if (!x)
			return MHD_NO;
		start_exchange(x, method, url);
		return x->response && has_big_body(x) ? queue(x) : MHD_YES;
	}
	if (x->is_gone)
		return MHD_NO;
	if (*upload_len)
		return x->response ? skip_chunk(x, upload_len) : take_chunk(x, upload, upload_len);
	if (!x->response && !x->is_begun) {
		x->is_begun = true;
		if (x->is_too_large)
			answer_fault(x, MHD_HTTP_CONTENT_TOO_LARGE, "invalid_request",
				     "the body is too large");
		else
			x->route->handle(x->http->broker, x);
	}
	if (x->is_gone)
		return MHD_NO;
	if (x->response)
		return queue(x);
	suspend(x);
	return MHD_YES;
}

static void tell_gone(struct exchange *x)
{
	void (*on_gone)(struct exchange *) = x->on_gone;

	x->on_gone = NULL;
	x->is_gone = true;
	if (on_gone)
		on_gone(x);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **con_cls,
			 enum MHD_RequestTerminationCode how)
{
	struct exchange *x = *con_cls;

	(void)cls;
	(void)c;
	if (!x)
		return;
	*con_cls = NULL;
	if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
		tell_gone(x);
	x->on_gone = NULL;
	x->http->held -= x->held;
	if (x->route && (x->route->chunk || x->is_streaming))
		set_patience(x, HTTP_IDLE_S);
	x->client->exchange = NULL;
	x->client->since_ms = clock_monotonic_ms();
	if (x->response)
		MHD_destroy_response(x->response);
	free(x->body);
	free(x);
}

static void client_free(struct client *c)
{
	struct http *h = c->http;

	loop_unwatch(h->loop, &c->hangup);
	*(c->prev ? &c->prev->next : &h->clients) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	if (h->by_fd[c->fd] == c)
		h->by_fd[c->fd] = NULL;
	h->nclients--;
	peer_done(&c->peer);
	free(c);
}

static void on_connection(void *cls, struct MHD_Connection *c, void **socket_context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct http *h = cls;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*socket_context = info ? h->by_fd[info->connect_fd] : NULL;
	} else if (*socket_context) {
		client_free(*socket_context);
		*socket_context = NULL;
	}
}

/* --- Connections */

static void on_hangup(struct watch *w, uint32_t events)
{
	struct client *c = CONTAINER_OF(w, struct client, hangup);
	struct exchange *x = c->exchange;

	c->http->wants_run = true;
	if (!(events & (EPOLLHUP | EPOLLERR)) || !x)
		return; /* libmicrohttpd sees the end itself */
	tell_gone(x);
	resume(x);
}

static size_t connections_of(const struct http *h, uid_t uid)
{
	size_t n = 0;

	for (const struct client *c = h->clients; c; c = c->next)
		n += c->peer.uid == uid;
	return n;
}

/* One user may take three quarters of the places and no more. */
static bool has_place(const struct http *h, uid_t uid)
{
	if (h->nclients >= h->clients_max)
		return false;
	return h->nclients < h->clients_max / 4 * 3 ||
	       connections_of(h, uid) < h->clients_max / 4 * 3;
}

static void on_sweep(struct timer *t);

static int client_add(struct http *h, int fd, struct err *e)
{
	static const struct sockaddr_un anyone = { .sun_family = AF_UNIX };
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(e, ENOMEM, "connection: out of memory");
	if ((size_t)fd >= h->nfds || peer_of_socket(fd, h->rules, &c->peer, e) < 0) {
		free(c);
		return -EMFILE;
	}
	if (!has_place(h, c->peer.uid) ||
	    loop_watch(h->loop, &c->hangup, fd, EPOLLET, on_hangup, e) < 0) {
		peer_done(&c->peer);
		free(c);
		return -EMFILE;
	}
	c->http = h;
	c->fd = fd;
	c->since_ms = clock_monotonic_ms();
	c->next = h->clients;
	if (h->clients)
		h->clients->prev = c;
	h->clients = c;
	h->by_fd[fd] = c;
	h->nclients++;
	/* Closes @fd itself where it fails. */
	if (MHD_add_connection(h->daemon, fd, (const struct sockaddr *)&anyone,
			       sizeof(anyone)) != MHD_YES) {
		client_free(c);
		return err_set(e, ENOMEM, "connection: libmicrohttpd refuses it");
	}
	if (!h->sweep.is_set)
		loop_timer_set(h->loop, &h->sweep, SWEEP_MS, on_sweep);
	h->wants_run = true;
	return 1; /* the descriptor is libmicrohttpd's */
}

static void on_listen(struct watch *w, uint32_t events)
{
	struct http *h = CONTAINER_OF(w, struct http, listen_watch);

	(void)events;
	for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
		struct err e = { 0 };
		int fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		if (client_add(h, fd, &e) == -EMFILE) {
			h->refused++;
			close(fd);
		}
	}
}

/* Whoever sends a request drop by drop is cut off; idle connections likewise. */
static void on_sweep(struct timer *t)
{
	struct http *h = CONTAINER_OF(t, struct http, sweep);
	uint64_t now = clock_monotonic_ms();

	for (struct client *c = h->clients; c; c = c->next) {
		bool is_served = c->exchange && (c->exchange->is_begun || c->exchange->response ||
						 (c->exchange->route && c->exchange->route->chunk));
		if (!is_served && now - c->since_ms > HTTP_RECEIVE_S * 1000)
			shutdown(c->fd, SHUT_RDWR);
	}
	if (h->clients)
		loop_timer_set(h->loop, &h->sweep, SWEEP_MS, on_sweep);
}

static void on_daemon(struct watch *w, uint32_t events)
{
	(void)events;
	CONTAINER_OF(w, struct http, daemon_watch)->wants_run = true;
}

int http_before_wait(struct http *h)
{
	unsigned long long ms;

	h->wants_run |= h->due_ms && clock_monotonic_ms() >= h->due_ms;
	for (int i = 0; i < 64 && h->wants_run; i++) {
		h->wants_run = false;
		MHD_run(h->daemon);
		if (MHD_get_timeout(h->daemon, &ms) == MHD_YES && ms == 0)
			h->wants_run = true;
	}
	if (h->wants_run)
		return 0;
	h->due_ms = 0;
	if (MHD_get_timeout(h->daemon, &ms) != MHD_YES)
		return -1;
	h->due_ms = clock_monotonic_ms() + ms;
	return ms > 60000 ? 60000 : (int)ms;
}

bool http_is_full(const struct http *h)
{
	return h->held >= HTTP_HELD_MAX;
}

/* --- Opening */

static size_t raise_descriptors(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 1024;
	rlim_t want = HTTP_CONNECTIONS_MAX + 2 * FDS_RESERVED;
	if (rl.rlim_cur < want) {
		rl.rlim_cur = rl.rlim_max < want ? rl.rlim_max : want;
		if (setrlimit(RLIMIT_NOFILE, &rl) < 0)
			getrlimit(RLIMIT_NOFILE, &rl);
	}
	return rl.rlim_cur > want ? want : rl.rlim_cur;
}

int http_open(struct http *h, struct broker *b, struct loop *l, int listen_fd,
	      const struct route *routes, size_t n, struct peer_rules *rules, struct err *e)
{
	h->broker = b;
	h->loop = l;
	h->routes = routes;
	h->nroutes = n;
	h->rules = rules;
	h->listen_fd = listen_fd;
	h->nfds = raise_descriptors();
	h->clients_max = h->nfds > 2 * FDS_RESERVED ? h->nfds - FDS_RESERVED : h->nfds / 2;
	if (h->clients_max > HTTP_CONNECTIONS_MAX)
		h->clients_max = HTTP_CONNECTIONS_MAX;
	h->by_fd = calloc(h->nfds, sizeof(*h->by_fd));
	if (!h->by_fd)
		return err_set(e, ENOMEM, "http: out of memory");
	h->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
			MHD_USE_SUPPRESS_DATE_NO_CLOCK,
		0, NULL, NULL, on_request, h, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)HTTP_POOL_BYTES, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)HTTP_IDLE_S, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
	if (!h->daemon)
		return err_set(e, errno, "http: libmicrohttpd does not start");
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info || loop_watch(l, &h->daemon_watch, info->epoll_fd, EPOLLIN, on_daemon, e) < 0)
		return err_set(e, EIO, "http: libmicrohttpd cannot be watched");
	return 0;
}

int http_listen(struct http *h, struct err *e)
{
	return loop_watch(h->loop, &h->listen_watch, h->listen_fd, EPOLLIN, on_listen, e);
}

void http_stop_listening(struct http *h)
{
	loop_unwatch(h->loop, &h->listen_watch);
	if (h->listen_fd >= 0)
		close(h->listen_fd);
	h->listen_fd = -1;
}
