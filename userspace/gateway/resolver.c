/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c-ares on the gateway's loop. Owns asking; what an answer says is dns.c's
 * business, what may be dialled policy/address.c's.
 */
#include "gateway/resolver.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/scope.h"
#include "policy/host.h"
#include "policy/rules.h"

enum { SOCKETS_MAX = 32, TIMEOUT_MS = 2000, TRIES = 3, RESOLV_CONF_MAX = 64 * 1024 };

struct resolver_socket {
	struct watch w;
	struct resolver *r;
	bool is_used;
};

struct resolver {
	ares_channel channel;
	struct loop *loop;
	struct address address;
	uint16_t port;
	unsigned pending;
	struct resolver_socket sockets[SOCKETS_MAX];
};

struct lookup {
	struct resolver *r;
	lookup_done done; /* NULL: cancelled */
	void *ctx;
	enum dns_type type;
	bool is_synchronous; /* still inside resolver_ask */
	bool is_over;
	char name[HOST_MAX];
};

/* --- Sockets of c-ares as watches */

static void on_socket(struct watch *w, uint32_t events)
{
	struct resolver_socket *s = CONTAINER_OF(w, struct resolver_socket, w);
	ares_socket_t in = events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? w->fd : ARES_SOCKET_BAD;
	ares_socket_t out = events & EPOLLOUT ? w->fd : ARES_SOCKET_BAD;

	ares_process_fd(s->r->channel, in, out);
}

static struct resolver_socket *find_socket(struct resolver *r, int fd)
{
	struct resolver_socket *unused = NULL;

	for (int i = 0; i < SOCKETS_MAX; i++) {
		if (r->sockets[i].is_used && r->sockets[i].w.fd == fd)
			return &r->sockets[i];
		if (!r->sockets[i].is_used && !unused)
			unused = &r->sockets[i];
	}
	return unused;
}

/* c-ares closes its sockets itself, after it has said so here. */
static void on_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = ctx;
	struct resolver_socket *s = find_socket(r, fd);
	uint32_t events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);
	struct err ignored;

	if (!s)
		return; /* more servers than we ever configure */
	if (!events) {
		if (s->is_used)
			epoll_ctl(r->loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		s->is_used = false;
		s->w.fd = -1;
	} else if (s->is_used) {
		loop_change(r->loop, &s->w, events);
	} else {
		s->is_used = loop_watch(r->loop, &s->w, fd, events, on_socket, &ignored) == 0;
		s->r = r;
	}
}

static int timeout_ms(void *ctx)
{
	struct resolver *r = ctx;
	struct timeval tv;

	if (!r->pending || !ares_timeout(r->channel, NULL, &tv))
		return -1;
	return (int)(tv.tv_sec * 1000 + tv.tv_usec / 1000 + 1);
}

static void turn(void *ctx)
{
	struct resolver *r = ctx;

	if (r->pending)
		ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

/* --- Opening */

/*
 * Who is asked: as configured, else what the host itself asks. A host that asks
 * nobody has a gateway that resolves no name; addresses still work.
 */
static int find_server(struct resolver *r, const char *setting, struct err *e)
{
	autofree char *text = NULL;
	struct err ignored;
	size_t len;

	if (!*setting)
		fd_read_file(AT_FDCWD, "/etc/resolv.conf", RESOLV_CONF_MAX, &text, &len, &ignored);
	if (rules_resolver(setting, text ? text : "", &r->address, &r->port))
		return 0;
	if (*setting)
		return err_set(e, EINVAL, "gateway.resolver: \"%s\" is no address", setting);
	r->address.family = 0;
	return 0;
}

static int set_server(struct resolver *r, struct err *e)
{
	struct ares_addr_port_node node = { .family = r->address.family == 4 ? AF_INET : AF_INET6,
					    .udp_port = r->port,
					    .tcp_port = r->port };
	int rc;

	if (!r->address.family)
		return 0;
	memcpy(&node.addr, r->address.bytes, r->address.family == 4 ? 4 : 16);
	rc = ares_set_servers_ports(r->channel, &node);
	return rc == ARES_SUCCESS ? 0 : err_set(e, EINVAL, "resolver: %s", ares_strerror(rc));
}

int resolver_open(struct loop *l, const char *server, struct resolver **ret, struct err *e)
{
	struct ares_options o = { .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
				  .timeout = TIMEOUT_MS,
				  .tries = TRIES,
				  .sock_state_cb = on_state };
	struct resolver *r = calloc(1, sizeof(*r));
	char lookups[] = "b";
	int rc;

	if (!r)
		return err_set(e, ENOMEM, "out of memory");
	if (find_server(r, server, e) < 0) {
		free(r);
		return -e->code;
	}
	r->loop = l;
	o.sock_state_cb_data = r;
	o.lookups = lookups;
	rc = ares_init_options(&r->channel, &o,
			       ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
				       ARES_OPT_SOCK_STATE_CB | ARES_OPT_LOOKUPS);
	if (rc != ARES_SUCCESS) {
		free(r);
		return err_set(e, EIO, "c-ares: %s", ares_strerror(rc));
	}
	if (set_server(r, e) < 0) {
		resolver_free(r);
		return -e->code;
	}
	l->extra_timeout = timeout_ms;
	l->extra_turn = turn;
	l->extra_ctx = r;
	*ret = r;
	return 0;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	ares_destroy(r->channel);
	free(r);
}

void resolver_server(const struct resolver *r, struct address *ret_address, uint16_t *ret_port)
{
	*ret_address = r->address;
	*ret_port = r->port;
}

/* --- Asking */

static void on_answer(void *ctx, int status, int timeouts, unsigned char *buf, int len)
{
	struct lookup *k = ctx;
	struct address list[DNS_ADDRESSES_MAX];
	int n = -1;

	(void)timeouts;
	k->r->pending--;
	if (status == ARES_ENODATA || status == ARES_ENOTFOUND)
		n = 0;
	else if (buf && len > 0)
		n = dns_read_answer(buf, (size_t)len, k->type, k->name, list);
	k->is_over = true;
	if (k->done)
		k->done(k->ctx, n, list);
	if (!k->is_synchronous)
		free(k);
}

struct lookup *resolver_ask(struct resolver *r, const char *name, enum dns_type type,
			    lookup_done done, void *ctx)
{
	bool is_off = !r->address.family || fault_hit("gateway.resolve");
	struct lookup *k = is_off ? NULL : calloc(1, sizeof(*k));

	if (!k) {
		done(ctx, -1, NULL);
		return NULL;
	}
	k->r = r;
	k->done = done;
	k->ctx = ctx;
	k->type = type;
	k->is_synchronous = true;
	snprintf(k->name, sizeof(k->name), "%s", name);
	r->pending++;
	ares_query(r->channel, k->name, ns_c_in, (int)type, on_answer, k);
	k->is_synchronous = false;
	if (!k->is_over)
		return k;
	free(k);
	return NULL;
}

void lookup_cancel(struct lookup *k)
{
	if (k)
		k->done = NULL;
}
