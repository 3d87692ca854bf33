/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-gateway: the only door out of a sandbox.
 *
 * Theory of operation. One process, one thread, one user of its own, no
 * capability, no file. The worker hands it listening sockets that lie inside
 * the network namespaces of slots; whatever it accepts there belongs to that
 * slot, whoever it claims to be. The broker registers token and policy of a
 * slot's command. A request is parsed strictly, decided by policy/egress.c,
 * resolved once, and connected to an address of that answer; then bytes pass
 * until the ceiling, the command's end, or silence.
 *
 *   phase      holds                                     opens
 *   start      root                                      S_START, configuration
 *   open       root                                      the resolver, the host's addresses
 *   confine    its user, sockets                         - after this we cannot gain privilege
 *   loop       the same                                  connections
 *
 * A start knows no token (E5). Its end takes every connection with it and
 * nothing else: what the kernel lets a sandbox reach does not depend on it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/interfaces.h"
#include "base/log.h"
#include "base/scope.h"
#include "gateway/control.h"
#include "gateway/privileges.h"
#include "policy/rules.h"

static int fault_in(const char *key, const struct rules_fault *f, struct err *e)
{
	return err_set(e, EINVAL, "%s: \"%.*s\" is no address, or one too many", key,
		       (int)(f->len < 60 ? f->len : 60), f->at);
}

/* The gateway itself, its resolver, and what the configuration says. */
static int read_rules(struct gateway *g, const struct config *c, struct err *e)
{
	uint32_t door = rules_gateway_address(c->gateway_address);
	struct address self = { .family = 4,
				.bytes = { (uint8_t)(door >> 24), (uint8_t)(door >> 16),
					   (uint8_t)(door >> 8), (uint8_t)door } };
	struct address resolver;
	struct rules_fault f;
	uint16_t port;

	if (!door)
		return err_set(e, EINVAL, "gateway.address: \"%s\" is no protected IPv4 address",
			       c->gateway_address);
	resolver_server(g->resolver, &resolver, &port);
	rules_add_never(&g->rules, &self);
	if (resolver.family)
		rules_add_never(&g->rules, &resolver);
	else
		log_error("resolver", "error=\"no nameserver in /etc/resolv.conf: no name resolves\"");
	if (!rules_add_ranges(&g->rules, c->gateway_protected, &f))
		return fault_in("gateway.protected", &f, e);
	if (!rules_add_exceptions(&g->rules, c->gateway_exceptions, &f))
		return fault_in("gateway.exceptions", &f, e);
	if (g->rules.nexempt)
		log_info("exceptions", "addresses=\"%s\" note=\"reachable although protected\"",
			 c->gateway_exceptions);
	return 0;
}

/* The host's own addresses as they are now, behind @first ranges that stay. */
static int read_own(struct gateway *g, uint16_t first, struct err *e)
{
	struct interface_address own[ADDRESS_RANGES_MAX];
	int n = interfaces_addresses(own, ARRAY_SIZE(own), e);

	if (n < 0)
		return n;
	g->rules.nranges = first;
	for (int i = 0; i < n; i++) {
		struct address a = { .family = own[i].family };

		memcpy(a.bytes, own[i].bytes, sizeof(a.bytes));
		if (address_classify(&a) != ADDRESS_PROTECTED && !rules_add_own(&g->rules, &a))
			return err_set(e, E2BIG, "more than %d protected ranges",
				       ADDRESS_RANGES_MAX);
	}
	return 0;
}

static void on_netlink(struct watch *w, uint32_t events)
{
	struct gateway *g = CONTAINER_OF(w, struct gateway, netlink);
	char unused[8192];
	struct err e;

	(void)events;
	while (recv(w->fd, unused, sizeof(unused), 0) > 0)
		;
	/* Not knowing what is ours, we reach nothing more. */
	if (read_own(g, g->own_first, &e) < 0) {
		log_error("own_addresses", "error=\"%s\"", e.msg);
		g->loop.is_ended = true;
	}
}

static int open_all(struct gateway *g, struct start *s, struct err *e)
{
	const struct config *c = &s->config;
	const uint32_t lengths[DEADLINE_KINDS] = {
		[DEADLINE_HEAD] = (uint32_t)c->gateway_head_ms,
		[DEADLINE_DIAL] = (uint32_t)c->gateway_dial_ms,
		[DEADLINE_IDLE] = (uint32_t)c->gateway_idle_ms,
		[DEADLINE_SOON] = 100,
	};
	int netlink;

	signal(SIGPIPE, SIG_IGN); /* splice into a closed socket knows no MSG_NOSIGNAL */
	g->conns_per_room = c->gateway_connections;
	if (loop_open(&g->loop, lengths, e) < 0 || lane_ground_open(&g->ground, e) < 0 ||
	    resolver_open(&g->loop, c->gateway_resolver, &g->resolver, e) < 0 ||
	    read_rules(g, c, e) < 0)
		return -e->code;
	g->own_first = g->rules.nranges;
	netlink = interfaces_watch(e);
	if (netlink < 0 || loop_watch(&g->loop, &g->netlink, netlink, EPOLLIN, on_netlink, e) < 0)
		return -e->code;
	return read_own(g, g->own_first, e);
}

static int run(struct gateway *g, struct start *s, struct err *e)
{
	uint32_t missing;

	if (start_receive(s, e) < 0 || confine_early(&gateway_confinement, e) < 0 ||
	    open_all(g, s, e) < 0)
		return -e->code;
	/* After this we cannot gain privilege. */
	if (confine_final(&gateway_confinement,
			  &(struct confine_as){ .uid = s->s.uid, .gid = s->s.gid }, &missing,
			  e) < 0)
		return -e->code;
	/* The broker first: whoever waits for the plane to be up finds it able. */
	if (control_open(g, s, e) < 0 || control_ready(g, e) < 0 || start_ready(e) < 0)
		return -e->code;
	/* After this no error may stop us but the end of cordond. */
	return loop_run(&g->loop, e);
}

int main(void)
{
	autofree struct gateway *g = calloc(1, sizeof(*g));
	struct start s;
	struct err e = { 0 };

	log_open("cordon-gateway");
	if (!g)
		return EXIT_FAILURE;
	if (run(g, &s, &e) < 0) {
		log_error("fatal", "error=\"%s\"", e.msg);
		start_fatal(&e);
		return EXIT_FAILURE;
	}
	control_close(g);
	resolver_free(g->resolver);
	lane_ground_close(&g->ground);
	loop_close(&g->loop);
	return EXIT_SUCCESS;
}
