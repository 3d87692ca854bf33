/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's half of egress: order and bookkeeping over the kernel's programs
 * and the job networks. Parses no byte of a caller, resolves nothing, decides
 * no name.
 */
#include "worker/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/interfaces.h"
#include "base/log.h"
#include "base/scope.h"
#include "policy/egress.h"
#include "policy/reason.h"
#include "policy/rules.h"
#include "proto/gateway.h"
#include "wire/msg.h"
#include "worker/egress_kernel.h"
#include "worker/egress_network.h"
#include "worker/egress_nft.h"

enum { TOKENS_LIVE = EGRESS_TOKENS_MAX, RESOLV_CONF_MAX = 64 * 1024 };

/* A token that a running command refers to; its index is the kernel's. */
struct token {
	uint64_t ref;  /* the broker's name for it; 0: unused */
	uint32_t uses; /* commands running on it */
	bool is_free;  /* without a ceiling, at least at first: what it used is in the slots' counts */
};

struct egress {
	struct egress_kernel *kernel;
	uint32_t address;
	uint16_t ports[EGRESS_PORTS];
	int gateway_fd;
	struct token tokens[TOKENS_LIVE]; /* [0] stays unused: index 0 is no token */
};

/* --- Opening */

static int read_own(struct address_rules *r, struct err *e)
{
	struct interface_address own[ADDRESS_RANGES_MAX];
	int n = interfaces_addresses(own, ARRAY_SIZE(own), e);

	for (int i = 0; i < n; i++) {
		struct address a = { .family = own[i].family };

		memcpy(a.bytes, own[i].bytes, sizeof(a.bytes));
		if (address_classify(&a) != ADDRESS_PROTECTED && !rules_add_own(r, &a))
			return err_set(e, E2BIG, "more than %d protected ranges",
				       ADDRESS_RANGES_MAX);
	}
	return n < 0 ? n : 0;
}

static int open_ring(struct egress *g, int gateway_fd, const char *pin_dir, const struct config *c,
		     struct err *e)
{
	struct address_rules rules = { .nnever = 0 };
	autofree char *conf = NULL;
	struct address resolver;
	struct rules_fault f;
	struct err ignored;
	uint16_t port;
	size_t len;
	bool has_resolver;

	if (!*c->gateway_resolver)
		fd_read_file(AT_FDCWD, "/etc/resolv.conf", RESOLV_CONF_MAX, &conf, &len, &ignored);
	has_resolver = rules_resolver(c->gateway_resolver, conf ? conf : "", &resolver, &port);
	if (!has_resolver && *c->gateway_resolver)
		return err_set(e, EINVAL, "gateway.resolver: no address");
	if (!rules_add_ranges(&rules, c->gateway_protected, &f))
		return err_set(e, EINVAL, "gateway.protected: \"%.*s\"", (int)f.len, f.at);
	if (!rules_add_exceptions(&rules, c->gateway_exceptions, &f))
		return err_set(e, EINVAL, "gateway.exceptions: \"%.*s\"", (int)f.len, f.at);
	if (read_own(&rules, e) < 0)
		return -e->code;
	return egress_kernel_open_ring(g->kernel, gateway_fd, pin_dir, &resolver, has_resolver, port,
				       &rules, e);
}

int egress_open(int jobs_fd, int gateway_fd, const char *pin_dir, const struct config *c,
		struct egress **ret, struct err *e)
{
	struct egress *g = calloc(1, sizeof(*g));

	if (!g)
		return err_set(e, ENOMEM, "out of memory");
	g->gateway_fd = -1;
	g->address = rules_gateway_address(c->gateway_address);
	g->ports[0] = (uint16_t)c->gateway_port;
	int rc = fault_step("egress.open", e); /* a host that cannot guard */
	if (rc == 0 && !g->address)
		rc = err_set(e, EINVAL, "gateway.address: \"%s\" is no protected IPv4 address",
			     c->gateway_address);
	if (rc == 0)
		rc = egress_kernel_open(jobs_fd, pin_dir, &g->kernel, e);
	if (rc == 0)
		rc = open_ring(g, gateway_fd, pin_dir, c, e);
	if (rc == 0)
		*ret = g;
	else
		egress_free(g);
	return rc;
}

