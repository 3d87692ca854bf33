/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress programs' userspace twin: load, attach, pin, maps. Does not know
 * commands or jobs (worker/egress.c), nor what the numbers mean (include/abi).
 */
#include "worker/egress_kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/scope.h"
#include "egress.skel.h"
#include "gateway.skel.h"
#include "worker/attach.h"

#define PIN_PREFIX "egress_"
#define TOKENS_BYTES (EGRESS_TOKENS_MAX * sizeof(struct egress_token))

struct egress_kernel {
	struct egress_bpf *job;
	struct gateway_bpf *ring;
	struct link_set job_links, ring_links;
	struct egress_token *tokens; /* the map itself, mapped */
	struct ring_buffer *events;
	void (*over)(void *ctx, uint64_t cgroup_id); /* during egress_kernel_events_read */
	void *over_ctx;
};

static int on_event(void *ctx, void *data, size_t size)
{
	struct egress_kernel *k = ctx;
	const struct egress_event *ev = data;

	if (size >= sizeof(*ev) && k->over)
		k->over(k->over_ctx, ev->cgroup_id);
	return 0;
}

static int load_job(struct egress_kernel *k, int jobs_fd, struct err *e)
{
	uint32_t level;
	int rc = attach_level(jobs_fd, &level, e);

	if (rc < 0)
		return rc;
	k->job = egress_bpf__open();
	if (!k->job)
		return err_set(e, errno, "open bpf/egress: %s", strerror(errno));
	k->job->rodata->slot_level = level;
	rc = egress_bpf__load(k->job);
	if (rc < 0)
		return err_set(e, -rc, "load bpf/egress: %s", strerror(-rc));
	k->tokens = mmap(NULL, TOKENS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			 bpf_map__fd(k->job->maps.tokens), 0);
	if (k->tokens == MAP_FAILED) {
		k->tokens = NULL;
		return err_set(e, errno, "map the tokens: %s", strerror(errno));
	}
	k->events = ring_buffer__new(bpf_map__fd(k->job->maps.events), on_event, k, NULL);
	return k->events ? 0 : err_set(e, errno, "open the events: %s", strerror(errno));
}

int egress_kernel_open(int jobs_fd, const char *pin_dir, struct egress_kernel **ret, struct err *e)
{
	struct egress_kernel *k = calloc(1, sizeof(*k));
	struct attach_place at = { jobs_fd, pin_dir, PIN_PREFIX };
	int rc;

	if (!k)
		return err_set(e, ENOMEM, "out of memory");
	rc = load_job(k, jobs_fd, e);
	if (rc == 0)
		rc = attach_all(k->job->obj, &at, &k->job_links, e);
	if (rc < 0) {
		egress_kernel_free(k);
		return rc;
	}
	*ret = k;
	return 0;
}

/* Sixteen bytes, IPv4 as ::ffff:a.b.c.d: how the ring's maps spell an address. */
static void spread(const struct address *a, uint8_t out[16])
{
	memset(out, 0, 16);
	if (a->family == 6) {
		memcpy(out, a->bytes, 16);
		return;
	}
	out[10] = out[11] = 0xff;
	memcpy(out + 12, a->bytes, 4);
}

static int put_exempt(struct egress_kernel *k, const struct address *a, uint16_t port,
		      struct err *e)
{
	struct egress_exempt key = { .port = port };
	uint32_t one = 1;
	int rc;

	spread(a, key.address);
	rc = bpf_map_update_elem(bpf_map__fd(k->ring->maps.gateway_exempt), &key, &one, BPF_ANY);
	return rc < 0 ? err_set(e, -rc, "exempt an address: %s", strerror(-rc)) : 0;
}

static int put_range(struct egress_kernel *k, const struct address_range *r, struct err *e)
{
	struct egress_range key = { .bits = r->bits + (r->net.family == 4 ? 96u : 0) };
	uint32_t one = 1;
	int rc;

	spread(&r->net, key.address);
	rc = bpf_map_update_elem(bpf_map__fd(k->ring->maps.gateway_ranges), &key, &one, BPF_ANY);
	return rc < 0 ? err_set(e, -rc, "protect a range: %s", strerror(-rc)) : 0;
}

static int fill_ring(struct egress_kernel *k, const struct address *resolvers, unsigned nresolvers,
		     uint16_t resolver_port, const struct address_rules *rules, struct err *e)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < nresolvers; i++)
		rc = put_exempt(k, &resolvers[i], resolver_port, e);
	for (unsigned i = 0; rc == 0 && i < rules->nexempt; i++)
		rc = put_exempt(k, &rules->exempt[i], 0, e);
	for (unsigned i = 0; rc == 0 && i < rules->nranges; i++)
		rc = put_range(k, &rules->ranges[i], e);
	return rc;
}