void egress_free(struct egress *g)
{
	if (!g)
		return;
	egress_kernel_free(g->kernel);
	if (g->gateway_fd >= 0)
		close(g->gateway_fd);
	free(g);
}

uint32_t egress_address_be(const struct egress *g)
{
	return htonl(g->address);
}

/* --- The gateway */

void egress_set_gateway(struct egress *g, int fd)
{
	if (g->gateway_fd >= 0)
		close(g->gateway_fd);
	g->gateway_fd = fd;
	/* A gateway that does not read must not stop the worker. */
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
}

bool egress_has_gateway(const struct egress *g)
{
	return g->gateway_fd >= 0;
}

static int tell_gateway(struct egress *g, enum gateway_msg type, uint64_t slot, const int *fds,
			unsigned nfds, struct err *e)
{
	struct g_room room = { .slot = slot };

	if (g->gateway_fd < 0)
		return err_set(e, ENOTCONN, "no gateway is there");
	return msg_send(g->gateway_fd, (uint16_t)type, &room, sizeof(room), fds, nfds, e);
}

/* --- Rooms */

/* A thread that cannot come home would act in a sandbox's network from then on. */
static void go_home(int home)
{
	struct err e;

	if (egress_network_leave(home, &e) < 0) {
		log_error("network", "error=\"%s\"", e.msg);
		_exit(EXIT_FAILURE);
	}
}

/* Inside the slot's network: everything that makes the room. Gives the door. */
static int furnish(struct egress *g, struct err *e)
{
	if (fault_step("egress.room", e) < 0)
		return -e->code;
	if (egress_network_assert_internal(g->address, e) < 0)
		return -e->code;
	egress_network_calm();
	if (egress_nft_load(g->address, g->ports, e) < 0)
		return -e->code;
	return egress_network_listen(g->address, g->ports[0], e);
}

static int reason_of(const struct err *why, struct err *e)
{
	return err_set(e, why->code == EXDEV ? REASON_NETWORK_NOT_INTERNAL
					     : REASON_EGRESS_UNAVAILABLE, "%s", why->msg);
}

int egress_room_open(struct egress *g, uint64_t slot, int pidfd, struct err *e)
{
	struct err why = { 0 };
	int home = egress_network_enter(pidfd, &why);

	if (home < 0)
		return reason_of(&why, e);
	autoclose int door = furnish(g, &why);
	go_home(home);
	/* No dup of the door stays here: with the gateway dead nobody must wait in its queue. */
	if (door < 0 || tell_gateway(g, G_ROOM, slot, &door, 1, &why) < 0)
		return reason_of(&why, e);
	return 0;
}

void egress_room_close(struct egress *g, uint64_t slot)
{
	struct err ignored; /* a gateway that is gone has no room either */

	tell_gateway(g, G_ROOM_GONE, slot, NULL, 0, &ignored);
}

static int assert_internal(const struct egress *g, int pidfd, struct err *e)
{
	struct err why = { 0 };
	int home = egress_network_enter(pidfd, &why), rc;

	if (home < 0)
		return err_set(e, REASON_WORKER_ERROR, "%s", why.msg);
	rc = fault_step("egress.assert", &why);
	if (rc == 0)
		rc = egress_network_assert_internal(g->address, &why);
	go_home(home);
	return rc < 0 ? err_set(e, REASON_NETWORK_NOT_INTERNAL, "%s", why.msg) : 0;
}

/* --- Commands */

static uint32_t find_token(const struct egress *g, uint64_t ref)
{
	for (uint32_t i = 1; i < TOKENS_LIVE; i++)
		if (g->tokens[i].ref == ref)
			return i;
	return 0;
}