int egress_kernel_open_ring(struct egress_kernel *k, int gateway_fd, const char *pin_dir,
			    const struct address *resolvers, unsigned nresolvers,
			    uint16_t resolver_port, const struct address_rules *rules,
			    struct err *e)
{
	struct attach_place at = { gateway_fd, pin_dir, PIN_PREFIX };
	int rc;

	k->ring = gateway_bpf__open_and_load();
	if (!k->ring)
		return err_set(e, errno, "load bpf/gateway: %s", strerror(errno));
	rc = fill_ring(k, resolvers, nresolvers, resolver_port, rules, e);
	if (rc == 0)
		rc = attach_all(k->ring->obj, &at, &k->ring_links, e);
	if (rc < 0) {
		gateway_bpf__destroy(k->ring);
		k->ring = NULL;
	}
	return rc;
}

void egress_kernel_free(struct egress_kernel *k)
{
	if (!k)
		return;
	attach_drop(&k->job_links);
	attach_drop(&k->ring_links);
	ring_buffer__free(k->events);
	if (k->tokens)
		munmap(k->tokens, TOKENS_BYTES);
	gateway_bpf__destroy(k->ring);
	egress_bpf__destroy(k->job);
	free(k);
}

int egress_kernel_unpin(const char *pin_dir, struct err *e)
{
	DIR *dir = opendir(pin_dir);
	struct dirent *d;
	int rc = 0;

	if (!dir)
		return errno == ENOENT ? 0 : err_set(e, errno, "open \"%s\": %s", pin_dir,
						     strerror(errno));
	while (rc == 0 && (d = readdir(dir)))
		if (strncmp(d->d_name, PIN_PREFIX, strlen(PIN_PREFIX)) == 0 &&
		    unlinkat(dirfd(dir), d->d_name, 0) < 0)
			rc = err_set(e, errno, "unpin \"%s\": %s", d->d_name, strerror(errno));
	closedir(dir);
	return rc;
}

void egress_kernel_token_set(struct egress_kernel *k, uint32_t index, uint64_t budget,
			     uint64_t used)
{
	__atomic_store_n(&k->tokens[index].used, used, __ATOMIC_SEQ_CST);
	__atomic_store_n(&k->tokens[index].budget, budget, __ATOMIC_SEQ_CST);
}

void egress_kernel_token_budget(struct egress_kernel *k, uint32_t index, uint64_t budget)
{
	__atomic_store_n(&k->tokens[index].budget, budget, __ATOMIC_SEQ_CST);
}

void egress_kernel_token_charge(struct egress_kernel *k, uint32_t index, uint64_t bytes)
{
	__atomic_fetch_add(&k->tokens[index].used, bytes, __ATOMIC_SEQ_CST);
}

uint64_t egress_kernel_token_used(const struct egress_kernel *k, uint32_t index)
{
	return __atomic_load_n(&k->tokens[index].used, __ATOMIC_SEQ_CST);
}

int egress_kernel_slot_add(struct egress_kernel *k, uint64_t cgroup_id, uint32_t token,
			   uint32_t gateway, const uint16_t ports[EGRESS_PORTS], struct err *e)
{
	struct egress_slot slot = { .token = token, .gateway = gateway };
	int rc;

	if (token == 0 || token >= EGRESS_TOKENS_MAX)
		return err_set(e, ERANGE, "token index %u", token);
	memcpy(slot.ports, ports, sizeof(slot.ports));
	rc = bpf_map_update_elem(bpf_map__fd(k->job->maps.slots), &cgroup_id, &slot, BPF_NOEXIST);
	return rc < 0 ? err_set(e, -rc, "open a slot's door: %s", strerror(-rc)) : 0;
}

int egress_kernel_slot_read(const struct egress_kernel *k, uint64_t cgroup_id,
			    struct egress_slot *ret)
{
	return bpf_map_lookup_elem(bpf_map__fd(k->job->maps.slots), &cgroup_id, ret);
}

int egress_kernel_slot_take(struct egress_kernel *k, uint64_t cgroup_id, struct egress_slot *ret,
			    struct err *e)
{
	int rc = bpf_map_lookup_and_delete_elem(bpf_map__fd(k->job->maps.slots), &cgroup_id, ret);

	return rc < 0 ? err_set(e, -rc, "shut a slot's door: %s", strerror(-rc)) : 0;
}

int egress_kernel_events_fd(const struct egress_kernel *k)
{
	return ring_buffer__epoll_fd(k->events);
}

void egress_kernel_events_read(struct egress_kernel *k, void (*over)(void *ctx, uint64_t cgroup_id),
			       void *ctx)
{
	k->over = over;
	k->over_ctx = ctx;
	ring_buffer__consume(k->events);
	k->over = NULL;
}

uint64_t egress_kernel_ring_denied(const struct egress_kernel *k)
{
	uint64_t denied = 0;
	uint32_t zero = 0;

	if (k->ring)
		bpf_map_lookup_elem(bpf_map__fd(k->ring->maps.gateway_denied), &zero, &denied);
	return denied;
}