/* The kernel's index of the run's token, with its budget in force. 0: no place. */
static uint32_t take_token(struct egress *g, const struct w_run *run)
{
	uint64_t budget = egress_kernel_budget(run->egress_max_bytes);
	uint32_t index = find_token(g, run->egress_token);

	if (index) {
		egress_kernel_token_budget(g->kernel, index, budget);
	} else {
		index = find_token(g, 0);
		if (!index)
			return 0;
		g->tokens[index].ref = run->egress_token;
		egress_kernel_token_set(g->kernel, index, budget, run->egress_used);
	}
	g->tokens[index].uses++;
	g->tokens[index].is_free |= budget == EGRESS_NO_BUDGET;
	return index;
}

static void drop_token(struct egress *g, uint32_t index)
{
	if (--g->tokens[index].uses)
		return;
	g->tokens[index].ref = 0;
	g->tokens[index].is_free = false;
	egress_kernel_token_set(g->kernel, index, 0, 0);
}

int egress_begin(struct egress *g, uint64_t cgroup_id, int pidfd, const struct w_run *run,
		 struct err *e)
{
	struct err why = { 0 };
	uint32_t index;

	if (assert_internal(g, pidfd, e) < 0)
		return -e->code;
	if (!run->egress_token || fault_step("egress.begin", &why) < 0)
		return err_set(e, REASON_EGRESS_REGISTRATION_FAILED, "no token");
	index = take_token(g, run);
	if (!index)
		return err_set(e, REASON_EGRESS_REGISTRATION_FAILED, "no place for another token");
	if (egress_kernel_slot_add(g->kernel, cgroup_id, index, g->address, g->ports, &why) < 0) {
		drop_token(g, index);
		return err_set(e, REASON_EGRESS_REGISTRATION_FAILED, "%s", why.msg);
	}
	return 0;
}

void egress_end(struct egress *g, uint64_t cgroup_id, uint64_t token, struct w_done *done)
{
	uint32_t index = find_token(g, token);
	struct egress_slot counts;
	struct err e;

	if (egress_kernel_slot_take(g->kernel, cgroup_id, &counts, &e) < 0)
		return; /* its command never began */
	done->egress_out_bytes = counts.out.bytes;
	done->egress_in_bytes = counts.in.bytes;
	done->egress_packets = counts.out.packets + counts.in.packets;
	done->egress_denied = counts.denied;
	done->egress_lost = counts.lost;
	done->egress_again = counts.again;
	if (!token || !index)
		return;
	if (g->tokens[index].is_free)
		egress_kernel_token_charge(g->kernel, index, counts.out.bytes + counts.in.bytes);
	done->egress_used = egress_kernel_token_used(g->kernel, index);
	drop_token(g, index);
}

/* --- Ceilings */

int egress_events_fd(const struct egress *g)
{
	return egress_kernel_events_fd(g->kernel);
}

struct cutter {
	struct egress *g;
	int (*pidfd_of)(void *ctx, uint64_t cgroup_id);
	void *ctx;
};

static void cut(void *ctx, uint64_t cgroup_id)
{
	struct cutter *k = ctx;
	int pidfd = k->pidfd_of(k->ctx, cgroup_id), home, n;
	struct err e = { 0 };

	if (pidfd < 0)
		return; /* it has ended meanwhile */
	home = egress_network_enter(pidfd, &e);
	if (home < 0)
		return; /* likewise */
	n = egress_network_destroy(k->g->address, k->g->ports, &e);
	go_home(home);
	if (n < 0)
		log_error("ceiling", "error=\"%s\"", e.msg);
	else
		log_info("ceiling", "connections=%d", n);
}

void egress_on_events(struct egress *g, int (*pidfd_of)(void *ctx, uint64_t cgroup_id), void *ctx)
{
	struct cutter k = { g, pidfd_of, ctx };

	egress_kernel_events_read(g->kernel, cut, &k);
}
